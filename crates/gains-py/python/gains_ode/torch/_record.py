"""Running a module once and writing down, as a `torch.fx.Graph`, what it does to its input.

The run is a real one, on an example of two samples: branches of Python are taken, shapes are known, and whatever does not
depend on the input (weights, their products, tables) is just computed.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.overrides import TorchFunctionMode

from .._solvers import Solver
from ..errors import ExportError
from ._solve import recognised, solve

CONSTANT = {"ones_like", "zeros_like", "full_like", "empty_like", "rand_like", "randn_like", "new_zeros", "new_ones"}
CONSTANT |= {"new_full", "new_empty", "new_tensor"}
"""What makes new tensors that have the type and the shape of their first argument, and none of its numbers."""
QUERIES = {"shape", "size", "dim", "ndim", "ndimension", "numel", "nelement", "len", "stride", "storage_offset", "names"}
QUERIES |= {"has_names", "dtype", "device", "get_device", "layout", "itemsize", "element_size", "nbytes", "result_type"}
QUERIES |= {"requires_grad", "retain_grad", "retains_grad", "is_leaf", "grad", "grad_fn", "output_nr", "_version"}
QUERIES |= {"is_floating_point", "is_complex", "is_signed", "is_contiguous", "is_same_size", "is_inference", "is_pinned"}
QUERIES |= {"is_shared", "is_sparse", "is_sparse_csr", "is_quantized", "is_nested", "is_meta", "is_cpu", "is_cuda", "is_mps"}
QUERIES |= {"is_xpu", "is_mkldnn", "is_conj", "is_neg", "type", "dlpack_device", "repr"}
"""What may be asked of a tensor that depends on the input without an answer that does; `repr` is for people."""
SAME = {
    "detach",
    "contiguous",
    "clone",
    "to",
    "float",
    "double",
    "requires_grad",
    "data",
    "type",
    "cpu",
    "type_as",
    "alias",
}
"""What gives back the same numbers."""
ASSIGNMENTS = {"setitem": "x[...] = ...", "set": "x.data = ..."}
IN_PLACE = "write it without changing tensors in place: e.g. torch.where, torch.cat, clamp instead of clamp_"
LIKE = SAME | {"expand_as", "view_as", "reshape_as"}


@dataclass
class Ode:
    """A call of an ODE solver."""

    dynamics: Recording
    solver: Solver


@dataclass
class Recording:
    """What a module does: a graph, with the value of every node on the example under `meta["value"]`."""

    graph: fx.Graph
    root: fx.Node
    time: fx.Node | None
    output: fx.Node
    names: dict[int, str]
    offset: float = 0.0
    """What is added to the solver's time to get that of the dynamics."""


def name_of(function: Callable[..., Any]) -> str:
    """What an operation is called, however it is spelled: `relu` for `F.relu`, `Tensor.relu_` and others."""
    name = getattr(function, "__name__", str(function))
    if name == "__get__":
        return str(getattr(getattr(function, "__self__", None), "__name__", "attribute"))
    return name.strip("_")


def ode(*_: Any) -> None:
    """Stands for the solution of an ODE at its end."""


def solutions(*_: Any) -> None:
    """Stands for the solutions of an ODE at all times that were asked for."""


@dataclass
class Settings:
    """What recordings within one export share."""

    solver: Solver | None
    """The solver of all ODEs, if it was given."""
    known: Sequence[Solver]
    """Solvers of the ODEs in the order of their calls, if they are known from an earlier recording."""
    names: dict[int, str]
    modules: list[str] = field(default_factory=list)
    used: list[Solver] = field(default_factory=list)


@dataclass
class Known:
    """A tensor that depends on the input, its node, and when that was written down."""

    tensor: Tensor
    node: fx.Node
    step: int


@dataclass
class Change:
    """An operation that changed the numbers of a tensor in place, and when."""

    tensor: Tensor
    """Held, so that nothing else gets its memory."""
    what: str
    step: int


