"""How an ODE is solved, in the words of docs/model-format.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Solver:
    """A method of Runge and Kutta and the time it ends at."""

    method: str
    end_time: float = 1.0

    def description(self) -> dict[str, Any]:
        """The solver as a model file has it."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Fixed(Solver):
    """A number of equal steps: `euler`, `midpoint`, `heun`, `rk4`, `rk38` and others.

    >>> Fixed(method="midpoint", steps=4).description()["controller"]
    {'type': 'fixed', 'steps': 4}
    """

    steps: int = 10

    def description(self) -> dict[str, Any]:
        """The solver as a model file has it."""
        controller = {"type": "fixed", "steps": self.steps}
        return {"method": self.method, "end_time": self.end_time, "controller": controller}


@dataclass(frozen=True, kw_only=True)
class Controlled(Solver):
    """Adaptive steps that can be followed: `h0` times powers of `factor` only, chosen by the error estimate.

    `tolerance` is absolute, for the sum of the error estimate over all entries of the state.
    """

    tolerance: float = 5e-3
    h0: float = 0.1
    factor: int = 2
    minimum_step: float = 0.02
    rejections_after_clipping: int = 1

    def description(self) -> dict[str, Any]:
        """The solver as a model file has it."""
        controller = {
            "type": "controlled_adaptive",
            "factor": self.factor,
            "tolerance": self.tolerance,
            "initial_step": min(self.h0, self.end_time),
            "minimum_step": min(self.minimum_step, self.h0, self.end_time),
            "rejections_after_clipping": self.rejections_after_clipping,
        }
        return {"method": self.method, "end_time": self.end_time, "controller": controller}


@dataclass(frozen=True, kw_only=True)
class Dopri5(Controlled):
    """Dormand and Prince's method of order 5 with controlled steps: the one of the paper."""

    method: str = "dopri5"


def solver_of(description: dict[str, Any]) -> Solver:
    """Read a solver out of a model file.

    >>> solver_of(Dopri5(h0=0.2).description()) == Controlled(method="dopri5", h0=0.2)
    True
    """
    controller, method, end_time = description["controller"], description["method"], description["end_time"]
    if controller["type"] == "fixed":
        return Fixed(method=method, end_time=end_time, steps=controller["steps"])
    if controller["type"] == "controlled_adaptive":
        return Controlled(
            method=method,
            end_time=end_time,
            tolerance=controller["tolerance"],
            h0=controller["initial_step"],
            factor=controller["factor"],
            minimum_step=controller["minimum_step"],
            rejections_after_clipping=controller["rejections_after_clipping"],
        )
    raise ValueError(f"{controller['type']} steps cannot be exported")
