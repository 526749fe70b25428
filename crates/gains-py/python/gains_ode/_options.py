"""Keywords that most questions take."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Options(TypedDict, total=False):
    """How a question is asked and decided; the words are those of the command line (`gains certify --help`).

    | keyword | meaning | default |
    |---|---|---|
    | `timeout` | seconds per sample and radius; beyond them the verdict is *unknown* | 10 |
    | `threads` | worker threads | all cores |
    | `method` | `auto`, `box`, `linear`, `gains`, `tight`, `symbolic`, `stepwise` | `auto` |
    | `step_form` | how solver steps are bounded: `independent`, `difference` | by method |
    | `arithmetic` | what the proof is about: `real`, or the network run in `float32` | `real` |
    | `attack_steps` | gradient steps of the attack on what bounds leave open | 100 |
    | `max_vertices`, `max_memory` | most solver states, most megabytes of a sample | 20000, 4096 |
    | `norm` | how changes are measured: `"inf"`, 2, 1 | `"inf"` |
    | `range` | where values stay: `(low, high)`, or `{feature: (low, high)}` | anywhere |
    | `features`, `feature_eps` | only these move; radii of their own | all, none |
    | `nu`, `delta` | how much worse a forecast may become | 0.1, 0.01 |
    | `property` | what must hold: a dict, JSON text or a file of docs/properties.md | the class stays |
    | `target`, `allow`, `top`, `tolerance`, `between` | short forms of properties | |
    """

    timeout: float | None
    threads: int | None
    method: str | None
    step_form: str | None
    arithmetic: Literal["real", "float32"] | None
    attack_steps: int | None
    max_vertices: int | None
    max_memory: int | None
    norm: str | float | None
    range: tuple[float, float] | Mapping[str, tuple[float, float]] | None
    features: str | Sequence[str | int] | None
    feature_eps: Mapping[str | int, float] | None
    nu: float | None
    delta: float | None
    property: Mapping[str, Any] | str | PathLike[str] | None
    target: str | int | Sequence[str | int] | None
    allow: str | int | Sequence[str | int] | None
    top: int | None
    tolerance: float | None
    between: Mapping[str | int, tuple[float | None, float | None]] | None


def plain(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Options as Rust takes them: a property is text."""
    if not options:
        return None
    found = dict(options)
    asked = found.get("property")
    if asked is not None:
        found["property"] = _text(asked)
    return found


def _text(asked: object) -> str:
    if isinstance(asked, PathLike):
        return Path(asked).read_text(encoding="utf-8")
    if isinstance(asked, str):
        return asked if asked.lstrip().startswith("{") else Path(asked).read_text(encoding="utf-8")
    return json.dumps(asked)