class Recorder(TorchFunctionMode):
    """Writes down what happens to tensors that depend on the input."""

    def __init__(self, settings: Settings, outer: Recorder | None = None) -> None:
        super().__init__()
        self.settings = settings
        self.outer = outer
        self.graph = fx.Graph()
        self.known: dict[int, Known] = {}
        self.changes: dict[int, Change] = {}
        self.steps = 0
        self.paused = False

    def begin(self, value: Tensor, name: str) -> fx.Node:
        """Take note of an input."""
        node = self.graph.placeholder(name)
        self.learn(value, node)
        return node

    def learn(self, value: Tensor, node: fx.Node) -> None:
        """Remember which node a tensor is the value of."""
        # In-place operations change the tensor later, so that its numbers of now are kept.
        node.meta["value"] = value.detach().clone()
        self.steps += 1
        self.known[id(value)] = Known(value, node, self.steps)

    def node_of(self, value: object) -> fx.Node | None:
        """Find the node of a tensor, if it depends on the input."""
        if not isinstance(value, Tensor):
            return None
        found = self.known.get(id(value))
        change = self.changes.get(_memory(value))
        # The node of another view of the same numbers, or none at all, does not know what was done to them.
        if change is not None and (found is None or found.step < change.step):
            raise ExportError(f"{change.what} and what shares its numbers is used afterwards", IN_PLACE)
        return None if found is None else found.node

    def place(self) -> str:
        """Say where in the source we are, and in which module."""
        inner = ("/torch/", "/gains_ode/torch/", "/torchdiffeq/")
        frames = [f for f in traceback.extract_stack() if not any(part in f.filename for part in inner)]
        frame = frames[-1] if frames else None
        where = "" if frame is None else f'{frame.filename}:{frame.lineno} in {frame.name}: "{frame.line}"'
        module = self.settings.modules[-1] if self.settings.modules else ""
        return f"{where} (module '{module}')" if module else where

    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = name_of(func)
        if self.paused:
            return func(*args, **kwargs)
        # These ask some of their arguments for a type or a shape only.
        given: Any = (args, kwargs)
        if name in LIKE and args:
            given = args[0]
        elif name in CONSTANT:
            given = (args[1:], {key: value for key, value in kwargs.items() if key not in ("input", "self")})
        if name not in QUERIES and self.belongs_outside(given):
            hint = "make it a part of the state"
            raise ExportError(f"dynamics use more of the input than their state: {name} at {self.place()}", hint)
        if name in QUERIES and name != "type":
            return func(*args, **kwargs)
        if not self.depends(given):
            return func(*args, **kwargs)
        if torch.is_inference_mode_enabled():
            hint = "use torch.no_grad: tensors of inference_mode do not tell what is done to them"
            raise ExportError(f"{name} at {self.place()} is in inference_mode", hint)
        if name in ASSIGNMENTS:
            raise ExportError(f"{name} ({ASSIGNMENTS[name]}) at {self.place()} changes a tensor in place", IN_PLACE)
        before = [(one, one._version) for one in _tensors(given) if not one.is_inference()]
        result = func(*args, **kwargs)
        self.take_down(func, args, kwargs, result, [one for one, version in before if one._version != version])
        return result

    def take_down(self, func: Callable[..., Any], args: Any, kwargs: Any, result: Any, written: Sequence[Tensor]) -> None:
        """Write down one operation and what came out; `written` are the arguments that it changed."""
        name = name_of(func)
        parts = list(result) if isinstance(result, tuple | list) else []
        if isinstance(result, Tensor):
            parts = [result]
        elif not parts or not any(isinstance(one, Tensor) for one in parts):
            if name in QUERIES:  # x.type() is a word, x.type(dtype) a tensor
                return
            if not written:
                hint = "the network must do the same for all inputs; write it with operations on tensors"
                what = "a number" if isinstance(result, bool | int | float | complex) else f"'{type(result).__name__}'"
                raise ExportError(f"{name} takes {what} out of a tensor at {self.place()}", hint)
        if not all(one is None or isinstance(one, Tensor) for one in parts):
            raise ExportError(f"{name} at {self.place()} gives more than tensors", "use operations that give tensors")
        node = self.graph.call_function(func, *self.mapped((args, kwargs)))
        node.meta["place"] = self.place()
        self.steps += 1
        spelled = getattr(func, "__name__", name)
        what = f"{name if spelled.startswith('__') else spelled} at {node.meta['place']} changes a tensor in place,"
        for one in written:
            self.changes[_memory(one)] = Change(one, what, self.steps)
        if isinstance(result, Tensor):
            self.learn(result, node)
            return
        for at, one in enumerate(parts):
            if isinstance(one, Tensor):
                part = self.graph.call_function(_part, (node, at))
                part.meta["place"] = node.meta["place"]
                self.learn(one, part)

    def depends(self, given: Any) -> bool:
        """Whether any tensor in there depends on the input."""
        if isinstance(given, Tensor):
            return self.node_of(given) is not None
        if isinstance(given, dict):
            given = tuple(given.values())
        if isinstance(given, slice):
            given = (given.start, given.stop, given.step)
        return isinstance(given, tuple | list) and any(self.depends(one) for one in given)

    def belongs_outside(self, given: Any) -> bool:
        """Whether any tensor in there depends on the input of the module whose dynamics these are."""
        return self.outer is not None and (self.outer.depends(given) or self.outer.belongs_outside(given))

    def mapped(self, given: Any) -> Any:
        """Put nodes in the place of tensors that depend on the input."""
        if isinstance(given, Tensor):
            node = self.node_of(given)
            return self.kept(given) if node is None else node
        if isinstance(given, dict):
            return {key: self.mapped(value) for key, value in given.items()}
        if isinstance(given, slice) and self.depends(given):
            hint = "the network must do the same for all inputs; give the ends of slices as numbers"
            raise ExportError(f"the end of a slice at {self.place()} depends on the input", hint)
        if isinstance(given, tuple | list):
            return type(given)(self.mapped(one) for one in given) if type(given) in (tuple, list) else tuple(given)
        return given

    def kept(self, constant: Tensor) -> Tensor:
        """A constant as it is now, whatever is done to it later."""
        if isinstance(constant, nn.Parameter):
            return constant
        copy = constant.detach().clone()
        name = self.settings.names.get(id(constant))
        if name is not None:
            self.settings.names[id(copy)] = name
        return copy

    def integrate(self, f: Callable[[Tensor, Tensor], Tensor], start: Tensor, times: Tensor, **given: Any) -> Tensor:
        """Solve an ODE, as `torchdiffeq.odeint` would be asked to, and write down how."""
        node = self.node_of(start) if isinstance(start, Tensor) else None
        if node is None:
            hint = "the state must be one tensor that is computed from the input"
            raise ExportError(f"the state of the ODE at {self.place()} does not depend on the input", hint)
        if self.node_of(times) is not None:
            raise ExportError(f"the times of the ODE at {self.place()} depend on the input", "times must be constants")
        if given.get("event_fn") is not None:
            hint = "give the end as a time: leave out event_fn"
            raise ExportError(f"the ODE at {self.place()} ends at an event", hint)
        self.paused = True
        try:
            return self.solved(f, start, node, times, given)
        finally:
            self.paused = False

    def solved(
        self, f: Callable[[Tensor, Tensor], Tensor], start: Tensor, node: fx.Node, times: Tensor, given: dict[str, Any]
    ) -> Tensor:
        """The same, without writing down what the solver does."""
        times = times.detach().double()
        span = float(times[-1] - times[0])
        if not span > 0:
            raise ExportError(f"the ODE at {self.place()} goes from time {times[0]} to {times[-1]}", "go forwards in time")
        known, count = self.settings.known, len(self.settings.used)
        solver = known[count] if count < len(known) else self.settings.solver or recognised(start, times, **given)
        solver = type(solver)(**{**vars(solver), "end_time": span})
        self.settings.used.append(solver)
        offset = float(times[0])
        dynamics = record_dynamics(f, start.detach().clone(), offset, self)
        end = solve(lambda t, z: f(t + offset, z), start.detach(), solver)
        solved = self.graph.call_function(ode, (node,))
        solved.meta.update(place=self.place(), ode=Ode(dynamics, solver), value=end)
        middle = [torch.full_like(end, torch.nan)] * (len(times) - 2)
        everything = torch.stack([start.detach(), *middle, end])
        node = self.graph.call_function(solutions, (node, solved))
        node.meta["place"] = self.place()
        self.learn(everything, node)
        return everything


