"""Networks as modules."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .._network import Network


class _Run(torch.autograd.Function):
    """The network forwards, its gradients backwards."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, net: Network, precision: str, threads: int | None) -> Tensor:
        """Run the network."""
        ctx.save_for_backward(x)
        ctx.settings = (net, precision, threads)
        found = net.predict(x, precision=precision, threads=threads, layout="nchw")
        return torch.as_tensor(found).to(dtype=x.dtype, device=x.device)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        """Pull gradients back."""
        (x,) = ctx.saved_tensors
        net, precision, threads = ctx.settings
        found = net.gradients(x, gradients[0], precision=precision, threads=threads, layout="nchw")
        return torch.as_tensor(found).to(dtype=x.dtype, device=x.device), None, None, None


class Module(nn.Module):
    """A network that never changes, as a module."""

    def __init__(self, net: Network, precision: str = "float32", threads: int | None = None) -> None:
        super().__init__()
        self.net, self.precision, self.threads = net, precision, threads

    def forward(self, x: Tensor) -> Tensor:
        """Give the outputs for a batch of inputs."""
        found: Tensor = _Run.apply(x, self.net, self.precision, self.threads)
        return found

    def extra_repr(self) -> str:
        """Name the network."""
        return repr(self.net)
