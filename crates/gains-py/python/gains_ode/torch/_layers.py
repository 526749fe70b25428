"""From a recorded graph to the layers of a model file.

A value is reached from the input by *pieces*: single layers, or branches that are joined. Where branches part is where the
last value stands that all of them pass through (their dominator), so any graph of operations can be written down.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, fx

from ..errors import ExportError
from ._record import Recording, name_of

Floats = NDArray[np.float64]
Shape = tuple[int, ...]
EPS = 1e-12
"""What normalisations of this package add at least to a variance."""


@dataclass
class Layer:
    """One layer of a model file, its tensors, and what they are called in the module."""

    words: dict[str, Any]
    tensors: dict[str, Floats] = field(default_factory=dict)
    name: str | None = None
    dynamics: tuple[Value, Value] | None = None
    """Of an ODE block: from which value to which its dynamics lead."""


@dataclass
class Affine:
    """A factor and a summand for each entry of a value of some shape: folded into a neighbour where that can be."""

    factor: Floats
    summand: Floats
    shape: Shape


Piece = Layer | Affine


class Value:
    """A value on its way: the values it is made of, how they are joined, and the layers behind that."""

    def __init__(
        self, shape: Shape, inputs: tuple[Value, ...] = (), pieces: tuple[Piece, ...] = (), join: str | None = None
    ) -> None:
        self.shape = shape
        self.inputs = inputs
        self.pieces = pieces
        self.join = join
        self.dominator: Value | None = _dominator(inputs)
        self.depth: int = 0 if self.dominator is None else self.dominator.depth + 1

    @property
    def size(self) -> int:
        """Numbers in it."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def is_image(self) -> bool:
        """Whether it has channels, rows and columns; everything else is one long vector."""
        return len(self.shape) == 3

    def then(self, shape: Shape, *pieces: Piece) -> Value:
        """The value after more layers."""
        return Value(shape, (self,), pieces)


def _dominator(inputs: tuple[Value, ...]) -> Value | None:
    """The last value that all inputs pass through."""
    if not inputs:
        return None
    found = inputs[0]
    for one in inputs[1:]:
        other = one
        while found is not other:
            if found.depth >= other.depth:
                found = _above(found)
            else:
                other = _above(other)
    return found


def _above(value: Value) -> Value:
    if value.dominator is None:
        raise ExportError("two values have nothing in common", "all must be computed from the input")
    return value.dominator


def image(shape: Shape) -> dict[str, int]:
    """A shape in the words of a model file."""
    if len(shape) == 3:
        return {"channels": shape[0], "height": shape[1], "width": shape[2]}
    return {"channels": int(np.prod(shape, dtype=np.int64)), "height": 1, "width": 1}


def reshaped(value: Value, shape: Shape) -> Value:
    """The same numbers, in the same order, with other axes."""
    if value.shape == shape:
        return value
    target = Value(shape)
    if target.size != value.size:
        raise ExportError(f"{value.size} numbers cannot have the axes {list(shape)}", "keep the axis of samples first")
    if target.is_image:
        return value.then(shape, Layer({"type": "reshape", "to": image(shape)}))
    return value.then(shape, Layer({"type": "flatten"})) if value.is_image else value.then(shape)


def vector(value: Value) -> Value:
    """The value as one axis of features."""
    return reshaped(value, (value.size,))


def linear(value: Value, weight: Floats, bias: Floats, shape: Shape, name: str | None = None) -> Value:
    """A dense map of all numbers of a value."""
    words = {"type": "linear", "in_features": weight.shape[1], "out_features": weight.shape[0]}
    mapped = vector(value).then((weight.shape[0],), Layer(words, {"weight": weight, "bias": bias}, name))
    return reshaped(mapped, shape)


def affine(value: Value, factor: Any, summand: Any) -> Value:
    """Times a factor plus a summand, both of which fit the shape of the value."""
    factor, summand = (np.broadcast_to(np.asarray(one, dtype=np.float64), value.shape) for one in (factor, summand))
    return value.then(value.shape, Affine(factor, summand, value.shape))


def joined(join: str, values: list[Value], shape: Shape) -> Value:
    """Several values into one."""
    return Value(shape, tuple(values), (), join)


class Writer:
    """Writes layers down, with tensors under names of their own."""

    def __init__(self) -> None:
        self.tensors: dict[str, Floats] = {}
        self.names: set[str] = set()

    def layers(self, value: Value, start: Value) -> list[dict[str, Any]]:
        """The layers from one value to another."""
        return self.named(folded(self.pieces(value, start)))

    def pieces(self, value: Value, start: Value) -> list[Piece]:
        """The same before they are folded; branches are written down already."""
        found: list[Piece] = []
        while value is not start:
            found = [*value.pieces, *found]
            if value.join is None:
                value = value.inputs[0]
                continue
            parting = _above(value)
            branches = [self.layers(one, parting) for one in value.inputs]
            found.insert(0, Layer({"type": "parallel", "join": value.join, "branches": branches}))
            value = parting
        return found

    def named(self, layers: list[Layer]) -> list[dict[str, Any]]:
        """Layers as a model file has them; their tensors are kept."""
        written = []
        for layer in layers:
            words = dict(layer.words)
            if layer.dynamics is not None:
                root, end = layer.dynamics
                words["dynamics"] = self.layers(end, root)
            if layer.tensors:
                words["name"] = self.unique(layer.name or f"layer{len(self.names)}")
                for part, values in layer.tensors.items():
                    self.tensors[f"{words['name']}.{part}"] = values
            written.append(words)
        return written

    def unique(self, name: str) -> str:
        """A name that no other layer has."""
        found, number = name, 2
        while found in self.names:
            found, number = f"{name}_{number}", number + 1
        self.names.add(found)
        return found