def _part(whole: Any, at: int) -> Any:
    return whole[at]


def _tensors(given: Any) -> Iterator[Tensor]:
    """All tensors in there."""
    if isinstance(given, Tensor):
        yield given
    elif isinstance(given, dict):
        yield from _tensors(tuple(given.values()))
    elif isinstance(given, tuple | list):
        for one in given:
            yield from _tensors(one)


def _memory(tensor: Tensor) -> int:
    """What tensors have in common whose numbers are the same memory: views, `detach()`, `.data`."""
    with torch._C.DisableTorchFunction():  # that we ask is no part of the module
        try:
            return int(tensor.untyped_storage()._cdata)
        except (NotImplementedError, RuntimeError):  # sparse tensors have none
            return id(tensor)


def _named(module: nn.Module, names: dict[int, str], within: str = "") -> None:
    for name, value in [*module.named_parameters(), *module.named_buffers()]:
        names[id(value)] = within + name


def record_dynamics(f: Callable[..., Tensor], state: Tensor, offset: float, outer: Recorder) -> Recording:
    """Write down the right-hand side of an ODE."""
    settings = outer.settings
    if isinstance(f, nn.Module):
        _named(f, settings.names, "" if any(True for p in f.parameters() if id(p) in settings.names) else "dynamics.")
    recorder = Recorder(settings, outer)
    root = recorder.begin(state, "state")
    time = torch.tensor(0.25, dtype=state.dtype)
    clock = recorder.begin(time, "time")
    with recorder:
        value = f(time, state)
    for given in (state, time):
        change = recorder.changes.get(_memory(given))
        if change is not None:  # the solver goes on with what it gave
            raise ExportError(f"{change.what} and that is what the solver gave to the dynamics", IN_PLACE)
    return _finished(recorder, root, clock, value, settings, offset)


