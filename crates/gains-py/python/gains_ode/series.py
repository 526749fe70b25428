"""Series of one's own: long tables of pandas or polars become the file that forecasting networks take.

A table has the columns `record`, `time`, `feature` and `value`, one line per value; a time that is missing says that the
value holds for the record as a whole (docs/data-formats.md).
"""

from __future__ import annotations

import csv
import math
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _native
from .errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

COLUMNS = ("record", "time", "feature", "value")
"""What a table has."""


@dataclass(frozen=True)
class Prepared:
    """A prepared file; networks take it as `series=`."""

    path: Path
    records: int
    skipped: list[str]
    """Records that were left out, and why."""

    def __fspath__(self) -> str:
        return os.fspath(self.path)


def prepare(table: Any, out: str | os.PathLike[str]) -> Prepared:
    """Write a prepared file from a table: of pandas, of polars, a mapping of columns, or the path of a CSV file.

    >>> import gains_ode as gains, tempfile, os
    >>> folder = tempfile.mkdtemp()
    >>> rows = [(r, t, f, float(t + r)) for r in range(40) for t in range(30) for f in ("pulse", "pressure")]
    >>> table = dict(zip(("record", "time", "feature", "value"), zip(*rows)))
    >>> gains.series.prepare(table, os.path.join(folder, "wards.series")).records
    40
    """
    if isinstance(table, str | os.PathLike):
        records, skipped = _native.prepare_series(table, out)
        return Prepared(Path(out), records, skipped)
    rows = _rows(table)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            writer.writerows(rows)
        records, skipped = _native.prepare_series(path, out)
    return Prepared(Path(out), records, skipped)


def _rows(table: Any) -> Iterable[tuple[Any, ...]]:
    columns = list(table.columns) if hasattr(table, "columns") else list(table)
    missing = [name for name in COLUMNS if name not in columns]
    if missing:
        raise InputError(f"the table has no column {', '.join(missing)}", f"give the columns {', '.join(COLUMNS)}")
    parts = [_column(table, name) for name in COLUMNS]
    return zip(*parts, strict=True)


def _column(table: Mapping[str, Any], name: str) -> list[Any]:
    values = table[name]
    values = values.to_list() if hasattr(values, "to_list") else list(values)
    if name != "time":
        return values
    return ["" if value is None or (isinstance(value, float) and math.isnan(value)) else value for value in values]
