"""Certified robustness of neural ODEs.

>>> import gains_ode as gains
>>> net = gains.load("fashion-mnist")
>>> report = net.certify(samples=[1, 2], eps=0.05)
>>> report
<Report of 2: 2 verified>

`load` gives a `Network`; `gains.torch.export` makes one of a PyTorch module; `train` trains one. A network can be asked
for `predict`, `certify`, `radius`, `attack`, `bounds`, `trajectory` and `forecast`. `gains.ray` does it on many machines.
Everything that goes wrong is a `gains.Error` with a message and a hint.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import _native, errors
from ._native import __version__
from ._network import Network
from ._options import Options
from ._report import Attack, Forecast, Report, Trajectory
from ._solvers import Controlled, Dopri5, Fixed, Solver
from .errors import Error, ExportError, InputError, InternalError, MissingError, ModelError, RunError

if TYPE_CHECKING:
    from os import PathLike

    import numpy as np
    from numpy.typing import NDArray

    from . import jax, ray, series, torch
    from ._train import Run, train

_LATER = {"torch", "jax", "ray", "series"}


def load(path: str | PathLike[str] | None = None) -> Network:
    """Read a model file, a bundled network by its name, or the default one.

    >>> load("mnist").outputs[:3]
    ['0', '1', '2']
    """
    return Network.load(path)


def bundled() -> dict[str, str]:
    """Names of the networks that come with the package, and a line about each.

    >>> sorted(bundled())
    ['fashion-mnist', 'fashion-mnist-best', 'mnist', 'mnist-best', 'pond']
    """
    return dict(_native.bundled())


def images(
    net: Network,
    samples: list[int] | range | None = None,
    *,
    split: str | None = None,
    data_dir: str | PathLike[str] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Images a network was made for and their classes, as arrays; the first 100 if nothing is said.

    >>> x, y = images(load("fashion-mnist"), range(5))
    >>> x.shape, y.tolist()
    ((5, 1, 28, 28), [9, 2, 1, 1, 6])
    """
    chosen = None if samples is None else list(samples)
    values, labels = net._native.usual(samples=chosen, split=split, data_dir=data_dir).values()
    return values.reshape(len(labels), *net.shape), labels


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return importlib.import_module(f".{name}", __name__)
    if name in ("train", "Run"):
        return getattr(importlib.import_module("._train", __name__), name)
    raise AttributeError(f"module 'gains_ode' has no attribute {name!r}")


__all__ = [
    "Attack",
    "Controlled",
    "Dopri5",
    "Error",
    "ExportError",
    "Fixed",
    "Forecast",
    "InputError",
    "InternalError",
    "MissingError",
    "ModelError",
    "Network",
    "Options",
    "Report",
    "Run",
    "RunError",
    "Solver",
    "Trajectory",
    "__version__",
    "bundled",
    "errors",
    "images",
    "jax",
    "load",
    "ray",
    "series",
    "torch",
    "train",
]
