"""Training: a configuration in, the folder of a run out."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._network import Network
from .errors import InputError, RunError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Epoch = dict[str, str]


@dataclass(frozen=True)
class Run:
    """The folder of a training run."""

    folder: Path

    @property
    def is_finished(self) -> bool:
        """Whether there is a network."""
        return (self.folder / "model.safetensors").is_file()

    @property
    def model(self) -> Network:
        """The trained network."""
        return Network.load(self.folder / "model.safetensors")

    @property
    def metrics(self) -> list[dict[str, float]]:
        """One entry for each epoch: loss, accuracy, eps and the other columns of docs/training.md."""
        return [{key: _number(text) for key, text in row.items()} for row in _rows(self.folder)]

    def to_pandas(self) -> Any:
        """Give the metrics as a `pandas.DataFrame`."""
        import pandas as pd

        return pd.DataFrame(self.metrics)

    def resume(self, **settings: Any) -> Run:
        """Go on with it after an interruption; it ends with the same bits."""
        return train(resume=self.folder, **settings)


def train(
    *,
    preset: str | None = None,
    config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    resume: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    device: str = "cpu",
    threads: int | None = None,
    seed: int | None = None,
    settings: Mapping[str, object] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    force: bool = False,
    quiet: bool = True,
    epoch: Callable[[dict[str, float]], object] | None = None,
) -> Run:
    """Train as a preset, a TOML file (or its content as a dict) says, or go on with a run.

    `settings` changes keys, as `--set` of the command line does: `{"batch": 64, "phases[0].epochs": 1}`. `epoch` is called
    with the metrics of every epoch; what it raises ends the run, which keeps its checkpoint. So does Ctrl-C.

    The trainer works in a process of its own, `gains train`, which is told to stop when this call is left.
    """
    if sum(one is not None for one in (preset, config, resume)) != 1:
        raise InputError("train needs one of preset, config and resume", "e.g. gains.train(preset='quick')")
    command = [sys.executable, "-m", "gains_ode", "train", "--device", device]
    written: Path | None = None
    if preset is not None:
        command += ["--preset", preset]
    elif resume is not None:
        command += ["--resume", os.fspath(resume)]
    elif config is not None and not isinstance(config, str | os.PathLike):
        written = _written(config)
        command += ["--config", os.fspath(written)]
    elif config is not None:
        command += ["--config", os.fspath(config)]
    for key, value in (settings or {}).items():
        command += ["--set", f"{key}={_toml(value)}"]
    for flag, given in {"--seed": seed, "--threads": threads, "--out": out, "--data-dir": data_dir}.items():
        if given is not None:
            command += [flag, str(given)]
    command += ["--force"] * force + ["--quiet"] * quiet
    folder = Path(resume) if resume is not None else None if out is None else Path(out)
    try:
        return Run(_run(command, folder, epoch))
    finally:
        if written is not None:
            written.unlink()


def _run(command: list[str], folder: Path | None, epoch: Callable[[dict[str, float]], object] | None) -> Path:
    """Run the trainer, and follow its metrics."""
    seen = len(_rows(folder)) if folder is not None else 0
    # A session of its own: Ctrl-C reaches it through us alone, once.
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            while epoch is not None and folder is not None and process.poll() is None:
                time.sleep(0.2)
                seen = _tell(folder, seen, epoch)
            told, complaint = process.communicate()
        except BaseException:
            process.send_signal(signal.SIGINT)
            process.communicate()
            raise
    if process.returncode != 0:
        lines = [line for line in complaint.splitlines() if line.strip()]
        message = next((line[7:] for line in lines if line.startswith("error: ")), "training failed")
        hint = next((line[6:] for line in lines if line.startswith("hint: ")), None)
        raise (InputError if process.returncode == 2 else RunError)(message, hint)
    if folder is None:
        folder = _told(told + complaint)
    if epoch is not None:
        _tell(folder, seen, epoch)
    return folder


def _told(text: str) -> Path:
    """Find the folder that the trainer chose, out of what it said."""
    for word in text.replace("'", " ").split():
        if word.endswith("model.safetensors") and Path(word).is_file():
            return Path(word).parent
    raise RunError("the trainer does not say where its run is", "name a folder with out=")


def _tell(folder: Path, seen: int, epoch: Callable[[dict[str, float]], object]) -> int:
    rows = _rows(folder)
    for row in rows[seen:]:
        epoch({key: _number(text) for key, text in row.items()})
    return len(rows)


def _rows(folder: Path) -> list[Epoch]:
    path = folder / "metrics.csv"
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        text = file.read()
    complete = text[: text.rfind("\n") + 1]
    return list(csv.DictReader(complete.splitlines()))


def _number(text: str | None) -> float:
    try:
        return float(text or "nan")
    except ValueError:
        return float("nan")


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _written(config: Mapping[str, Any]) -> Path:
    """Write a configuration to a file; JSON's values are TOML's, tables aside."""
    import tempfile

    handle, name = tempfile.mkstemp(suffix=".toml")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        for key, value in config.items():
            file.write(f"{key} = {_inline(value)}\n")
    return Path(name)


def _inline(value: Any) -> str:
    """A value of TOML in one line."""
    import json

    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_inline(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_inline(one) for one in value) + "]"
    return json.dumps(value)
