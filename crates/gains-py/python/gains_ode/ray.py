"""Many machines through Ray: campaigns and training runs as tasks of a cluster.

`certify` writes the result file of the command line, line by line as chunks come in; a worker or a node that dies costs its
chunk, which is done again elsewhere; a driver that dies goes on with `resume=True`. docs/scale.md says how to run it.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ._arrays import floats, radii
from ._network import Network
from ._report import Report
from ._train import Run
from ._train import train as _train
from .errors import InputError, RunError, needed

try:
    import ray
except ImportError as error:
    raise needed("ray", "ray") from error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray
    from typing_extensions import Unpack

    from ._options import Options

# What a worker keeps from one chunk to the next: the network and its samples, of the campaign it works on.
_kept: dict[str, tuple[Network, Any]] = {}


def _chunk(campaign: str, shared: Mapping[str, Any], indices: list[int]) -> tuple[str, float]:
    """Decide some samples on a worker: lines of a result file, and how long it took."""
    started = time.perf_counter()
    if campaign not in _kept:
        _kept.clear()
        net = Network.from_bytes(shared["model"])
        given, _ = net._given(*shared["given"])
        _kept[campaign] = (net, given)
    net, given = _kept[campaign]
    lines = net._native.certify(given, shared["eps"], indices, shared["options"])
    return lines.jsonl(), time.perf_counter() - started


def certify(
    net: Network,
    x: object = None,
    y: object = None,
    *,
    eps: ArrayLike = 0.1,
    out: str | os.PathLike[str],
    resume: bool = False,
    samples: Iterable[int] | None = None,
    chunk: int = 8,
    memory: int | None = None,
    retries: int = 3,
    in_flight: int | None = None,
    progress: Callable[[int, int], object] | None = None,
    layout: str | None = None,
    scale: float | None = None,
    name: str = "array",
    data: str | None = None,
    split: str | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    **options: Unpack[Options],
) -> Report:
    """Certify samples on a Ray cluster; everything else is as with `Network.certify`.

    `chunk` samples are one task; `memory` bytes are set aside for it, `retries` times it is done again if its worker dies,
    and `in_flight` tasks are handed out at most (two for each core). Each task works on one core unless `threads` says more.
    """
    from ._options import plain

    if chunk < 1:
        raise InputError(f"chunk is {chunk}", "a task takes at least one sample")
    given_options = plain({"threads": 1, **options}) or {}
    values = None if x is None else (x if hasattr(x, "columns") else _kept_type(x))
    labels = None if y is None else np.asarray(y)
    wanted = None if samples is None else [int(one) for one in samples]
    given = (values, labels, layout, scale, None, name, data, split, data_dir, None, None, None, wanted)
    local, shape = net._given(*given)
    # Opening the file checks that what is in it belongs to this very run, and cuts off an unfinished line.
    eps_list = radii(eps)
    net._native.certify(local, eps_list, [], given_options, out, resume)
    indices = wanted if wanted is not None else _indices(local, values)
    done = _done(out, len(eps_list))
    todo = [one for one in indices if one not in done]
    total = len(indices)
    shared = {"model": net.to_bytes(), "given": given, "eps": eps_list, "options": given_options}
    campaign = f"{net.hash}-{os.getpid()}-{time.time_ns()}"
    task = ray.remote(_chunk).options(num_cpus=given_options["threads"], max_retries=retries, memory=memory)
    chunks = iter([todo[at : at + chunk] for at in range(0, len(todo), chunk)])
    reference = ray.put(shared)
    running: dict[Any, list[int]] = {}
    finished = total - len(todo)
    most = in_flight or 2 * max(int(ray.cluster_resources().get("CPU", 1)) // given_options["threads"], 1)
    with _appending(out) as file:
        while True:
            while len(running) < most and (part := next(chunks, None)) is not None:
                running[task.remote(campaign, reference, part)] = part
            if not running:
                break
            ready, _ = ray.wait(list(running), num_returns=1)
            part = running.pop(ready[0])
            text, _ = ray.get(ready[0])
            partial = _partial(out, part) if done else set()
            for line in text.splitlines(keepends=True):
                if partial and _key(line) in partial:
                    continue
                file.write(line)
            file.flush()
            finished += len(part)
            if progress is not None:
                progress(finished, total)
    return _report(out, indices, eps_list, shape, local)


def _kept_type(x: object) -> NDArray[Any]:
    """Bytes stay bytes, which are scaled; everything else becomes float64."""
    from ._arrays import array, is_bytes

    return array(x, "x") if is_bytes(x) else floats(x, "x")


def _indices(local: Any, values: Any) -> list[int]:
    if values is not None:
        return list(range(len(values)))
    return list(range(len(local.values()[1])))


def _key(line: str) -> tuple[int, float]:
    found = json.loads(line)
    return found["index"], found["eps"]


def _done(out: str | os.PathLike[str], radii_count: int) -> set[int]:
    """Samples that are there already, at all radii."""
    counts: dict[int, int] = {}
    for line in Path(out).read_text(encoding="utf-8").splitlines():
        index, _ = _key(line)
        counts[index] = counts.get(index, 0) + 1
    return {index for index, count in counts.items() if count >= radii_count}


def _partial(out: str | os.PathLike[str], part: Sequence[int]) -> set[tuple[int, float]]:
    """Samples of a chunk that are there at some radii."""
    keys = (_key(line) for line in Path(out).read_text(encoding="utf-8").splitlines())
    return {key for key in keys if key[0] in set(part)}


class _appending:  # noqa: N801
    """A result file that is ours while it is open: no other process appends to it."""

    def __init__(self, out: str | os.PathLike[str]) -> None:
        self.file = Path(out).open("a", encoding="utf-8")  # noqa: SIM115

    def __enter__(self) -> Any:
        try:
            import fcntl

            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:
            pass
        except OSError as error:
            self.file.close()
            raise RunError(f"'{self.file.name}' is being written to", "wait for that run to end") from error
        return self.file

    def __exit__(self, *_: object) -> None:
        self.file.close()


class _JsonLines:
    """Lines of a result file, column by column, as `_native.Lines` has them."""

    def __init__(self, lines: list[dict[str, Any]], text: str, samples: Any) -> None:
        self.lines, self.text, self.samples = lines, text, samples

    def __len__(self) -> int:
        return len(self.lines)

    def numbers(self, name: str) -> NDArray[np.float64]:
        return np.array([_number(line.get(name)) for line in self.lines], dtype=np.float64)

    def integers(self, name: str) -> NDArray[np.int64]:
        return np.array([-1 if line.get(name) is None else line[name] for line in self.lines], dtype=np.int64)

    def words(self, name: str) -> list[str | None]:
        if name == "stage":
            return [line["stages"][-1]["name"] if line["stages"] else None for line in self.lines]
        return [line.get(name) for line in self.lines]

    def witness(self, at: int) -> NDArray[np.float64] | None:
        found = self.lines[at].get("witness")
        if not isinstance(found, list):
            return None
        restored: NDArray[np.float64] = self.samples.restore(found)
        return restored

    def jsonl(self) -> str:
        return self.text


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")


def _report(
    out: str | os.PathLike[str], indices: list[int], eps: list[float], shape: tuple[int, ...] | None, samples: Any
) -> Report:
    """Give the results that were asked for, in the order of the samples."""
    text = Path(out).read_text(encoding="utf-8").splitlines()
    found = {(line["index"], line["eps"]): (line, raw) for raw in text for line in [json.loads(raw)]}
    chosen = [found[key] for index in indices for one in eps if (key := (index, one)) in found]
    whole = "".join(f"{one[1]}\n" for one in chosen)
    lines: Any = _JsonLines([one[0] for one in chosen], whole, samples)
    return Report(lines, shape)


# Seconds to wait for the trainer of a worker that died: it notices, saves a checkpoint and ends.
_LEAVING = 600.0


def _train_one(settings: dict[str, Any], folder: str, epoch: Callable[[dict[str, float]], object] | None = None) -> str:
    """Train one run on a worker, or go on with it if an earlier try left a checkpoint."""
    until = time.monotonic() + _LEAVING
    run = Run(Path(folder))
    while not run.is_finished:
        try:
            if (run.folder / "checkpoint.safetensors").is_file():
                kept = {key: settings[key] for key in ("device", "threads", "data_dir", "quiet") if key in settings}
                _train(resume=folder, epoch=epoch, **kept)
            else:
                _train(out=folder, epoch=epoch, **{**settings, "force": run.folder.exists()})
        except RunError as error:
            if "another process is training" not in error.message or time.monotonic() > until:
                raise
            time.sleep(1.0)
    return folder


def train(
    configs: Mapping[str, Mapping[str, Any]],
    out: str | os.PathLike[str],
    *,
    gpus: float = 0.0,
    cpus: float = 1.0,
    retries: int = 3,
) -> dict[str, Run]:
    """Train many runs, each a task: names and the keywords of `gains.train`; folders below `out` (shared by all nodes).

    `gpus` and `cpus` are what one run takes; a quarter of a GPU lets four share it. A run whose worker dies goes on from its
    last checkpoint, here or elsewhere, and ends with the same bits.
    """
    task = ray.remote(_train_one).options(num_cpus=cpus, num_gpus=gpus, max_retries=retries)
    folders = {name: os.path.join(os.fspath(out), name) for name in configs}
    Path(out).mkdir(parents=True, exist_ok=True)
    running = {name: task.remote(dict(settings), folders[name]) for name, settings in configs.items()}
    return {name: Run(Path(ray.get(reference))) for name, reference in running.items()}


def sweep(
    space: Mapping[str, Any],
    *,
    out: str | os.PathLike[str],
    metric: str = "test_accuracy",
    mode: str = "max",
    samples: int = 1,
    gpus: float = 0.0,
    cpus: float = 1.0,
    patience: int = 1,
    retries: int = 3,
    **keywords: Any,
) -> Any:
    """Sweep a recipe with Ray Tune: `space` maps keys of `--set` to what Tune draws from; bad runs are stopped early.

    The other keywords are those of `gains.train`: `preset` or `config`, `data`, `layers`, `device`, … Returns Tune's result
    grid; `gains.Run(result.metrics["folder"])` is the run of a trial, below `out`. After every epoch `metric` of that run is
    compared with that of others; one that is not among the best after `patience` epochs, or four times that, and so on, is
    stopped (ASHA). A trial whose worker dies goes on from its checkpoint.
    """
    try:
        from ray import tune
    except ImportError as error:
        raise needed("ray[tune]") from error

    def trial(config: dict[str, Any]) -> None:
        def epoch(row: dict[str, float]) -> None:
            found = {name: row.get(name, float("nan")) for name in (metric, "loss")}
            tune.report({**found, "folder": os.fspath(folder)})

        folder = runs / str(tune.get_context().get_trial_id())
        _train_one({**keywords, "settings": {**fixed, **config}}, os.fspath(folder), epoch)

    fixed = dict(keywords.pop("settings", None) or {})
    runs = Path(out).absolute() / "runs"
    tuner = tune.Tuner(
        tune.with_resources(trial, {"cpu": cpus, "gpu": gpus}),
        param_space=dict(space),
        tune_config=tune.TuneConfig(
            metric=metric,
            mode=mode,
            num_samples=samples,
            # Runs end by themselves: no epoch is the last for the scheduler.
            scheduler=tune.schedulers.ASHAScheduler(grace_period=patience, max_t=1_000_000),
        ),
        run_config=tune.RunConfig(
            storage_path=os.path.abspath(out), verbose=0, failure_config=tune.FailureConfig(max_failures=retries)
        ),
    )
    return tuner.fit()
