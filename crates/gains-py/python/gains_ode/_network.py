"""Networks, and what they can be asked."""

from __future__ import annotations

import json
from collections.abc import Iterable
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _native
from ._arrays import array, floats, is_bytes, radii
from ._options import Options, plain
from ._report import Attack, Forecast, Report, Trajectory
from .errors import InputError, RunError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from numpy.typing import ArrayLike, NDArray
    from typing_extensions import Unpack

    from .torch import Check

    Floats = NDArray[np.float64]
    Path = str | PathLike[str]


class Network:
    """A neural ODE (or any network of a model file) that can be run, attacked and certified.

    Made by `load`, `gains.torch.export` or `from_description`; it never changes, can be pickled, and can be used by
    several threads at once.

    >>> import gains_ode as gains
    >>> net = gains.load("fashion-mnist")
    >>> net.task, net.shape, len(net.outputs)
    ('classification', (1, 28, 28), 10)
    """

    check: Check | None = None
    """How it compares with the module it was exported from, if it was."""

    def __init__(self, native: _native.Network) -> None:
        self._native = native

    @classmethod
    def load(cls, path: Path | None = None) -> Network:
        """Read a model file, a bundled network by its name (`bundled`), or the default one."""
        return cls(_native.Network.load(path))

    @classmethod
    def from_bytes(cls, content: bytes) -> Network:
        """Take the content of a model file."""
        return cls(_native.Network.from_bytes(content))

    @classmethod
    def from_description(cls, description: dict[str, Any], weights: dict[str, ArrayLike]) -> Network:
        """Bind weights to a description in the words of docs/model-format.md.

        >>> layers = [{"type": "linear", "name": "one", "in_features": 2, "out_features": 2}, {"type": "tanh"}]
        >>> description = {"format": "gains-model", "version": 2, "name": "tiny", "layers": layers,
        ...     "task": {"type": "regression"}, "input": {"height": 1, "width": 1, "channels": 2}}
        >>> net = Network.from_description(description, {"one.weight": np.eye(2), "one.bias": np.zeros(2)})
        >>> net.predict([[0.0, 1.0]]).round(3).tolist()
        [[0.0, 0.762]]
        """
        return cls(_native.Network.from_weights(safetensors(weights), json.dumps(description)))

    def to_bytes(self) -> bytes:
        """Give the content of the model file."""
        return self._native.to_bytes()

    def save(self, path: Path) -> None:
        """Write the model file, which the command line and `load` read."""
        self._native.save(path)

    def __reduce__(self) -> tuple[Callable[[bytes], Network], tuple[bytes]]:
        return Network.from_bytes, (self.to_bytes(),)

    @property
    def name(self) -> str:
        """Its name."""
        return self._native.name

    @property
    def hash(self) -> str:
        """Content hash of the model file, as results name it."""
        return self._native.hash

    @property
    def description(self) -> dict[str, Any]:
        """The whole description: layers, solvers, task."""
        found: dict[str, Any] = json.loads(self._native.description())
        return found

    @property
    def task(self) -> str:
        """`classification`, `regression` or `forecasting`."""
        return self._native.task

    @property
    def shape(self) -> tuple[int, ...]:
        """Axes of one sample: (features,) or (channels, height, width)."""
        height, width, channels = self._native.input
        return (channels,) if height == width == 1 else (channels, height, width)

    @property
    def outputs(self) -> list[str]:
        """Names of the outputs."""
        return self._native.outputs

    @property
    def parameters(self) -> int:
        """Number of trained parameters."""
        return self._native.parameters

    def __repr__(self) -> str:
        return f"<Network {self.name!r}: {self.task}, {self.shape} -> {len(self.outputs)}, {self.parameters} parameters>"

    def predict(
        self,
        x: object,
        *,
        precision: str = "float64",
        threads: int | None = None,
        layout: str | None = None,
        scale: float | None = None,
    ) -> Floats:
        """Run the network; returns an array of samples x outputs (logits of a classifier).

        `x` has an axis that counts the samples, then the axes of `shape`; pictures may be channels last, or flat.
        Bytes are divided by 255 for networks of the known sets of images, and by what training divided them by.
        """
        samples = self._samples(x, None, layout, scale)
        return self._native.predict(samples, precision, threads)

    def gradients(
        self,
        x: object,
        cotangents: object,
        *,
        precision: str = "float64",
        threads: int | None = None,
        layout: str | None = None,
    ) -> Floats:
        """Give the gradients of `(cotangents * predict(x)).sum()` with respect to `x`, of the shape of `x`.

        They go through the steps the solver accepts; how these depend on `x` does not count.
        """
        samples = self._samples(x, None, layout, None)
        found = self._native.gradients(samples, floats(cotangents, "cotangents"), precision, threads)
        return found.reshape(array(x, "x").shape)

    def certify(
        self,
        x: object = None,
        y: object = None,
        *,
        eps: ArrayLike = 0.1,
        samples: Iterable[int] | None = None,
        out: Path | None = None,
        resume: bool = False,
        progress: bool | Callable[[int, int], object] = False,
        layout: str | None = None,
        scale: float | None = None,
        columns: Sequence[str] | None = None,
        name: str = "array",
        data: str | None = None,
        split: str | None = None,
        data_dir: Path | None = None,
        series: Path | None = None,
        part: str | None = None,
        horizon: str | None = None,
        **options: Unpack[Options],
    ) -> Report:
        """Prove for each sample that no change of at most `eps` breaks what is asked of it, or find one that does.

        Without `y` a classifier must keep its own answer. Without `x` the data the network was made for are taken:
        images of a known set (`data`, `split`, `data_dir`), or prepared `series`. `samples` chooses among them. `out`
        writes a result file as the command line does, `resume` goes on with one. The other keywords are `Options`.

        The verdicts are those of `gains certify` with the same settings, bit for bit.
        """
        asked = None if samples is None else [int(one) for one in samples]
        given, shape = self._given(x, y, layout, scale, columns, name, data, split, data_dir, series, part, horizon, asked)
        with _Progress(progress, "certify") as follow:
            lines = self._native.certify(
                given, radii(eps), asked if x is not None else None, plain(options), out, resume, follow
            )
        return Report(lines, shape)

    def radius(
        self,
        x: object = None,
        y: object = None,
        *,
        max: float = 1.0,  # noqa: A002
        gap: float = 0.05,
        bisect: str = "log",
        samples: Iterable[int] | None = None,
        progress: bool | Callable[[int, int], object] = False,
        layout: str | None = None,
        scale: float | None = None,
        columns: Sequence[str] | None = None,
        data: str | None = None,
        split: str | None = None,
        data_dir: Path | None = None,
        **options: Unpack[Options],
    ) -> Report:
        """Look for the largest certified and the smallest attacked radius of each sample, up to `max`."""
        asked = None if samples is None else [int(one) for one in samples]
        given, shape = self._given(x, y, layout, scale, columns, "array", data, split, data_dir, None, None, None, asked)
        with _Progress(progress, "radius") as follow:
            chosen = asked if x is not None else None
            lines = self._native.radius(given, max, gap, bisect, chosen, plain(options), follow)
        return Report(lines, shape)

    def attack(
        self,
        x: object,
        y: object = None,
        eps: ArrayLike = 0.1,
        *,
        steps: int = 200,
        step_size: float = 0.0025,
        restarts: int = 1,
        loss: str | None = None,
        seed: int = 0,
        precision: str = "float64",
        layout: str | None = None,
        scale: float | None = None,
        **options: Unpack[Options],
    ) -> Attack:
        """Look for inputs within `eps` that break the property, by projected gradient descent."""
        samples = self._samples(x, y, layout, scale)
        rows = self._native.attack(samples, radii(eps), steps, step_size, restarts, loss, seed, precision, plain(options))
        return Attack(rows, array(x, "x").shape[1:])

    def bounds(
        self,
        lower: object,
        upper: object = None,
        *,
        eps: float | None = None,
        layout: str | None = None,
        **options: Unpack[Options],
    ) -> tuple[Floats, Floats]:
        """Enclose the outputs over boxes from `lower` to `upper`, or over what is within `eps` of `lower`.

        Bytes are taken as `predict` takes them. Returns two arrays of samples x outputs. Every rounding error is inside.
        Where nothing can be proved the bounds are infinite.

        >>> import gains_ode as gains
        >>> net = gains.load()
        >>> x = np.full((1, 28, 28), 0.5)
        >>> low, high = net.bounds(x, x + 0.001)
        >>> bool((low <= net.predict(x)).all() and (net.predict(x) <= high).all())
        True
        """
        if (upper is None) == (eps is None):
            raise InputError("bounds takes boxes or a radius", "give lower and upper, or one array and eps")
        if upper is not None:
            if is_bytes(lower) != is_bytes(upper):  # which of the two may have to be divided
                raise InputError("one of lower and upper holds bytes", "give both as bytes, or both as floats")
            low, high = floats(lower, "lower"), floats(upper, "upper")
            given = self._native.boxes(low, high, layout=layout, bytes=is_bytes(lower))
        else:
            given = self._samples(lower, None, layout, None)
        below, above, reasons = self._native.bounds(given, 0.0 if eps is None else eps, plain(options))
        if len(reasons) == 1 and reasons[0] is not None:
            raise RunError(f"nothing could be proved: {reasons[0]}", "try a smaller region or another method")
        return below, above

    def trajectory(
        self,
        x: object = None,
        eps: float = 0.1,
        *,
        y: object = None,
        sample: int = 0,
        layout: str | None = None,
        scale: float | None = None,
        data_dir: Path | None = None,
        **options: Unpack[Options],
    ) -> Trajectory:
        """Show what the solver does for one sample, and all it may do for inputs within `eps` of it.

        `x` is one sample without an axis that counts, or with one of length 1; without it, `sample` is the number of one
        of the data the network was made for.
        """
        if x is None:
            given = self._native.usual(samples=[sample], data_dir=data_dir)
        else:
            one = array(x, "x")
            batched = one.ndim > 1 and one.shape[0] == 1 and one[0].size == np.prod(self.shape)
            labels = None if y is None else np.atleast_1d(array(y, "y"))
            given, sample = self._samples(one if batched else one[None], labels, layout, scale), 0
        return Trajectory(json.loads(self._native.trajectory(given, sample, eps, plain(options))))

    def forecast(
        self,
        record: str | None = None,
        eps: float = 0.1,
        *,
        series: Path | None = None,
        part: str | None = None,
        horizon: str | None = None,
        data_dir: Path | None = None,
        **options: Unpack[Options],
    ) -> Forecast:
        """Predict one record, with a certified band and the worst that an attack finds.

        >>> import gains_ode as gains
        >>> shown = gains.load("pond").forecast(eps=0.01)
        >>> bool((shown.low <= shown.prediction).all() and (shown.prediction <= shown.high).all())
        True
        """
        if self.task != "forecasting":
            raise InputError(f"'{self.name}' forecasts no series", "for inputs of fixed size there are predict and bounds")
        given = self._native.usual(series=series, part=part, horizon=horizon, data_dir=data_dir)
        return Forecast(json.loads(self._native.forecast(given, record, eps, plain(options))))

    def _given(
        self,
        x: object,
        y: object,
        layout: str | None,
        scale: float | None,
        columns: Sequence[str] | None,
        name: str,
        data: str | None,
        split: str | None,
        data_dir: Path | None,
        series: Path | None,
        part: str | None,
        horizon: str | None,
        samples: list[int] | None,
    ) -> tuple[_native.Samples, tuple[int, ...] | None]:
        """Give the samples that are meant, and the shape of one."""
        if x is None:
            if y is not None:
                raise InputError("y is given without x", "give both, or neither for the data of the network")
            usual = self._native.usual(
                data=data, split=split, data_dir=data_dir, series=series, part=part, horizon=horizon, samples=samples
            )
            return usual, self.shape
        for keyword, value in {
            "data": data,
            "split": split,
            "series": series,
            "part": part,
            "horizon": horizon,
        }.items():
            if value is not None:
                raise InputError(f"{keyword} is given with x", "leave one of the two out")
        given = self._samples(x, y, layout, scale, columns, name)
        return given, tuple(array(x, "x").shape)[1:]

    def _samples(
        self,
        x: Any,
        y: Any,
        layout: str | None,
        scale: float | None,
        columns: Sequence[str] | None = None,
        name: str = "array",
    ) -> _native.Samples:
        if columns is None and hasattr(x, "columns"):  # a table of pandas or polars
            columns = [str(column) for column in x.columns]
            x = x.to_numpy()
        values = floats(x, "x")
        columns = None if columns is None else [str(column) for column in columns]
        given: dict[str, Any] = {
            "columns": columns,
            "layout": layout,
            "scale": scale,
            "bytes": is_bytes(x),
            "name": name,
        }
        if y is None:
            return self._native.samples(values, **given)
        if self.task == "regression":
            called = None
            if hasattr(y, "columns"):  # a table, whose columns must be in the order of the outputs
                called, y = [str(column) for column in y.columns], y.to_numpy()
            return self._native.samples(values, truth=floats(y, "y"), truth_columns=called, **given)
        if not hasattr(y, "dtype") and isinstance(y, Iterable) and all(isinstance(one, str) for one in y):
            return self._native.samples(values, names=list(y), **given)
        # Classes are few: what float64 cannot hold is none.
        labels = np.ascontiguousarray(array(y, "y"), dtype=np.float64)
        if labels.ndim != 1:
            raise InputError(f"y has the axes {list(labels.shape)}", "give one class for each sample")
        return self._native.samples(values, labels=labels, **given)


