"""The controlled adaptive solver of GAINS, written from its definition, and torchdiffeq's solvers.

The step size is always the first step times a power of the factor, so that all trajectories of a region of inputs
form a finite graph. A step whose error estimate is at most the tolerance is accepted; it may grow by the factor
where the larger step is expected to meet the tolerance too.
"""

import torch
from torchdiffeq import odeint

# Dormand and Prince 5(4), with Shampine's error weights, as torchdiffeq has it.
NODES = [0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1]
STAGES = [
    [],
    [1 / 5],
    [3 / 40, 9 / 40],
    [44 / 45, -56 / 15, 32 / 9],
    [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
    [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
    [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
]
WEIGHTS = [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0]
ERROR = [71 / 86400, 0, -142 / 50085, 71 / 2880, -5751 / 169600, 44 / 1575, -1 / 60]
ORDER = 5


def step(f, t, h, z):
    """The state after a step, and the L1 norm of its error estimate."""
    slopes = []
    for node, row in zip(NODES, STAGES):
        at = z + sum((h * weight * slope for weight, slope in zip(row, slopes)), torch.zeros_like(z))
        slopes.append(f(t + node * h, at))
    after = z + sum(h * weight * slope for weight, slope in zip(WEIGHTS, slopes))
    error = sum(h * weight * slope for weight, slope in zip(ERROR, slopes))
    return after, float(error.abs().sum())


def controlled(f, z, settings, errors=None):
    """The state at time 1, for a batch of one sample. The estimates of judged steps are added to `errors`."""
    factor, tolerance = settings["factor"], settings["tolerance"]
    t, h, clipped, rejections, settled = 0.0, min(settings["initial_step"], 1.0), False, 0, False
    while True:
        after, error = step(f, t, h, z)
        delta = error / tolerance
        if not settled and errors is not None:
            errors.append(delta)
        if not settled and delta > 1:
            # Smaller, unless the smallest step or the last tolerated rejection is reached: then take it as it is.
            if clipped and rejections < settings["rejections_after_clipping"]:
                h, rejections = h / factor, rejections + 1
            elif not clipped and h / factor >= settings["minimum_step"]:
                h = h / factor
            else:
                settled = True
            continue
        t, z = t + h, after
        if t > 1 - 1e-8:
            return z
        if not settled and delta <= factor**-ORDER:
            h = h * factor
        if t + h >= 1:
            h = 1 - t
            clipped = True


def one_by_one(solve):
    """Integrates a batch sample by sample: step sizes of one must not depend on the others."""

    def integrate(f, z):
        return torch.cat([solve(f, sample[None]) for sample in z])

    return integrate


def torchdiffeq(f, z, **settings):
    """torchdiffeq's solution at time 1."""
    return odeint(f, z, torch.tensor([0.0, 1.0], dtype=z.dtype), **settings)[1]