def _finished(
    recorder: Recorder, root: fx.Node, time: fx.Node | None, value: Any, settings: Settings, offset: float = 0.0
) -> Recording:
    output = recorder.node_of(value)
    if output is None:
        what = type(value).__name__ if not isinstance(value, Tensor) else "a tensor that does not depend on its input"
        raise ExportError(f"the module returns {what}", "return one tensor that is computed from the input")
    recorder.graph.output(output)
    return Recording(recorder.graph, root, time, output, settings.names, offset)


def record(
    model: nn.Module, example: Tensor, solver: Solver | None = None, known: Sequence[Solver] = ()
) -> tuple[Recording, Tensor, list[Solver]]:
    """Run a module on an example: what it does, what comes out with the solver that is exported, and those solvers."""
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):  # runs where no operation is seen
            what = f"module '{name}' is a program of torch.jit" if name else "the module is a program of torch.jit"
            raise ExportError(what, "export the module that it was made of")
    settings = Settings(solver, known, {})
    _named(model, settings.names)
    recorder = Recorder(settings)
    # Tensors of inference_mode do not tell when they are changed.
    with torch.inference_mode(False), torch.no_grad():
        example = example.detach().clone()
        root = recorder.begin(example, "x")
        with _followed(model, settings), _solvers(recorder), recorder:
            value = model(example)
    return _finished(recorder, root, None, value, settings), value, settings.used


@contextmanager
def _followed(model: nn.Module, settings: Settings) -> Iterator[None]:
    """Keep track of the module that is running, for messages."""
    hooks = []
    for name, module in model.named_modules():
        if not name:
            continue
        title = f"{name}: {type(module).__name__}"
        hooks.append(module.register_forward_pre_hook(lambda *_, title=title: settings.modules.append(title)))
        hooks.append(module.register_forward_hook(lambda *_: settings.modules.pop() and None))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def _solvers(recorder: Recorder) -> Iterator[None]:
    """Put our solver in the place of torchdiffeq's, wherever it was imported to."""
    try:
        import torchdiffeq as library
    except ImportError:
        yield
        return
    originals = [getattr(library, name) for name in ("odeint", "odeint_adjoint") if hasattr(library, name)]

    def instead(func: Callable[..., Tensor], y0: Tensor, t: Tensor, **given: Any) -> Tensor:
        return recorder.integrate(func, y0, t, **given)

    changed: list[tuple[Any, str, Any]] = []
    for module in list(sys.modules.values()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if any(value is original for original in originals):
                changed.append((module, name, value))
                setattr(module, name, instead)
    try:
        yield
    finally:
        for module, name, value in changed:
            setattr(module, name, value)


class Parts(nn.Module):
    """A network given by its parts."""

    def __init__(
        self, encoder: nn.Module | None, dynamics: Callable[..., Tensor], head: nn.Module | None, end_time: float
    ) -> None:
        super().__init__()
        self.encoder = encoder if encoder is not None else nn.Identity()
        self.dynamics = dynamics
        self.head = head if head is not None else nn.Identity()
        self.end_time = end_time

    def rate(self, t: Tensor, z: Tensor) -> Tensor:
        """Call the dynamics, whether or not they take the time."""
        return self.dynamics(t, z) if takes_time(self.dynamics) else self.dynamics(z)

    def forward(self, x: Tensor) -> Tensor:
        """Solve with the solver that is exported."""
        times = torch.tensor([0.0, self.end_time], dtype=torch.float64)
        z = self.encoder(x)
        recorder = _active()
        if recorder is None:
            raise ExportError("parts can be exported, not run", "call the parts yourself")
        return self.head(recorder.integrate(self.rate, z, times, method="dopri5")[-1])


def _active() -> Recorder | None:
    from torch.overrides import _get_current_function_mode_stack

    found = [mode for mode in _get_current_function_mode_stack() if isinstance(mode, Recorder)]
    return found[0] if found else None


def takes_time(dynamics: Callable[..., Any]) -> bool:
    """Whether dynamics are f(t, z) and not f(z)."""
    import inspect

    if isinstance(dynamics, nn.Sequential) and type(dynamics).forward is nn.Sequential.forward:
        return False
    function = dynamics.forward if isinstance(dynamics, nn.Module) else dynamics
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [p for p in parameters if p.kind in places and p.default is inspect.Parameter.empty]
    return len(needed) != 1