class _Progress:
    """A bar of tqdm where that is wanted and there, or whatever the caller gives."""

    def __init__(self, wanted: bool | Callable[[int, int], object], title: str) -> None:
        self.bar: Any = None
        self.follow: Callable[[int, int], object] | None = None
        if callable(wanted):
            self.follow = wanted
        elif wanted:
            try:
                from tqdm.auto import tqdm
            except ImportError:
                return
            self.bar = tqdm(desc=title, unit="sample")
            self.follow = self.update

    def update(self, done: int, wanted: int) -> None:
        """Show how many are done."""
        self.bar.total = wanted
        self.bar.update(done - self.bar.n)

    def __enter__(self) -> Callable[[int, int], object] | None:
        return self.follow

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if self.bar is not None:
            self.bar.close()


def safetensors(weights: dict[str, ArrayLike]) -> bytes:
    """Write the content of a safetensors file of float32 (float64 where it is given)."""
    header: dict[str, Any] = {}
    parts: list[bytes] = []
    place = 0
    for name in sorted(weights):
        values = array(weights[name], name)
        values = np.ascontiguousarray(values, dtype=np.float64 if values.dtype == np.float64 else np.float32)
        content = values.tobytes()
        kind = "F64" if values.dtype == np.float64 else "F32"
        header[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": [place, place + len(content)]}
        parts.append(content)
        place += len(content)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(parts)
