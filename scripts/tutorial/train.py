"""Trains the six networks of docs/bring-your-own.md and writes what `gains model import` and its tests need.

    python scripts/tutorial/train.py [--out FOLDER] [NAME ...]

For each network: NAME.safetensors (the state dict), NAME.json (the description), NAME.x.npy and NAME.y.npy (test
samples, PyTorch's layout), NAME.logits.npy (what PyTorch computes for them in float32 with the solver of the
description) and NAME.torchdiffeq.npy (with torchdiffeq's adaptive dopri5, tightly). A few minutes on a CPU.
"""

import argparse
import functools
import json
import pathlib

import numpy
import torch
from safetensors.torch import save_file

import controlled
import networks
from describe import description

SAMPLES = 40
CONTROLLED = {
    "type": "controlled_adaptive",
    "factor": 2,
    "tolerance": 0.005,
    "initial_step": 0.25,
    "minimum_step": 0.02,
    "rejections_after_clipping": 1,
}
ADAPTIVE = {"method": "dopri5", "end_time": 1.0, "controller": CONTROLLED}


def fixed(method, steps):
    """Equal steps."""
    return {"method": method, "end_time": 1.0, "controller": {"type": "fixed", "steps": steps}}


# Name: network and data, names of the classes, solver of the description, passes over the training data.
TABLE = {
    "moons": (networks.moons, ["upper", "lower"], ADAPTIVE, 150),
    "breast-cancer": (networks.breast_cancer, ["malignant", "benign"], ADAPTIVE, 60),
    "convolutional": (networks.convolutional, [str(d) for d in range(10)], fixed("midpoint", 4), 20),
    "runge-kutta": (networks.runge_kutta, ["left", "right", "top"], fixed("rk38", 8), 100),
    "augmented": (networks.augmented, ["ring", "disc"], ADAPTIVE, 150),
    "ode-net": (networks.ode_net, [str(d) for d in range(10)], ADAPTIVE, 20),
}
# What torchdiffeq calls the fixed-step methods: its `rk4` is the 3/8 rule.
TORCHDIFFEQ = {"midpoint": "midpoint", "rk38": "rk4"}


def training_solver(solver):
    """What the network is trained with: torchdiffeq's own steps, or its adaptive dopri5 for the whole batch."""
    if solver["controller"]["type"] == "fixed":
        return reference_solver(solver)
    return functools.partial(controlled.torchdiffeq, method="dopri5", rtol=1e-3, atol=1e-3)


def reference_solver(solver, errors=None):
    """The solver of the description, in PyTorch."""
    if solver["controller"]["type"] == "fixed":
        size = {"step_size": 1 / solver["controller"]["steps"]}
        return functools.partial(controlled.torchdiffeq, method=TORCHDIFFEQ[solver["method"]], options=size)
    walk = functools.partial(controlled.controlled, settings=solver["controller"], errors=errors)
    return controlled.one_by_one(walk)


def train(network, x, y, solver, epochs):
    """Cross-entropy and Adam, nothing else."""
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01, weight_decay=1e-4)
    integrate = training_solver(solver)
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(64):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(network(x[batch], integrate), y[batch]).backward()
            optimiser.step()


def far_from_thresholds(network, x, solver):
    """Which samples have no error estimate so near a threshold that rounding could choose another step."""
    far = []
    for sample in x:
        errors = []
        network(sample[None], reference_solver(solver, errors))
        far.append(all(abs(e - t) > 1e-3 * t for e in errors for t in (1.0, 2.0**-controlled.ORDER)))
    return torch.tensor(far)


def export(name, out):
    """Trains one network and writes its files."""
    torch.manual_seed(0)
    make, classes, solver, epochs = TABLE[name]
    (x, test_x, y, test_y), network = make()
    x, test_x, y = map(torch.from_numpy, (x, test_x, y))
    train(network, x, y, solver, epochs)
    network.eval()
    with torch.no_grad():
        chosen = far_from_thresholds(network, test_x[: 2 * SAMPLES], solver).nonzero()[:SAMPLES, 0]
        test_x, test_y = test_x[chosen], test_y[chosen.numpy()]
        logits = network(test_x, reference_solver(solver))
        tight = functools.partial(controlled.torchdiffeq, method="dopri5", rtol=1e-6, atol=1e-6)
        continuous = network(test_x, controlled.one_by_one(tight))
    out.mkdir(parents=True, exist_ok=True)
    save_file(network.state_dict(), out / f"{name}.safetensors")
    described = description(name, network, test_x.shape[1:], classes, solver)
    (out / f"{name}.json").write_text(json.dumps(described, indent=1) + "\n")
    arrays = {"x": test_x, "y": torch.from_numpy(test_y), "logits": logits, "torchdiffeq": continuous}
    for part, values in arrays.items():
        numpy.save(out / f"{name}.{part}.npy", values.numpy())
    accuracy = float((logits.argmax(1).numpy() == test_y).mean())
    print(f"{name:14} accuracy {accuracy:.3f}  drift {float((logits - continuous).abs().max()):.1e}")


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("names", nargs="*", metavar="NAME", help=", ".join(TABLE))
    arguments.add_argument("--out", type=pathlib.Path, default=pathlib.Path("crates/gains/tests/data/tutorial"))
    given = arguments.parse_args()
    for name in given.names or TABLE:
        export(name, given.out)


if __name__ == "__main__":
    main()