def folded(pieces: list[Piece]) -> list[Layer]:
    """Factors and summands go into the layer before them, or become a normalisation."""
    found: list[Layer] = []
    waiting: Affine | None = None
    for piece in [*pieces, None]:
        if isinstance(piece, Affine):
            if waiting is None:
                waiting = piece
            else:
                summand = piece.factor * waiting.summand + piece.summand
                waiting = Affine(piece.factor * waiting.factor, summand, piece.shape)
            continue
        if waiting is not None:
            _place(waiting, found)
            waiting = None
        if piece is not None:
            found.append(piece)
    return found


def _place(last: Affine, found: list[Layer]) -> None:
    """Puts a factor and a summand at the end of layers."""
    factor, summand = last.factor.reshape(-1), last.summand.reshape(-1)
    if (factor == 1).all() and (summand == 0).all():
        return
    before = found[-1] if found else None
    kind = before.words["type"] if before is not None else ""
    per_channel = _per_channel(last)
    if before is not None and kind == "linear" and len(before.tensors["bias"]) == len(factor):
        weight, bias = before.tensors["weight"], before.tensors["bias"]
        found[-1] = Layer(before.words, {"weight": factor[:, None] * weight, "bias": factor * bias + summand}, before.name)
    elif before is not None and kind == "conv2d" and per_channel is not None:
        (scale, shift), (weight, bias) = per_channel, (before.tensors["weight"], before.tensors["bias"])
        tensors = {"weight": scale[:, None, None, None] * weight, "bias": scale * bias + shift}
        found[-1] = Layer(before.words, tensors, before.name)
    elif len(last.shape) != 3 or per_channel is not None:
        found.append(_normalisation(*(per_channel or (factor, summand))))
    else:
        found.append(Layer({"type": "flatten"}))
        found.append(_normalisation(factor, summand))
        found.append(Layer({"type": "reshape", "to": image(last.shape)}))


def _per_channel(last: Affine) -> tuple[Floats, Floats] | None:
    """One factor and one summand for each channel, if all pixels of one have the same."""
    if len(last.shape) != 3:
        return None
    parts = [one.reshape(last.shape[0], -1) for one in (last.factor, last.summand)]
    if any((part != part[:, :1]).any() for part in parts):
        return None
    return parts[0][:, 0], parts[1][:, 0]


def _normalisation(factor: Floats, summand: Floats) -> Layer:
    """A batch normalisation that multiplies and adds, and nothing else."""
    tensors = {"weight": factor, "bias": summand}
    tensors |= {"running_mean": np.zeros_like(factor), "running_var": np.ones_like(factor)}
    return Layer({"type": "batch_norm", "channels": len(factor), "eps": EPS}, tensors)


class Translation:
    """One recording on its way to layers."""

    def __init__(self, recording: Recording, root: Value) -> None:
        self.recording = recording
        self.root = root
        self.values: dict[fx.Node, Any] = {recording.root: root}
        if recording.time is not None:
            self.values[recording.time] = self.clock()

    def clock(self) -> Value:
        """The time, as a vector of one number."""
        weight = np.zeros((1, self.root.size + 1))
        weight[0, 0] = 1.0
        words = {"type": "linear", "in_features": self.root.size, "out_features": 1, "time": True}
        layer = Layer(words, {"weight": weight, "bias": np.full(1, self.recording.offset)}, "time")
        return vector(self.root).then((), layer)

    def name(self, tensor: object) -> str | None:
        """What the module of a weight is called."""
        name = self.recording.names.get(id(tensor))
        return None if name is None else name.rpartition(".")[0] or None

    def run(self) -> Value:
        """Translate all that the output depends on."""
        from ._operations import translate

        for node in self.recording.graph.nodes:
            if node.op != "call_function":
                continue
            try:
                self.values[node] = translate(self, node)
            except ExportError as error:
                # What the output does not depend on may be anything.
                self.values[node] = error if error.located else self.refused(node, error.message, error.hint)
            except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
                self.values[node] = self.refused(node, f"it is used in a way that has no layer ({error})", None)
        return self.value(self.recording.output)

    @staticmethod
    def refused(node: fx.Node, message: str, hint: str | None) -> ExportError:
        """The error for an operation, with its place."""
        hint = hint or "write it with simpler operations"
        found = ExportError(f"{name_of(node.target)} at {node.meta.get('place', '?')}: {message}", hint)
        found.located = True
        return found

    def value(self, node: fx.Node) -> Any:
        """The value of a node."""
        found = self.values[node]
        if isinstance(found, ExportError):
            raise found
        return found

    def argument(self, given: Any) -> Any:
        """An argument with values in the place of nodes."""
        if isinstance(given, fx.Node):
            return self.value(given)
        if isinstance(given, tuple | list):
            return type(given)(self.argument(one) for one in given)
        if isinstance(given, dict):
            return {key: self.argument(value) for key, value in given.items()}
        return given


def shape_of(node: fx.Node) -> Shape:
    """The axes of one sample; of what depends on nothing but the time, those of the whole."""
    return tuple(node.meta["value"].shape[1:])


def number(value: Tensor | float) -> Floats:
    """A constant as numpy has it."""
    return torch.as_tensor(value).detach().double().cpu().numpy()
