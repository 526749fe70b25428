"""What the tests share."""

import os
from pathlib import Path

# The networks are small: more threads of torch would only get in each other's way.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest

import gains_ode as gains

ROOT = Path(__file__).resolve().parents[3]
# Times are held to what is promised only where the machine is said to be quiet: elsewhere they are shown.
STRICT = bool(os.environ.get("GAINS_PY_SPEED"))
# Seconds for what takes less than one on a quiet machine: verdicts must not depend on what else runs there.
PATIENT = 600
TUTORIAL = ROOT / "crates/gains/tests/data/tutorial"


def tiny_description():
    """A flow of the plane, and a head: a call on it takes microseconds."""
    solver = {"method": "dopri5", "end_time": 1.0}
    solver["controller"] = gains.Dopri5(tolerance=0.005, h0=0.25).description()["controller"]
    dynamics = [
        {"type": "linear", "name": "a", "in_features": 2, "out_features": 4},
        {"type": "tanh"},
        {"type": "linear", "name": "b", "in_features": 4, "out_features": 2},
    ]
    layers = [
        {"type": "ode", "dynamics": dynamics, "solver": solver},
        {"type": "linear", "name": "head", "in_features": 2, "out_features": 2},
    ]
    task = {"type": "classification", "classes": ["upper", "lower"]}
    shape = {"height": 1, "width": 1, "channels": 2}
    return {"format": "gains-model", "version": 2, "name": "tiny", "task": task, "input": shape, "layers": layers}


def tiny_weights():
    random = np.random.default_rng(3)
    shapes = {"a.weight": (4, 2), "a.bias": 4, "b.weight": (2, 4), "b.bias": 2, "head.weight": (2, 2), "head.bias": 2}
    return {name: random.normal(size=shape) * 0.7 for name, shape in shapes.items()}


@pytest.fixture(scope="session")
def tiny():
    return gains.Network.from_description(tiny_description(), tiny_weights())


@pytest.fixture(scope="session")
def fashion():
    return gains.load("fashion-mnist")


@pytest.fixture(scope="session")
def images(fashion):
    return gains.images(fashion, range(20))


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setitem(os.environ, "NO_COLOR", "1")
