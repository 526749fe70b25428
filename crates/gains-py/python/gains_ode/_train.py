"""Training: a configuration in, the folder of a run out."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ._arrays import array, floats, is_bytes
from ._network import Network
from ._solvers import Solver
from .errors import InputError, RunError, needed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    Epoch = dict[str, str]


# The command line, in a process that ends with the one that started it.
_COMMAND = [sys.executable, "-c", "from gains_ode._command import follower; follower()"]


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
        try:
            import pandas as pd
        except ImportError as error:
            raise needed("pandas", "tables") from error
        return pd.DataFrame(self.metrics)

    def resume(self, **settings: Any) -> Run:
        """Go on with it after an interruption; it ends with the same bits."""
        return train(resume=self.folder, **settings)


def train(
    *,
    preset: str | None = None,
    config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    resume: str | os.PathLike[str] | None = None,
    data: tuple[object, object] | None = None,
    layers: Sequence[Mapping[str, Any]] | None = None,
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

    `data=(x, y)` takes the place of the data set: samples and their classes (numbers from 0 on, or names), or numbers to
    predict where the configuration has a criterion for them. They are written to the folder of the run, so that it can be
    gone on with. Bytes are divided by 255. `layers` takes the place of the network, in the words of docs/model-format.md.

    >>> import tempfile
    >>> from gains_ode import Fixed
    >>> x = np.random.default_rng(0).normal(size=(60, 2))
    >>> layers = [
    ...     {"type": "ode", "solver": Fixed(method="rk4", steps=2), "dynamics": [
    ...         {"type": "linear", "name": "f", "in_features": 2, "out_features": 2}, {"type": "tanh"}]},
    ...     {"type": "linear", "name": "head", "in_features": 2, "out_features": 2},
    ... ]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = train(config={"batch": 20, "phases": [{"epochs": 2}]}, layers=layers, data=(x, x[:, 0] > 0), out=folder)
    ...     len(run.metrics), run.model.predict(x).shape
    (2, (60, 2))

    The trainer works in a process of its own, `gains train`, which is told to stop when this call is left.
    """
    if sum(one is not None for one in (preset, config, resume)) != 1:
        raise InputError("train needs one of preset, config and resume", "e.g. gains.train(preset='quick')")
    if resume is not None and not (data is None and layers is None):
        raise InputError("a run that is gone on with has its data and its network", "leave out data and layers")
    samples = None if data is None else _samples(data)
    written: Path | None = None
    if config is not None and not isinstance(config, str | os.PathLike):
        config = written = _written(config if layers is None else {**config, "layers": list(layers)})
    elif layers is not None:
        settings = {"layers": list(layers), **(settings or {})}
    command = [*_COMMAND, "train", "--device", device]
    if samples is not None:
        if out is None:
            out = Path("runs") / f"{preset or 'own'}-{samples.digest()}{'' if seed is None else f'-seed{seed}'}"
        _vacant(Path(out), force)
        command += samples.write(Path(out))
    for key, value in (settings or {}).items():
        command += ["--set", f"{key}={_toml(value)}"]
    flags = {"--preset": preset, "--config": config, "--resume": resume, "--seed": seed, "--threads": threads}
    for flag, given in {**flags, "--out": out, "--data-dir": data_dir}.items():
        if given is not None:
            command += [flag, str(given)]
    command += ["--force"] * force + ["--quiet"] * quiet
    folder = Path(resume) if resume is not None else None if out is None else Path(out)
    try:
        return Run(_run(command, folder, epoch))
    finally:
        if written is not None:
            written.unlink()


@dataclass(frozen=True)
class _Samples:
    """Samples to learn from, as they are written beside the run."""

    inputs: NDArray[Any]
    labels: NDArray[Any] | list[str]

    def digest(self) -> str:
        """A short name for these very samples."""
        found = hashlib.sha256(np.ascontiguousarray(self.inputs).tobytes())
        found.update(str(self.inputs.shape).encode())
        found.update(repr(self.labels).encode() if isinstance(self.labels, list) else self.labels.tobytes())
        return found.hexdigest()[:8]

    def write(self, folder: Path) -> list[str]:
        """Write them, and give the flags that name them."""
        where = (folder / "samples").absolute()
        where.mkdir(parents=True, exist_ok=True)
        np.save(where / "x.npy", self.inputs)
        if isinstance(self.labels, list):
            labels = where / "y.csv"
            with labels.open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows([["class"], *([one] for one in self.labels)])
        else:
            labels = where / "y.npy"
            np.save(labels, self.labels)
        scale = ["--set", "data.scale=255"] if self.inputs.dtype == np.uint8 else []
        return ["--inputs", os.fspath(where / "x.npy"), "--labels", os.fspath(labels), *scale]


