"""What each operation of PyTorch becomes. An operation that is not listed is refused by its name and place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx

from ..errors import ExportError
from ._layers import Floats, Layer, Piece, Shape, Translation, Value, affine, joined, linear, number, reshaped, vector
from ._record import SAME, name_of, ode, solutions

Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}
PROBED = 4096
"""Larger values are not probed entry by entry for the matrix of a linear operation."""
LARGEST = 1 << 24
"""Larger matrices are not written down."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Registers what operations become: called with the translation, the node, and the operation's arguments."""

    def register(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function

    return register


def translate(translation: Translation, node: fx.Node) -> Any:
    """The value of a node."""
    if node.target is ode:
        return _ode(translation, node)
    if node.target is solutions:
        return _Solutions(translation.value(node.args[0]), translation.value(node.args[1]), len(node.meta["value"]))
    name = name_of(node.target)  # type: ignore[arg-type]
    args, kwargs = translation.argument(node.args), translation.argument(node.kwargs)
    if name == "part":
        return args[0][args[1]]
    if name == "getitem" and isinstance(args[0], _Solutions):
        return args[0].at(args[1])
    kwargs.pop("inplace", None)
    found = RULES.get(name) or RULES.get(name.removesuffix("_"))
    if found is not None:
        return found(translation, node, *args, **kwargs)
    if name in SAME:
        return args[0]
    if name in LINEAR:
        return probed(translation, node)
    known = ", ".join(sorted(set(RULES) - {"part"}))
    raise ExportError("this operation has no layer", f"there are {known}")


class _Solutions:
    """The state of an ODE at several times, of which the first and the last can be had."""

    def __init__(self, start: Value, end: Value, times: int) -> None:
        self.start, self.end, self.times = start, end, times

    def at(self, index: Any) -> Value:
        rest: Any = ()
        if isinstance(index, tuple):
            index, rest = index[0], index[1:]
        if not isinstance(index, int) or any(one != slice(None) for one in rest):
            raise ExportError("only single times of a solution can be had", "take the last: solution[-1]")
        index %= self.times
        if 0 < index < self.times - 1:
            raise ExportError("only the first and the last time of a solution can be had", "leave out other times")
        return self.end if index else self.start


def _ode(translation: Translation, node: fx.Node) -> Value:
    start: Value = translation.value(node.args[0])  # type: ignore[arg-type]
    call = node.meta["ode"]
    root = Value(start.shape)
    end = Translation(call.dynamics, root).run()
    if end.size != start.size:
        raise ExportError(f"dynamics make {end.size} numbers of {start.size}", "dynamics keep the shape of the state")
    words = {"type": "ode", "solver": call.solver.description()}
    return start.then(start.shape, Layer(words, dynamics=(root, reshaped(end, start.shape))))


def is_value(*given: Any) -> bool:
    """Whether all of these depend on the input."""
    return all(isinstance(one, Value) for one in given)


def constant(value: Any, shape: Shape, batch: int) -> Floats:
    """A constant that fits a value of some shape, for one sample."""
    found = number(value)
    if found.ndim == len(shape) + 1:
        if found.shape[0] not in (1, batch) or (found != found[:1]).any():
            raise ExportError("a constant differs from sample to sample", "it must be the same for all")
        found = found[0]
    return found


def shape_after(node: fx.Node) -> Shape:
    """The axes of one sample of what comes out, if it has an axis of samples."""
    return tuple(node.meta["value"].shape[1:])


def batch_of(translation: Translation) -> int:
    """How many samples the example has."""
    return int(translation.recording.root.meta["value"].shape[0])


# Element by element.

ACTIVATIONS: dict[str, dict[str, Any]] = {
    "relu": {"type": "relu"},
    "sigmoid": {"type": "sigmoid"},
    "tanh": {"type": "tanh"},
    "abs": {"type": "absolute"},
    "absolute": {"type": "absolute"},
    "silu": {"type": "silu"},
    "sin": {"type": "sin"},
    "cos": {"type": "cos"},
    "square": {"type": "square"},
    "relu6": {"type": "relu6"},
}


def _activation(words: dict[str, Any]) -> Rule:
    return lambda _t, _n, x: x.then(x.shape, Layer(dict(words)))


for _name, _words in ACTIVATIONS.items():
    RULES[_name] = _activation(_words)


@rule("leaky_relu")
def _leaky(_t: Translation, _n: fx.Node, x: Value, negative_slope: float = 0.01) -> Value:
    return x.then(x.shape, Layer({"type": "leaky_relu", "slope": float(negative_slope)}))


@rule("gelu")
def _gelu(_t: Translation, _n: fx.Node, x: Value, approximate: str = "none") -> Value:
    return x.then(x.shape, Layer({"type": "gelu", "approximate": approximate}))


@rule("elu")
def _elu(_t: Translation, _n: fx.Node, x: Value, alpha: float = 1.0) -> Value:
    return x.then(x.shape, Layer({"type": "elu", "alpha": float(alpha)}))


@rule("selu")
def _selu(_t: Translation, _n: fx.Node, x: Value) -> Value:
    scale, alpha = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
    return affine(x.then(x.shape, Layer({"type": "elu", "alpha": alpha})), scale, 0.0)


@rule("softplus")
def _softplus(_t: Translation, _n: fx.Node, x: Value, beta: float = 1.0, threshold: float = 20.0) -> Value:
    if not float(threshold) >= 20.0:  # from there on PyTorch's is linear; at 20 the two are 2e-9 apart
        raise ExportError(f"its threshold is {threshold}", "leave it at 20: below, PyTorch's softplus has a jump")
    if beta == 1:
        return x.then(x.shape, Layer({"type": "softplus"}))
    return affine(affine(x, beta, 0.0).then(x.shape, Layer({"type": "softplus"})), 1.0 / beta, 0.0)


@rule("clamp", "clip", "hardtanh")
def _clamp(_t: Translation, node: fx.Node, x: Value, low: Any = None, high: Any = None, **limits: Any) -> Value:
    low = limits.get("min", limits.get("min_val", low))
    high = limits.get("max", limits.get("max_val", high))
    if name_of(node.target) == "hardtanh":  # type: ignore[arg-type]
        low, high = -1.0 if low is None else low, 1.0 if high is None else high
    if is_value(low) or is_value(high):
        raise ExportError("limits depend on the input", "give numbers")
    if low is not None and high is not None:
        return x.then(x.shape, Layer({"type": "clamp", "low": float(low), "high": float(high)}))
    if low is not None:  # max(x, low) = relu(x - low) + low
        return affine(affine(x, 1.0, -float(low)).then(x.shape, Layer({"type": "relu"})), 1.0, float(low))
    if high is not None:  # min(x, high) = high - relu(high - x)
        return affine(affine(x, -1.0, float(high)).then(x.shape, Layer({"type": "relu"})), -1.0, float(high))
    return x


@rule("hardsigmoid")
def _hardsigmoid(_t: Translation, _n: fx.Node, x: Value) -> Value:
    return affine(affine(x, 1.0, 3.0).then(x.shape, Layer({"type": "relu6"})), 1.0 / 6.0, 0.0)


@rule("hardswish")
def _hardswish(t: Translation, n: fx.Node, x: Value) -> Value:
    return joined("product", [x, _hardsigmoid(t, n, x)], x.shape)


@rule("pow", "rpow")
def _pow(_t: Translation, _n: fx.Node, x: Any, exponent: Any) -> Value:
    if not is_value(x) or is_value(exponent) or float(exponent) not in (1.0, 2.0):
        raise ExportError("only squares have a layer", "write x * x, or x ** 2")
    return x if float(exponent) == 1.0 else x.then(x.shape, Layer({"type": "square"}))


@rule("neg", "negative")
def _neg(_t: Translation, _n: fx.Node, x: Value) -> Value:
    return affine(x, -1.0, 0.0)


@rule("dropout", "feature_dropout", "alpha_dropout", "dropout2d", "identity")
def _dropout(_t: Translation, _n: fx.Node, x: Value, p: float = 0.5, training: bool = True, **_: Any) -> Value:
    if training and p > 0:
        raise ExportError("it is random", "call model.eval(), or leave it out")
    return x


# Two values, or a value and a constant.


def same(t: Translation, node: fx.Node, values: list[Value]) -> list[Value]:
    """Values spread to the shape of what comes out."""
    shape = shape_after(node)
    return [value if value.shape == shape else spread(value, shape) for value in values]


def spread(value: Value, shape: Shape, factor: Floats | float = 1.0) -> Value:
    """A value repeated along axes, as PyTorch broadcasts, times a constant."""
    target = int(np.prod(shape, dtype=np.int64))
    if target * value.size > LARGEST:
        raise ExportError(f"spreading {value.size} numbers to {target} takes too large a matrix", "use smaller shapes")
    if value.size == target and np.ndim(factor) == 0 and float(factor) == 1.0:
        return reshaped(value, shape)
    numbered = np.arange(value.size).reshape(value.shape)
    place = np.broadcast_to(numbered.reshape((1,) * (len(shape) - numbered.ndim) + numbered.shape), shape).reshape(-1)
    weight = np.zeros((target, value.size))
    weight[np.arange(target), place] = np.broadcast_to(factor, shape).reshape(-1)
    return linear(value, weight, np.zeros(target), shape)


@rule("add", "radd", "iadd")
def _add(t: Translation, node: fx.Node, a: Any, b: Any, alpha: float = 1.0) -> Value:
    if alpha != 1.0:
        b = affine(b, alpha, 0.0) if is_value(b) else b * alpha
    if is_value(a, b):
        return joined("add", same(t, node, [a, b]), shape_after(node))
    value, other = (a, b) if is_value(a) else (b, a)
    value = spread(value, shape_after(node))
    return affine(value, 1.0, constant(other, value.shape, batch_of(t)))


@rule("sub", "subtract", "isub")
def _sub(t: Translation, node: fx.Node, a: Any, b: Any, alpha: float = 1.0) -> Value:
    minus = affine(b, -alpha, 0.0) if is_value(b) else -alpha * torch.as_tensor(b)
    return _add(t, node, a, minus)


@rule("rsub")
def _rsub(t: Translation, node: fx.Node, a: Any, b: Any, alpha: float = 1.0) -> Value:
    return _sub(t, node, b, a, alpha)


@rule("mul", "multiply", "rmul", "imul")
def _mul(t: Translation, node: fx.Node, a: Any, b: Any) -> Value:
    if is_value(a, b):
        if a is b:
            return a.then(a.shape, Layer({"type": "square"}))
        return joined("product", same(t, node, [a, b]), shape_after(node))
    value, other = (a, b) if is_value(a) else (b, a)
    shape = shape_after(node)
    factor = constant(other, shape, batch_of(t))
    return affine(value, factor, 0.0) if value.shape == shape else spread(value, shape, factor)


@rule("div", "divide", "truediv", "true_divide", "itruediv", "idiv")
def _div(t: Translation, node: fx.Node, a: Any, b: Any, rounding_mode: str | None = None) -> Value:
    if is_value(b) or rounding_mode is not None:
        raise ExportError("it divides by what depends on the input", "only constants may divide")
    return _mul(t, node, a, 1.0 / torch.as_tensor(b, dtype=torch.float64))


@rule("maximum")
def _maximum(t: Translation, node: fx.Node, a: Any, b: Any) -> Value:
    if not is_value(a, b):
        value, other = (a, b) if is_value(a) else (b, a)
        limit = constant(other, value.shape, batch_of(t))
        return affine(affine(value, 1.0, -limit).then(value.shape, Layer({"type": "relu"})), 1.0, limit)
    return joined("max", same(t, node, [a, b]), shape_after(node))


@rule("minimum")
def _minimum(t: Translation, node: fx.Node, a: Any, b: Any) -> Value:
    a, b = (affine(one, -1.0, 0.0) if is_value(one) else -torch.as_tensor(one) for one in (a, b))
    return affine(_maximum(t, node, a, b), -1.0, 0.0)


@rule("cat", "concat", "concatenate", "hstack")
def _cat(t: Translation, node: fx.Node, parts: Any, dim: int = 0, **more: Any) -> Value:
    shape = shape_after(node)
    dim = more.get("axis", 1 if name_of(node.target) == "hstack" else dim)  # type: ignore[arg-type]
    if dim % (len(shape) + 1) != 1:
        raise ExportError(f"parts are put together along axis {dim}", "put them together along axis 1")
    known = next(one for one in parts if is_value(one))
    values = []
    for one in parts:
        if is_value(one):
            values.append(one)
            continue
        fixed = constant(one, shape, batch_of(t))
        start = reshaped(vector(known), (known.size,))
        values.append(linear(start, np.zeros((fixed.size, known.size)), fixed.reshape(-1), fixed.shape))
    if len(shape) != 3:
        values = [vector(one) for one in values]
        return reshaped(joined("concat", values, (sum(one.size for one in values),)), shape)
    return joined("concat", values, shape)


# Shapes.


@rule("flatten", "view", "reshape", "unsqueeze", "squeeze", "unflatten", "view_as", "reshape_as", "ravel", "atleast_2d")
def _reshape(t: Translation, node: fx.Node, x: Value, *_: Any, **__: Any) -> Value:
    after = node.meta["value"]
    samples = batch_of(t)
    if x.shape == () and after.numel() == 1:  # the time has no axis of samples
        return reshaped(x, tuple(after.shape[1:]) if after.ndim else ())
    if after.ndim == 0 or after.shape[0] != samples or after.numel() != samples * x.size:
        raise ExportError(f"the axes {list(after.shape)} do not begin with the samples", "keep the axis of samples first")
    return reshaped(x, shape_after(node))


@rule("getitem")
def _getitem(t: Translation, node: fx.Node, x: Value, index: Any) -> Value:
    whole = slice(None)
    if isinstance(index, tuple) and len(index) == 2 and index[0] == whole and isinstance(index[1], slice):
        first, last, step = index[1].indices(x.shape[0])
        if step == 1 and last > first and len(x.shape) in (1, 3):
            return x.then((last - first, *x.shape[1:]), Layer({"type": "slice", "first": first, "length": last - first}))
    return probed(t, node)


@rule("chunk", "split", "tensor_split")
def _chunk(t: Translation, node: fx.Node, x: Value, *args: Any, **kwargs: Any) -> list[Value]:
    dim = kwargs.get("dim", args[1] if len(args) > 1 else 0)
    if dim % (len(x.shape) + 1) != 1 or len(x.shape) not in (1, 3):
        raise ExportError(f"it divides along axis {dim}", "divide along axis 1")
    example = torch.empty(2, *x.shape)
    pieces = node.target(example, *args, **kwargs)  # type: ignore[operator]
    found, first = [], 0
    for piece in pieces:
        length = piece.shape[1]
        layer = Layer({"type": "slice", "first": first, "length": length})
        found.append(x.then((length, *x.shape[1:]), layer))
        first += length
    return found


@rule("pad")
def _pad(t: Translation, node: fx.Node, x: Value, pad: Any, mode: str = "constant", value: float | None = None) -> Value:
    pad = [int(one) for one in pad]
    fits = mode == "constant" and not value and len(x.shape) in (1, 3) and min(pad) >= 0 and len(pad) <= 2 * len(x.shape)
    if not fits:
        return probed(t, node)
    pairs = [pad[at : at + 2] for at in range(0, len(pad), 2)] + [[0, 0]] * (len(x.shape) - len(pad) // 2)
    (before, after), rest = pairs[-1], pairs[:-1]
    words: dict[str, Any] = {"type": "pad", "before": before, "after": after}
    if rest:
        words |= {"rows": rest[1], "columns": rest[0]}
    return x.then(shape_after(node), Layer(words))


LINEAR = {
    "full",
    "permute",
    "transpose",
    "swapaxes",
    "swapdims",
    "movedim",
    "flip",
    "roll",
    "mean",
    "sum",
    "cumsum",
    "narrow",
}
LINEAR |= {
    "select",
    "index_select",
    "expand",
    "expand_as",
    "broadcast_to",
    "repeat",
    "repeat_interleave",
    "tile",
    "diff",
}
LINEAR |= {"rot90", "pixel_shuffle", "channel_shuffle", "interpolate", "conv_transpose2d", "conv1d", "conv3d", "einsum"}
LINEAR |= {
    "adaptive_avg_pool2d",
    "adaptive_avg_pool1d",
    "avg_pool1d",
    "avg_pool2d",
    "matmul",
    "rmatmul",
    "mm",
    "bmm",
    "T",
    "mT",
}
LINEAR |= {
    "tensordot",
    "dstack",
    "stack",
    "unbind",
    "take_along_dim",
    "gather",
    "unfold",
    "constant_pad_nd",
    "linear",
    "conv2d",
}
"""Operations that are affine in one value, so that their matrix can be found by trying them."""


def probed(t: Translation, node: fx.Node) -> Value:
    """An affine operation on one value as a matrix, found by doing it to the unit vectors, two at a time."""
    nodes = list(node.all_input_nodes)
    if len(nodes) != 1:
        raise ExportError("several of its arguments depend on the input", "only one may")
    before, value = nodes[0], t.value(nodes[0])
    if not is_value(value):
        raise ExportError("it takes something that is no tensor", "use single tensors")
    example: Tensor = before.meta["value"]
    shape = shape_after(node)
    if example.ndim == 0 or value.shape == ():
        return _of_time(node, before, value)
    if node.meta["value"].ndim == 0 or node.meta["value"].shape[0] != example.shape[0]:
        raise ExportError("it mixes samples", "work on each sample by itself: leave the first axis alone")
    outputs = int(np.prod(shape, dtype=np.int64))
    if value.size > PROBED or value.size * outputs > LARGEST:
        raise ExportError(f"on {value.size} numbers this needs too large a matrix", "use fewer numbers, or other layers")

    def apply(given: Floats) -> Floats:
        tensor = torch.as_tensor(given.reshape(2, *value.shape), dtype=example.dtype)
        found = _again(node, before, tensor)
        return number(found).reshape(2, -1)

    bias = apply(np.zeros((2, value.size)))[0]
    weight = np.zeros((outputs, value.size))
    for at in range(0, value.size, 2):
        units = np.zeros((2, value.size))
        units[0, at] = 1.0
        if at + 1 < value.size:
            units[1, at + 1] = 1.0
        found = apply(units) - bias
        weight[:, at] = found[0]
        if at + 1 < value.size:
            weight[:, at + 1] = found[1]
    _confirm(weight, bias, example, node)
    is_same = outputs == value.size and not bias.any() and (weight == np.eye(outputs)).all()
    return reshaped(value, shape) if is_same else linear(value, weight, bias, shape)


def _of_time(node: fx.Node, before: fx.Node, value: Value) -> Value:
    """An affine operation on the time, which has no axis of samples."""
    dtype = before.meta["value"].dtype
    shape = before.meta["value"].shape
    ends = [number(_again(node, before, torch.full(shape, at, dtype=dtype))) for at in (0.0, 1.0)]
    after = node.meta["value"]
    per_sample = [one[0] if after.ndim else one for one in ends]
    axes = tuple(after.shape[1:]) if after.ndim else ()
    bias = per_sample[0].reshape(-1)
    return linear(value, (per_sample[1].reshape(-1) - bias)[:, None], bias, axes)


def _again(node: fx.Node, before: fx.Node, value: Tensor) -> Tensor:
    """The operation once more, on another value."""
    args = fx.node.map_arg(node.args, lambda one: value if one is before else one.meta["value"])
    kwargs = fx.node.map_arg(node.kwargs, lambda one: value if one is before else one.meta["value"])
    found: Tensor = node.target(*args, **kwargs)  # type: ignore[operator]
    return found


def _confirm(weight: Floats, bias: Floats, example: Tensor, node: fx.Node) -> None:
    """Looks whether the matrix does what the operation did."""
    wanted = number(node.meta["value"]).reshape(example.shape[0], -1)
    found = number(example).reshape(example.shape[0], -1) @ weight.T + bias
    if not np.allclose(found, wanted, rtol=1e-4, atol=1e-4 * (1.0 + np.abs(wanted).max())):
        raise ExportError("it is not affine", "only affine operations of this name have a layer")


# Layers with weights.


@rule("linear")
def _linear(t: Translation, node: fx.Node, x: Any, weight: Any, bias: Any = None) -> Value:
    if not is_value(x) or is_value(weight) or is_value(bias):
        raise ExportError("its weights depend on the input", "weights must be constants")
    if len(x.shape) > 1 or (x.shape == () and node.meta["value"].ndim != 2):
        return probed(t, node)
    matrix = number(weight)
    offset = np.zeros(len(matrix)) if bias is None else number(bias)
    timed = _with_time(t, x, matrix)
    if timed is not None:
        inner, matrix = timed
        words = {"type": "linear", "in_features": inner.size, "out_features": len(matrix), "time": True}
        layer = Layer(words, {"weight": matrix, "bias": offset}, t.name(weight))
        return inner.then((len(matrix),), layer)
    return linear(x, matrix, offset, (len(matrix),), t.name(weight))


@rule("addmm")
def _addmm(t: Translation, node: fx.Node, bias: Any, x: Any, weight: Any) -> Value:
    if is_value(bias) or is_value(weight):
        raise ExportError("its weights depend on the input", "weights must be constants")
    return _linear(t, node, x, weight.t(), torch.as_tensor(number(bias)).expand(weight.shape[1]))


@rule("matmul", "mm", "rmatmul")
def _matmul(t: Translation, node: fx.Node, a: Any, b: Any) -> Value:
    if is_value(a) and isinstance(b, Tensor) and b.ndim == 2 and len(a.shape) == 1:
        return _linear(t, node, a, b.t())
    return probed(t, node)


def _with_time(t: Translation, x: Value, weight: Floats) -> tuple[Value, Floats] | None:
    """If a value is the time put before or behind another: that one, and weights with those of the time in front."""
    if x.join != "concat" or x.pieces:
        return None
    clocks = [at for at, one in enumerate(x.inputs) if _is_time(t, one)]
    others = [at for at in range(len(x.inputs)) if at not in clocks]
    if len(clocks) != 1 or not others:
        return None
    sizes = [one.shape[0] if one.is_image else one.size for one in x.inputs]
    starts = np.cumsum([0, *sizes])
    inner = x.inputs[others[0]]
    if len(others) > 1:
        rest = [x.inputs[at] for at in others]
        shape = (sum(sizes[at] for at in others), *inner.shape[1:])
        inner = joined("concat", rest, shape)
    order = [int(starts[clocks[0]])] + [at for one in others for at in range(starts[one], starts[one + 1])]
    return inner, weight[:, order]


def _is_time(t: Translation, value: Value) -> bool:
    """Whether a value is the time itself, in one feature or one channel: times one, plus nothing."""
    if t.recording.time is None or t.recording.offset != 0.0:
        return False
    clock, steps = t.values[t.recording.time], 0
    if (value.shape[0] if value.is_image else value.size) != 1:
        return False
    while value is not clock:
        if not all(_passes_on(piece) for piece in value.pieces):
            return False
        if len(value.inputs) != 1 or steps > 8:
            return False
        value, steps = value.inputs[0], steps + 1
    return True


def _passes_on(piece: Piece) -> bool:
    """Whether a layer gives every entry the one number it gets."""
    if not isinstance(piece, Layer):
        return False
    if piece.words["type"] in ("reshape", "flatten"):
        return True
    ones = piece.words["type"] == "linear" and "time" not in piece.words
    return ones and bool((piece.tensors["weight"] == 1).all()) and not piece.tensors["bias"].any()


def pair(setting: Any) -> list[int]:
    """Height and width of a setting that may be one number for both."""
    if isinstance(setting, int):
        return [setting, setting]
    found = [int(one) for one in setting]
    return found * 2 if len(found) == 1 else found


@rule("conv2d")
def _conv2d(
    t: Translation,
    node: fx.Node,
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Value:
    if not is_value(x) or is_value(weight) or is_value(bias):
        raise ExportError("its weights depend on the input", "weights must be constants")
    kernels = _ungrouped(number(weight), groups)
    offset = np.zeros(len(kernels)) if bias is None else number(bias)
    if isinstance(padding, str):
        reach = [d * (k - 1) for d, k in zip(pair(dilation), kernels.shape[2:], strict=True)]
        if padding == "same" and any(one % 2 for one in reach):
            return probed(t, node)
        padding = [one // 2 for one in reach] if padding == "same" else 0
    timed = _with_time(t, x, kernels)
    inner, kernels = timed if timed is not None else (x, kernels)
    words = {
        "type": "conv2d",
        "in_channels": kernels.shape[1] - (timed is not None),
        "out_channels": kernels.shape[0],
        "kernel": list(kernels.shape[2:]),
        "stride": pair(stride),
        "padding": pair(padding),
        "dilation": pair(dilation),
    }
    if timed is not None:
        words["time"] = True
    layer = Layer(words, {"weight": kernels, "bias": offset}, t.name(weight))
    return inner.then(shape_after(node), layer)


def _ungrouped(kernels: Floats, groups: int) -> Floats:
    """Kernels of groups as those of all channels, with zeros between the groups."""
    if groups == 1:
        return kernels
    outputs, inputs = kernels.shape[0] // groups, kernels.shape[1]
    whole = np.zeros((kernels.shape[0], inputs * groups, *kernels.shape[2:]))
    for group in range(groups):
        rows = slice(group * outputs, (group + 1) * outputs)
        whole[rows, group * inputs : (group + 1) * inputs] = kernels[rows]
    return whole


@rule("max_pool2d")
def _max_pool(
    t: Translation, node: fx.Node, x: Value, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Value:  # fmt: skip
    if pair(dilation) != [1, 1] or ceil_mode or return_indices:
        raise ExportError("it has a dilation, rounds up or returns indices", "use none of these")
    words = {"type": "max_pool2d", "kernel": pair(kernel_size), "padding": pair(padding)}
    words["stride"] = pair(kernel_size if stride is None or stride == [] else stride)
    return x.then(shape_after(node), Layer(words))


@rule("avg_pool2d")
def _avg_pool(
    t: Translation, node: fx.Node, x: Value, kernel_size: Any, stride: Any = None, padding: Any = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Value:  # fmt: skip
    plain = not ceil_mode and divisor_override is None and (count_include_pad or pair(padding) == [0, 0])
    if not plain or not x.is_image:
        return probed(t, node)
    words = {"type": "avg_pool2d", "kernel": pair(kernel_size), "padding": pair(padding)}
    words["stride"] = pair(kernel_size if stride is None or stride == [] else stride)
    return x.then(shape_after(node), Layer(words))


@rule("adaptive_avg_pool2d")
def _adaptive(t: Translation, node: fx.Node, x: Value, size: Any) -> Value:
    if x.is_image and shape_after(node)[1:] == (1, 1):
        return x.then(shape_after(node), Layer({"type": "global_avg_pool"}))
    return probed(t, node)


@rule("mean")
def _mean(t: Translation, node: fx.Node, x: Value, dim: Any = None, keepdim: bool = False, **more: Any) -> Value:
    dim = more.get("axis", dim)
    axes = sorted(one % 4 for one in dim) if isinstance(dim, tuple | list) else []
    if x.is_image and axes == [2, 3]:
        pooled = x.then((x.shape[0], 1, 1), Layer({"type": "global_avg_pool"}))
        return pooled if shape_after(node) == (x.shape[0], 1, 1) else reshaped(pooled, shape_after(node))
    return probed(t, node)


@rule("batch_norm")
def _batch_norm(
    t: Translation, node: fx.Node, x: Value, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None,
    training: bool = False, momentum: float = 0.1, eps: float = 1e-5, *_: Any,
) -> Value:  # fmt: skip
    if training or running_mean is None:
        raise ExportError("it normalises by the batch", "call model.eval(), and keep running statistics")
    mean, variance = number(running_mean), number(running_var)
    factor = (np.ones_like(mean) if weight is None else number(weight)) / np.sqrt(variance + eps)
    summand = (np.zeros_like(mean) if bias is None else number(bias)) - mean * factor
    axes = (-1,) + (1,) * (len(x.shape) - 1)
    return affine(x, factor.reshape(axes), summand.reshape(axes))


@rule("group_norm")
def _group_norm(
    t: Translation, node: fx.Node, x: Value, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5,
    *_: Any,
) -> Value:  # fmt: skip
    if len(x.shape) not in (1, 3):
        raise ExportError("it normalises neither vectors nor images", "use axes (samples, channels[, rows, columns])")
    words = {"type": "group_norm", "groups": int(num_groups), "channels": x.shape[0], "eps": max(float(eps), 1e-12)}
    return x.then(x.shape, _normalised(t, words, weight, bias, (x.shape[0],)))


@rule("instance_norm")
def _instance_norm(
    t: Translation, node: fx.Node, x: Value, running_mean: Any = None, running_var: Any = None, weight: Any = None,
    bias: Any = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5, *_: Any,
) -> Value:  # fmt: skip
    if not use_input_stats:
        return _batch_norm(t, node, x, running_mean, running_var, weight, bias, False, momentum, eps)
    return _group_norm(t, node, x, x.shape[0], weight, bias, eps)


@rule("layer_norm")
def _layer_norm(
    t: Translation, node: fx.Node, x: Value, normalized_shape: Any, weight: Any = None, bias: Any = None,
    eps: float = 1e-5, *_: Any,
) -> Value:  # fmt: skip
    if tuple(normalized_shape) != x.shape:
        raise ExportError("it does not normalise all numbers of a sample", "normalise over all axes but the first")
    words = {"type": "layer_norm", "eps": max(float(eps), 1e-12)}
    if len(x.shape) in (1, 3):
        return x.then(x.shape, _normalised(t, words, weight, bias, x.shape))
    flat = vector(x)
    weight, bias = (None if one is None else one.reshape(-1) for one in (weight, bias))
    return reshaped(flat.then(flat.shape, _normalised(t, words, weight, bias, flat.shape)), x.shape)


def _normalised(t: Translation, words: dict[str, Any], weight: Any, bias: Any, shape: Shape) -> Layer:
    """A normalisation; where it has no weights, they are ones and zeros."""
    tensors = {
        "weight": np.ones(shape) if weight is None else number(weight),
        "bias": np.zeros(shape) if bias is None else number(bias),
    }
    return Layer(words, tensors, t.name(weight))
