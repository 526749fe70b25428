"""What can go wrong: every exception of this package is an `Error` with a message and, where there is one, a hint."""

from __future__ import annotations


class Error(Exception):
    """Something went wrong.

    >>> try:
    ...     raise InputError("x has 3 columns", "give 2")
    ... except Error as error:
    ...     print(error.message, "/", error.hint)
    x has 3 columns / give 2
    """

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\nhint: {self.hint}"


class InputError(Error, ValueError):
    """An argument does not make sense: a shape, a type, a number, a word."""


class ModelError(Error):
    """A model file cannot be read."""


class ExportError(Error):
    """A module cannot be turned into a network, or does not compute the same."""

    located = False
    """Whether the message names a place in the source."""


class RunError(Error, RuntimeError):
    """Work failed on the way."""


class InternalError(Error):
    """A fault of this package; nothing was decided."""


class MissingError(Error, ImportError):
    """A package that is needed for this call is not installed."""


def needed(package: str, extra: str | None = None) -> MissingError:
    """The error for a package that is not there."""
    name = package if extra is None else f"gains-ode[{extra}]"
    return MissingError(f"{package} is not installed", f"pip install {name}")
