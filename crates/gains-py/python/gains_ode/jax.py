"""Networks as functions of JAX.

>>> import jax, numpy as np, gains_ode as gains  # doctest: +SKIP
>>> f = gains.jax.function(gains.load("mnist"))  # doctest: +SKIP
>>> jax.grad(lambda x: f(x)[0, 3])(np.zeros((1, 1, 28, 28), np.float32)).shape  # doctest: +SKIP
(1, 1, 28, 28)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ._network import Network
from .errors import needed

try:
    import jax
    import jax.numpy as jnp
except ImportError as error:
    raise needed("jax") from error


def function(net: Network, *, precision: str = "float32", threads: int | None = None) -> Callable[[Any], Any]:
    """Give a function from a batch of inputs to outputs that can be compiled, and differentiated once, backwards."""

    def run(x: Any) -> Any:
        found = net.predict(np.asarray(x), precision=precision, threads=threads)
        return found.astype(np.asarray(x).dtype)

    def pull(x: Any, gradient: Any) -> Any:
        found = net.gradients(np.asarray(x), np.asarray(gradient), precision=precision, threads=threads)
        return found.astype(np.asarray(x).dtype)

    @jax.custom_vjp
    def f(x: Any) -> Any:
        shape = jax.ShapeDtypeStruct((x.shape[0], len(net.outputs)), x.dtype)
        return jax.pure_callback(run, shape, x)

    def forwards(x: Any) -> Any:
        return f(x), x

    def backwards(x: Any, gradient: Any) -> Any:
        return (jax.pure_callback(pull, jax.ShapeDtypeStruct(x.shape, x.dtype), x, gradient),)

    f.defvjp(forwards, backwards)
    return lambda x: f(jnp.asarray(x))