def _samples(data: tuple[object, object]) -> _Samples:
    """Check arrays before anything is written."""
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise InputError("data is no pair", "give data=(x, y): samples, and what is true of them")
    x, y = data
    if hasattr(x, "columns") and hasattr(x, "to_numpy"):  # a table of pandas or polars
        x = x.to_numpy()
    inputs = array(x, "x") if is_bytes(x) else floats(x, "x")
    if inputs.ndim < 2 or 0 in inputs.shape:
        hint = "the first axis counts the samples, the others are those of one: (samples, features) or images"
        raise InputError(f"x has the axes {list(inputs.shape)}", hint)
    if not np.isfinite(inputs).all():
        at = int(np.argwhere(~np.isfinite(inputs))[0, 0])
        raise InputError(f"sample {at} of x has a value that is not finite", "take it out, or fill it in")
    labels = _labels(y)
    if len(labels) != len(inputs):
        raise InputError(f"there are {len(labels)} labels for {len(inputs)} samples", "give one for each sample")
    return _Samples(inputs, labels)


def _labels(y: object) -> NDArray[Any] | list[str]:
    plain = y.tolist() if hasattr(y, "tolist") and not hasattr(y, "detach") else y
    if isinstance(plain, list | tuple) and plain and all(isinstance(one, str) for one in plain):
        return [str(one) for one in plain]
    found = floats(y, "y")
    if found.ndim < 1 or not np.isfinite(found).all():
        hint = "give one class, or the numbers to predict, for each sample"
        raise InputError("y is no list of finite numbers or names", hint)
    return found


def _vacant(folder: Path, force: bool) -> None:
    """Refuse a folder that holds a run before its samples are replaced."""
    if not force and (folder / "config.toml").exists():
        hint = "choose another folder with out=, start over with force=True, or go on with resume="
        raise InputError(f"'{folder}' holds a run", hint)


def _run(command: list[str], folder: Path | None, epoch: Callable[[dict[str, float]], object] | None) -> Path:
    """Run the trainer, and follow its metrics."""
    seen = len(_rows(folder)) if folder is not None else 0
    with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
        # A session of its own: Ctrl-C reaches it through us alone, once. It ends when its standard input does: with us.
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=said, stderr=subprocess.STDOUT, start_new_session=True
        ) as process:
            try:
                while epoch is not None and folder is not None and process.poll() is None:
                    time.sleep(0.2)
                    seen = _tell(folder, seen, epoch)
                process.wait()
            except BaseException:
                process.send_signal(signal.SIGINT)
                process.wait()
                raise
        said.seek(0)
        told = said.read()
    if process.returncode != 0:
        lines = [line for line in told.splitlines() if line.strip()]
        message = next((line[7:] for line in lines if line.startswith("error: ")), "training failed")
        hint = next((line[6:] for line in lines if line.startswith("hint: ")), None)
        raise (InputError if process.returncode == 2 else RunError)(message, hint)
    if folder is None:
        folder = _told(told)
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
    return value if isinstance(value, str) else _inline(value)


def _written(config: Mapping[str, Any]) -> Path:
    """Write a configuration to a file; JSON's values are TOML's, tables aside."""
    handle, name = tempfile.mkstemp(suffix=".toml")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        for key, value in config.items():
            file.write(f"{json.dumps(str(key))} = {_inline(value)}\n")
    return Path(name)


def _inline(value: Any) -> str:
    """A value of TOML in one line."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Solver):
        value = value.description()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(str(key))} = {_inline(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_inline(one) for one in value) + "]"
    return json.dumps(value)
