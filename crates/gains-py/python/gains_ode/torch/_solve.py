"""The solvers of this package in PyTorch, to compare with; and what settings of torchdiffeq become here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .._native import tableau
from .._solvers import Controlled, Fixed, Solver
from ..errors import ExportError

METHODS = {"rk4": "rk38", "heun2": "heun", "adaptive_heun": "heun"}
"""torchdiffeq's names for methods that are called differently here."""
ADAPTIVE = {"dopri8", "dopri5", "bosh3", "fehlberg2", "adaptive_heun"}
STEADY = {"euler", "midpoint", "heun2", "rk4"}


def recognised(
    start: Tensor,
    times: Tensor,
    *,
    method: str | None = None,
    rtol: float = 1e-7,
    atol: float = 1e-9,
    options: dict[str, Any] | None = None,
    **others: Any,
) -> Solver:
    """The solver that settings of torchdiffeq stand for (docs/model-format.md says how)."""
    method, options = method or "dopri5", options or {}
    # Settings of the adjoint are about gradients only.
    strange = [key for key, value in others.items() if value is not None and not key.startswith("adjoint_")]
    if method in STEADY:
        strange += [key for key, value in options.items() if key != "step_size" and value is not None and value is not False]
    if strange:
        hint = "leave them out, or give solver=gains.Fixed(method=…, steps=…)"
        raise ExportError(f"settings of the solver are not known here: {', '.join(map(str, strange))}", hint)
    span = float(times[-1] - times[0])
    name = METHODS.get(method, method)
    if method in STEADY:
        if "step_size" in options:
            steps = round(span / float(options["step_size"]))
            even = steps > 0 and abs(steps * float(options["step_size"]) - span) <= 1e-6 * span
        else:
            steps = len(times) - 1
            gaps = times[1:] - times[:-1]
            even = bool((gaps - span / steps).abs().max() <= 1e-6 * span)
        if not even:
            raise ExportError("the steps of the solver are not equal", "give solver=gains.Fixed(method=…, steps=…)")
        return Fixed(method=name, steps=steps)
    if method not in ADAPTIVE:
        hint = "give one that is, as solver=gains.Dopri5(tolerance=…, h0=…)"
        raise ExportError(f"there is no method '{method}' here", hint)
    typical = float(start.detach().abs().mean())
    tolerance = start[0].numel() * (float(atol) + float(rtol) * typical)
    first = float(options.get("first_step", 0.1 * span))
    smallest = float(options.get("min_step", first / 16))
    return Controlled(method=name, tolerance=tolerance, h0=first, minimum_step=smallest)


def solve(f: Callable[[Tensor, Tensor], Tensor], start: Tensor, solver: Solver) -> Tensor:
    """The state at the end, sample by sample: steps of one sample do not depend on the others."""
    with torch.no_grad():
        if isinstance(solver, Fixed):
            return _fixed(f, start, solver)
        if isinstance(solver, Controlled):
            return torch.cat([_controlled(f, one[None], solver) for one in start])
    raise ExportError(f"{solver} is no solver of this package", "give gains.Dopri5, gains.Controlled or gains.Fixed")


def _step(
    f: Callable[[Tensor, Tensor], Tensor], time: float, step: float, state: Tensor, method: str
) -> tuple[Tensor, float]:
    """One step of Runge and Kutta: the next state, and the sum of the absolute values of the error estimate."""
    nodes, stages, weights, errors, _ = tableau(method)
    slopes: list[Tensor] = []
    for node, row in zip(nodes, stages, strict=True):
        at = state
        for weight, slope in zip(row, slopes, strict=False):
            if weight != 0.0:
                at = at + (step * weight) * slope
        slopes.append(f(torch.tensor(time + node * step, dtype=state.dtype), at))
    after, estimate = state, torch.zeros_like(state)
    for at_stage, slope in enumerate(slopes):
        after = after + (step * weights[at_stage]) * slope
        if errors is not None:
            estimate = estimate + (step * errors[at_stage]) * slope
    return after, float(estimate.abs().sum())


def _fixed(f: Callable[[Tensor, Tensor], Tensor], state: Tensor, solver: Fixed) -> Tensor:
    step = solver.end_time / solver.steps
    for at in range(solver.steps):
        state, _ = _step(f, at * step, step, state, solver.method)
    return state


def _controlled(f: Callable[[Tensor, Tensor], Tensor], state: Tensor, solver: Controlled) -> Tensor:
    """Docs/model-format.md, rule by rule."""
    settings = solver.description()["controller"]
    factor, tolerance, smallest = settings["factor"], settings["tolerance"], settings["minimum_step"]
    order = tableau(solver.method)[4]
    time, step, end = 0.0, settings["initial_step"], solver.end_time
    spare, clipped, accepting = settings["rejections_after_clipping"], False, False
    for _ in range(1_000_000):
        after, error = _step(f, time, step, state, solver.method)
        ratio = error / tolerance
        if not accepting and ratio > 1:
            if clipped and spare > 0:
                spare, step = spare - 1, step / factor
                continue
            if not clipped and step / factor >= smallest:
                step = step / factor
                continue
            accepting = True
        time, state = time + step, after
        if time >= end * (1 - 1e-9):
            return state
        if not accepting and ratio <= factor**-order:
            step = step * factor
        if time + step >= end:
            step, clipped = end - time, True
    raise ExportError("the solver does not come to an end", "give a larger tolerance or a larger minimum_step")
