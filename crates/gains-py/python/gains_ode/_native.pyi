"""The Rust half; everything public is in `gains_ode`."""

from collections.abc import Callable
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

__version__: str

def main(arguments: list[str]) -> int: ...
def bundled() -> list[tuple[str, str]]: ...
def prepare_series(table: str | PathLike[str], out: str | PathLike[str]) -> tuple[int, list[str]]: ...
def tableau(method: str) -> tuple[list[float], list[list[float]], list[float], list[float] | None, int]: ...

class Samples:
    def values(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]: ...
    def restore(self, values: list[float]) -> NDArray[np.float64]: ...

class Lines:
    def __len__(self) -> int: ...
    def numbers(self, name: str) -> NDArray[np.float64]: ...
    def integers(self, name: str) -> NDArray[np.int64]: ...
    def words(self, name: str) -> list[str | None]: ...
    def witness(self, at: int) -> NDArray[np.float64] | None: ...
    def jsonl(self) -> str: ...

class Network:
    @staticmethod
    def load(path: str | PathLike[str] | None = None) -> Network: ...
    @staticmethod
    def from_bytes(content: bytes) -> Network: ...
    @staticmethod
    def from_weights(weights: bytes, description: str) -> Network: ...
    def to_bytes(self) -> bytes: ...
    def save(self, path: str | PathLike[str]) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def hash(self) -> str: ...
    @property
    def input(self) -> tuple[int, int, int]: ...
    @property
    def outputs(self) -> list[str]: ...
    @property
    def task(self) -> str: ...
    @property
    def parameters(self) -> int: ...
    def description(self) -> str: ...
    def samples(
        self,
        x: NDArray[np.float64],
        *,
        labels: NDArray[np.float64] | None = None,
        names: list[str] | None = None,
        truth: NDArray[np.float64] | None = None,
        truth_columns: list[str] | None = None,
        columns: list[str] | None = None,
        layout: str | None = None,
        scale: float | None = None,
        bytes: bool = False,
        name: str = "array",
    ) -> Samples: ...
    def boxes(
        self,
        lower: NDArray[np.float64],
        upper: NDArray[np.float64],
        *,
        labels: NDArray[np.float64] | None = None,
        layout: str | None = None,
        bytes: bool = False,
        name: str = "array",
    ) -> Samples: ...
    def usual(
        self,
        *,
        data: str | None = None,
        split: str | None = None,
        data_dir: str | PathLike[str] | None = None,
        series: str | PathLike[str] | None = None,
        part: str | None = None,
        horizon: str | None = None,
        samples: list[int] | None = None,
    ) -> Samples: ...
    def predict(self, samples: Samples, precision: str = "float64", threads: int | None = None) -> NDArray[np.float64]: ...
    def gradients(
        self,
        samples: Samples,
        cotangents: NDArray[np.float64],
        precision: str = "float64",
        threads: int | None = None,
    ) -> NDArray[np.float64]: ...
    def certify(
        self,
        samples: Samples,
        eps: list[float],
        chosen: list[int] | None = None,
        given: dict[str, Any] | None = None,
        out: str | PathLike[str] | None = None,
        resume: bool = False,
        progress: Callable[[int, int], object] | None = None,
    ) -> Lines: ...
    def radius(
        self,
        samples: Samples,
        max: float,
        gap: float,
        bisect: str,
        chosen: list[int] | None = None,
        given: dict[str, Any] | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> Lines: ...
    def attack(
        self,
        samples: Samples,
        eps: list[float],
        steps: int,
        step_size: float,
        restarts: int,
        loss: str | None = None,
        seed: int = 0,
        precision: str = "float64",
        given: dict[str, Any] | None = None,
    ) -> list[tuple[int, float, bool, float, float, NDArray[np.float64] | None]]: ...
    def bounds(
        self, samples: Samples, eps: float, given: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], list[str | None]]: ...
    def trajectory(self, samples: Samples, sample: int, eps: float, given: dict[str, Any] | None = None) -> str: ...
    def forecast(self, samples: Samples, record: str | None, eps: float, given: dict[str, Any] | None = None) -> str: ...
