"""Results that show themselves."""

from __future__ import annotations

import html
import json
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import needed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike

    import pandas as pd
    from numpy.typing import NDArray

    from ._native import Lines

VERDICTS = ("verified", "falsified", "unknown", "misclassified")
"""What can be known of a sample, as reports spell it."""

_NUMBERS = ("margin", "certified_radius", "attacked_radius", "mae", "limit", "certified_mae", "attacked_mae")
_COLOURS = {"verified": "#2a7f4f", "falsified": "#b3402f", "unknown": "#8a6d1f", "misclassified": "#666666"}


class Report:
    """What was found out about samples at radii: arrays with one entry for each sample and radius.

    >>> import gains_ode as gains
    >>> net = gains.load()
    >>> report = net.certify(samples=range(1, 4), eps=0.02, range=(0, 1))
    >>> report.verdicts.tolist()
    ['verified', 'verified', 'verified']
    >>> bool((report.margins > 0).all())
    True
    """

    def __init__(self, lines: Lines, shape: tuple[int, ...] | None = None) -> None:
        self._lines = lines
        self._shape = shape

    def __len__(self) -> int:
        return len(self._lines)

    @cached_property
    def verdicts(self) -> NDArray[np.str_]:
        """One of `verified`, `falsified`, `unknown`, `misclassified` for each."""
        return np.asarray(self._lines.words("verdict"), dtype=np.str_)

    @cached_property
    def index(self) -> NDArray[np.int64]:
        """Numbers of the samples."""
        return self._lines.integers("index")

    @cached_property
    def eps(self) -> NDArray[np.float64]:
        """Radii."""
        return self._lines.numbers("eps")

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        """Classes that were asked about; -1 where none was given."""
        return self._lines.integers("label")

    @cached_property
    def predictions(self) -> NDArray[np.int64]:
        """Predicted classes; -1 where the solver failed or nothing is classified."""
        return self._lines.integers("prediction")

    @cached_property
    def margins(self) -> NDArray[np.float64]:
        """Smallest certified distance to breaking the property; NaN where nothing was proved."""
        return self._lines.numbers("margin")

    @cached_property
    def seconds(self) -> NDArray[np.float64]:
        """Time for each verdict."""
        return self._lines.numbers("seconds")

    @cached_property
    def reasons(self) -> list[str | None]:
        """Why a verdict is unknown, in words."""
        return self._lines.words("reason")

    @cached_property
    def certified_radius(self) -> NDArray[np.float64]:
        """Of `Network.radius`: no smaller change breaks the property."""
        return self._lines.numbers("certified_radius")

    @cached_property
    def attacked_radius(self) -> NDArray[np.float64]:
        """Of `Network.radius`: the witness is a change of this size; NaN where none was found."""
        return self._lines.numbers("attacked_radius")

    @cached_property
    def certified_mae(self) -> NDArray[np.float64]:
        """Of forecasts: the mean absolute error is proved to stay at or below this."""
        return self._lines.numbers("certified_mae")

    @property
    def verified(self) -> NDArray[np.bool_]:
        """Where the property was proved."""
        return np.asarray(self.verdicts == "verified")

    @property
    def falsified(self) -> NDArray[np.bool_]:
        """Where it was broken; `witnesses` says how."""
        return np.asarray(self.verdicts == "falsified")

    @cached_property
    def witnesses(self) -> list[NDArray[np.float64] | None]:
        """For each falsified sample an input that breaks the property, of the shape of the sample."""
        return [self._shaped(self._lines.witness(at)) for at in range(len(self))]

    def _shaped(self, witness: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
        if witness is None or self._shape is None or witness.size != np.prod(self._shape):
            return witness
        return witness.reshape(self._shape)

    @property
    def jsonl(self) -> str:
        """The lines of a result file (docs/results-format.md)."""
        return self._lines.jsonl()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the lines as dictionaries."""
        for line in self.jsonl.splitlines():
            yield json.loads(line)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the lines to a file that `gains report`, `gains challenge` and others read."""
        Path(path).write_text(self.jsonl, encoding="utf-8")

    def columns(self) -> dict[str, Any]:
        """All columns that say something, by name."""
        found: dict[str, Any] = {"index": self.index, "eps": self.eps, "verdict": self.verdicts}
        records = self._lines.words("record")
        if any(record is not None for record in records):
            found["record"] = records
        for name in ("label", "prediction"):
            values = self._lines.integers(name)
            if (values >= 0).any():
                found[name] = values
        for name in _NUMBERS:
            numbers = self._lines.numbers(name)
            if not np.isnan(numbers).all():
                found[name] = numbers
        found["seconds"] = self.seconds
        found["stage"] = self._lines.words("stage")
        if any(reason is not None for reason in self.reasons):
            found["reason"] = self.reasons
        return found

    def to_pandas(self) -> pd.DataFrame:
        """Give the columns as a `pandas.DataFrame`."""
        try:
            import pandas as pd
        except ImportError as error:
            raise needed("pandas", "tables") from error
        return pd.DataFrame(self.columns())

    def counts(self) -> dict[str, int]:
        """How many of each verdict there are."""
        return {word: int((self.verdicts == word).sum()) for word in VERDICTS}

    def __repr__(self) -> str:
        words = ", ".join(f"{count} {word}" for word, count in self.counts().items() if count)
        return f"<Report of {len(self)}: {words or 'nothing'}>"

    def _repr_html_(self) -> str:
        columns = self.columns()
        rows = []
        for at in range(min(len(self), 50)):
            cells = "".join(f"<td>{_cell(name, values[at])}</td>" for name, values in columns.items())
            rows.append(f"<tr>{cells}</tr>")
        head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
        counts = ", ".join(f"{count} {word}" for word, count in self.counts().items())
        more = f"<p>and {len(self) - 50} more</p>" if len(self) > 50 else ""
        return f"<p>{counts}</p><table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>{more}"


def _cell(name: str, value: object) -> str:
    if name == "verdict":
        return f'<b style="color:{_COLOURS.get(str(value), "#000")}">{html.escape(str(value))}</b>'
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else html.escape(str(value))


class Attack:
    """What attacks found: arrays with one entry for each sample and radius."""

    def __init__(
        self,
        rows: list[tuple[int, float, bool, float, float, NDArray[np.float64] | None]],
        shape: tuple[int, ...] | None,
    ) -> None:
        self.index: NDArray[np.int64] = np.array([row[0] for row in rows], dtype=np.int64)
        self.eps: NDArray[np.float64] = np.array([row[1] for row in rows])
        self.found: NDArray[np.bool_] = np.array([row[2] for row in rows], dtype=np.bool_)
        """Whether an input that breaks the property was found."""
        self.margins: NDArray[np.float64] = np.array([row[3] for row in rows])
        """Smallest margin seen; NaN where the sample itself breaks the property."""
        self.seconds: NDArray[np.float64] = np.array([row[4] for row in rows])
        self.witnesses: list[NDArray[np.float64] | None] = [
            row[5] if row[5] is None or shape is None else row[5].reshape(shape) for row in rows
        ]

    def __len__(self) -> int:
        return len(self.index)

    def __repr__(self) -> str:
        return f"<Attack on {len(self)}: {int(self.found.sum())} broken>"


class Trajectory:
    """The steps a solver takes, and the graph of all that it may take for any input of a region.

    In a notebook it draws itself.
    """

    def __init__(self, found: dict[str, Any]) -> None:
        self.svg: str = found.pop("svg")
        """A picture."""
        self.raw = found
        """Everything, as `gains trajectory --json` writes it."""

    @property
    def steps(self) -> list[dict[str, Any]]:
        """The concrete run: time, step, error and action of each step."""
        steps: list[dict[str, Any]] = self.raw["trajectory"]
        return steps

    @property
    def vertices(self) -> list[dict[str, Any]]:
        """Times and step sizes that the solver may reach."""
        vertices: list[dict[str, Any]] = self.raw["vertices"]
        return vertices

    @property
    def edges(self) -> list[dict[str, Any]]:
        """What it may do there: `keep`, `increase` or `reject`, from one vertex to another."""
        edges: list[dict[str, Any]] = self.raw["edges"]
        return edges

    @property
    def margin(self) -> float:
        """Smallest certified distance to breaking the usual property over the region."""
        return float(self.raw["margin"])

    def __repr__(self) -> str:
        return f"<Trajectory: {len(self.steps)} steps, graph of {len(self.vertices)} vertices, {len(self.edges)} edges>"

    def _repr_svg_(self) -> str:
        return self.svg


class Forecast:
    """A forecast with a certified band and the worst an attack found."""

    def __init__(self, found: dict[str, Any]) -> None:
        self.raw = found
        """Everything, as `gains forecast --json` writes it."""

    @property
    def record(self) -> str:
        """Name of the record."""
        return str(self.raw["record"])

    @property
    def verdict(self) -> str:
        """The verdict, and why it is unknown if it is."""
        return str(self.raw["verdict"])

    @property
    def features(self) -> list[str]:
        """Names of what is forecast."""
        return [str(feature["name"]) for feature in self.raw["features"]]

    def _column(self, key: str) -> NDArray[np.float64]:
        values = [feature[key] for feature in self.raw["features"]]
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)

    @property
    def prediction(self) -> NDArray[np.float64]:
        """Predicted values, in the units of the data."""
        return self._column("prediction")

    @property
    def low(self) -> NDArray[np.float64]:
        """Certified: no series of the region is predicted below this."""
        return self._column("low")

    @property
    def high(self) -> NDArray[np.float64]:
        """Certified: no series of the region is predicted above this."""
        return self._column("high")

    @property
    def truth(self) -> NDArray[np.float64]:
        """What was observed; NaN where nothing was."""
        return self._column("truth")

    @property
    def attacked(self) -> NDArray[np.float64]:
        """Predictions for the worst series that was found."""
        return self._column("attacked")

    def to_pandas(self) -> pd.DataFrame:
        """Give a row for each feature."""
        try:
            import pandas as pd
        except ImportError as error:
            raise needed("pandas", "tables") from error
        names = ("prediction", "low", "high", "attacked", "truth")
        return pd.DataFrame({name: self._column(name) for name in names}, index=self.features)

    def plot(self, features: list[str] | None = None) -> Any:
        """Draw observations, prediction and band of features with matplotlib; returns the figure."""
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise needed("matplotlib", "plots") from error
        chosen = [one for one in self.raw["features"] if features is None or one["name"] in features][:8]
        figure = Figure(figsize=(8, 2.2 * max(len(chosen), 1)), layout="constrained")
        panels = figure.subplots(max(len(chosen), 1), 1, sharex=True, squeeze=False)[:, 0]
        for panel, feature in zip(panels, chosen, strict=False):
            points = np.array(feature["points"], dtype=np.float64).reshape(-1, 2)
            panel.plot(points[:, 0], points[:, 1], "o-", markersize=3, linewidth=0.8, color="#44546a", label="observed")
            time = self.raw["time"]
            if feature["low"] is not None:
                panel.vlines(time, feature["low"], feature["high"], linewidth=6, color="#9cc3a5", label="certified")
            panel.plot([time], [feature["prediction"]], "D", color="#2a7f4f", label="predicted")
            if feature["truth"] is not None:
                panel.plot([time], [feature["truth"]], "x", color="black", label="truth")
            panel.set_ylabel(feature["name"])
        panels[0].legend(loc="best", fontsize="small")
        panels[-1].set_xlabel("time")
        return figure

    def __repr__(self) -> str:
        return f"<Forecast of {self.record}: {self.verdict}>"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in ("feature", "prediction", "low", "high", "attacked", "truth"))
        columns = [self._column(name) for name in ("prediction", "low", "high", "attacked", "truth")]
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td>" + "".join(f"<td>{_cell('', float(c[at]))}</td>" for c in columns)
            for at, name in enumerate(self.features)
        )
        return f"<p>record {html.escape(self.record)}: {html.escape(self.verdict)}</p><table><tr>{head}</tr>{rows}</table>"
