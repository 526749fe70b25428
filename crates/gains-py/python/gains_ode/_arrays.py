"""Arrays of others as numpy arrays that Rust can read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

MOST = 1 << 28
"""Numbers that one call takes at most."""


def array(given: object, name: str) -> NDArray[Any]:
    """Any array (numpy, torch, jax, DLPack, lists) as a numpy array of numbers, without a copy where that can be."""
    found = given if isinstance(given, np.ndarray) else _converted(given, name)
    if found.dtype.kind not in "fiub":
        raise InputError(f"{name} has the type {found.dtype}", "give real numbers: floats, integers or booleans")
    if found.size > MOST:
        raise InputError(f"{name} has {found.size} numbers, more than {MOST}", "ask in parts: some samples at a time")
    return found


def _converted(given: object, name: str) -> NDArray[Any]:
    if hasattr(given, "detach") and hasattr(given, "cpu"):  # a tensor of torch, which may want gradients
        given = given.detach().cpu()
    try:
        if not hasattr(given, "__array__") and hasattr(given, "__dlpack__"):
            return np.from_dlpack(given)
        return np.asarray(given)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        hint = "give an array of numbers whose first axis counts the samples"
        raise InputError(f"{name} is no array: {error}", hint) from error


def floats(given: object, name: str) -> Floats:
    """The same as contiguous float64."""
    found = array(given, name)
    if found.dtype == np.longdouble and found.dtype != np.float64:
        raise InputError(f"{name} has the type {found.dtype}", "float64 cannot hold all of it: convert it yourself")
    large = found.dtype.kind in "iu" and found.dtype.itemsize == 8 and found.size > 0
    if large and (int(found.max()) > 2**53 or int(found.min()) < -(2**53)):
        raise InputError(f"{name} has integers that float64 cannot hold", "give smaller numbers")
    return np.ascontiguousarray(found, dtype=np.float64)


def is_bytes(given: object) -> bool:
    """Whether an array holds bytes, as pictures do."""
    return str(getattr(given, "dtype", "")).removeprefix("torch.") == "uint8"


def radii(eps: ArrayLike) -> list[float]:
    """One radius or several."""
    found = floats(eps, "eps")
    if found.ndim > 1:
        raise InputError(f"eps has the axes {list(found.shape)}", "give a number, or a list of numbers")
    return [float(one) for one in np.atleast_1d(found)]
