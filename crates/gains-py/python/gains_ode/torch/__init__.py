"""From PyTorch modules to networks, and back.

>>> import torch, gains_ode as gains
>>> from torch import nn
>>> dynamics = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
>>> solver = gains.Dopri5(tolerance=5e-3, h0=0.25)
>>> net = gains.torch.export(dynamics=dynamics, head=nn.Linear(2, 2), solver=solver, example=torch.rand(4, 2))
>>> net.check.difference < 1e-5
True
>>> net.certify(torch.rand(3, 2), eps=0.001).verified.tolist()
[True, True, True]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ExportError, InputError, needed

try:
    import torch
    from torch import Tensor, nn
except ImportError as error:
    raise needed("torch", "torch") from error

from .._network import Network
from .._solvers import Solver
from ._layers import Translation, Value, Writer, image, vector
from ._module import Module
from ._record import Parts, record

if TYPE_CHECKING:
    from torch.nn import Module as TorchModule

CHECKED = 8
"""Samples of the example on which predictions are compared."""


@dataclass(frozen=True)
class Check:
    """How an exported network compares with its module."""

    difference: float
    """Largest difference of an output to PyTorch's with the same solver, in parts of the sample's largest output."""
    own_difference: float | None
    """The same to the module with the solver it calls itself; nothing if it has none."""
    samples: int
    """Samples that were compared."""
    solvers: tuple[Solver, ...]
    """Solvers of the ODE blocks."""


def export(
    model: TorchModule | None = None,
    *,
    example: Tensor,
    solver: Solver | None = None,
    encoder: TorchModule | None = None,
    dynamics: Callable[..., Tensor] | None = None,
    head: TorchModule | None = None,
    end_time: float = 1.0,
    task: str = "classification",
    classes: Sequence[str] | None = None,
    name: str | None = None,
    tolerance: float = 1e-4,
) -> Network:
    """Turn a module into a network that can be certified.

    `model` may call `torchdiffeq.odeint` or `odeint_adjoint` anywhere; or the parts of a neural ODE are given: `encoder`
    and `head` around an ODE with the right-hand side `dynamics`, f(t, z) or f(z), from time 0 to `end_time`. `solver` is
    the solver of the network; without it the settings of the call are taken, with controlled steps where they are
    adaptive. `example` is a batch of inputs; the module is run on it in evaluation mode.

    The network is run on the example, too: a difference above `tolerance` to PyTorch with the same solver is an error.
    What was seen is `net.check`. Operations that have no layer are named with their place in the source.
    """
    if not isinstance(example, Tensor) or example.ndim < 2 or not example.is_floating_point():
        raise InputError("example is no batch of inputs", "give a tensor of floats whose first axis counts the samples")
    if (model is None) == (dynamics is None):
        raise InputError("export takes a model, or the parts of one", "give a module, or dynamics= with solver=")
    if model is None:
        if solver is None:
            raise InputError("there is no solver", "give solver=gains.Dopri5(tolerance=…, h0=…)")
        assert dynamics is not None
        end_time = solver.end_time if end_time == 1.0 else end_time
        model = Parts(encoder, dynamics, head, end_time)
    training = {module: module.training for module in model.modules()}
    model.eval()
    try:
        return _export(model, example.detach().cpu()[:CHECKED], solver, task, classes, name, tolerance)
    finally:
        for module, was in training.items():
            module.training = was


def _export(
    model: nn.Module,
    example: Tensor,
    solver: Solver | None,
    task: str,
    classes: Sequence[str] | None,
    name: str | None,
    tolerance: float,
) -> Network:
    pair = example[:2] if len(example) > 1 else torch.cat([example, example])
    recording, _, solvers = record(model, pair, solver)
    root = Value(tuple(pair.shape[1:]))
    output = vector(Translation(recording, root).run())
    writer = Writer()
    layers = writer.layers(output, root)
    description = {
        "format": "gains-model",
        "version": 2,
        "name": name or type(model).__name__,
        "task": _task(task, classes, output.size),
        "input": image(root.shape),
        "layers": layers,
    }
    net = Network.from_description(description, dict(writer.tensors))
    net.check = compare(net, model, example, solvers, tolerance)
    return net


def _task(task: str, names: Sequence[str] | None, outputs: int) -> dict[str, Any]:
    if names is not None and len(names) != outputs:
        raise InputError(f"there are {len(names)} names for {outputs} outputs", "give one for each")
    if task == "classification":
        found = [str(one) for one in (range(outputs) if names is None else names)]
        return {"type": task, "classes": found}
    if task == "regression":
        return {"type": task} if names is None else {"type": task, "outputs": [str(one) for one in names]}
    raise InputError(f"task is '{task}'", "there are classification and regression")


def compare(net: Network, model: TorchModule, example: Tensor, solvers: Sequence[Solver], tolerance: float = 1e-4) -> Check:
    """Compare predictions with those of PyTorch, whose ODEs are solved by the solvers that were exported.

    A difference above `tolerance` is an error. `net.check.solvers` are the solvers.
    """
    batch = example if len(example) > 1 else torch.cat([example, example])
    _, wanted, _ = record(model, batch, known=solvers)
    theirs = wanted.detach().double().cpu().reshape(len(batch), -1).numpy()
    precision = "float64" if batch.dtype == torch.float64 else "float32"
    ours = net.predict(batch, precision=precision, layout="nchw")
    difference = _difference(ours, theirs)
    own = None
    if solvers and not isinstance(model, Parts):
        with torch.no_grad():
            few = batch[:4]
            own = _difference(ours[:4], model(few).double().reshape(len(few), -1).numpy())
    if not difference <= tolerance:
        message = f"the network and the module differ by {difference:.2e} of the largest output"
        raise ExportError(message, "a module that keeps a state, or is random, cannot be exported; else please report this")
    return Check(difference, own, len(example), tuple(solvers))


def _difference(ours: Any, theirs: Any) -> float:
    scale = np.maximum(np.abs(theirs).max(axis=1, keepdims=True), 1e-3)
    return float((np.abs(ours - theirs) / scale).max())


def module(net: Network, *, precision: str = "float32", threads: int | None = None) -> Module:
    """Give an `nn.Module` that computes what the network does, with gradients for its inputs: for attacks of others.

    >>> import torch, gains_ode as gains
    >>> model = gains.torch.module(gains.load("mnist"))
    >>> x = torch.rand(2, 1, 28, 28, requires_grad=True)
    >>> model(x)[:, 0].sum().backward()
    >>> x.grad.shape
    torch.Size([2, 1, 28, 28])
    """
    return Module(net, precision, threads)


__all__ = ["Check", "Module", "compare", "export", "module"]
