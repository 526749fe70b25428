"""A thousand random modules, exported and compared with PyTorch on points that were not used to export them."""

import os
import random
import zlib

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn

import gains_ode as gains

MODULES = int(os.environ.get("GAINS_PY_MODULES", "1000"))
PARTS = 20


class Then(nn.Module):
    """A function as a module."""

    def __init__(self, function, *modules):
        super().__init__()
        self.function = function
        self.parts = nn.ModuleList(modules)

    def forward(self, x):
        return self.function(x, *self.parts)


ACTIVATIONS = [
    nn.ReLU, nn.Tanh, nn.Sigmoid, nn.SiLU, nn.GELU, nn.Softplus, nn.ELU, nn.SELU, nn.ReLU6, nn.Hardtanh, nn.Hardsigmoid,
    nn.Hardswish, lambda: nn.LeakyReLU(0.1), lambda: nn.GELU(approximate="tanh"), lambda: nn.Softplus(beta=2.0),
    lambda: nn.ReLU(inplace=True), lambda: Then(lambda x: torch.sin(x)), lambda: Then(lambda x: x.cos()),
    lambda: Then(lambda x: x.abs()), lambda: Then(lambda x: x.clamp(-1, 2)), lambda: Then(lambda x: x.clamp(min=-0.5)),
    lambda: Then(lambda x: 0.1 * x**2), lambda: Then(lambda x: -x), lambda: Then(lambda x: torch.clamp(x, max=0.7)),
]  # fmt: skip


def vector_layer(choose, size):
    """A layer from a vector to a vector, and the size of that."""
    other = choose.randint(1, 9)
    kinds = {
        "linear": lambda: (nn.Linear(size, other, bias=choose.random() < 0.8), other),
        "activation": lambda: (choose.choice(ACTIVATIONS)(), size),
        "batch norm": lambda: (seen(nn.BatchNorm1d(size, affine=choose.random() < 0.5), (size,)), size),
        "layer norm": lambda: (nn.LayerNorm(size, elementwise_affine=choose.random() < 0.5), size),
        "dropout": lambda: (nn.Dropout(0.3), size),
        "constants": lambda: (affine(choose, (size,)), size),
        "residual": lambda: residual(choose, size),
        "gate": lambda: (Then(lambda x, f: x * torch.sigmoid(f(x)), nn.Linear(size, size)), size),
        "concatenated": lambda: (Then(lambda x, f: torch.cat([f(x), x], dim=1), nn.Linear(size, other)), size + other),
        "zeros": lambda: (Then(lambda x: torch.cat([x, torch.zeros(x.shape[0], 2, dtype=x.dtype)], 1)), size + 2),
        "padded": lambda: (Then(lambda x: nn.functional.pad(x, (1, 2))), size + 3),
        "maximum": lambda: (Then(lambda x, f: torch.maximum(x, f(x)), nn.Linear(size, size)), size),
        "minimum": lambda: (Then(lambda x, f: torch.minimum(x, f(x)), nn.Linear(size, size)), size),
        "reversed": lambda: (Then(lambda x: x.flip(1)), size),
        "mean taken off": lambda: (Then(lambda x: x - x.mean(1, keepdim=True)), size),
        "matrix": lambda: (product(choose, size, other), other),
        "chunks": lambda: (Then(lambda x: swapped(x)), size),
        "sliced": lambda: (Then(lambda x: x[:, : max(1, size // 2)]), max(1, size // 2)),
        "every other": lambda: (Then(lambda x: x[:, ::2]), (size + 1) // 2),
        "ode": lambda: (flow(choose, size), size),
        "ode with time": lambda: (timed_flow(choose, size), size),
    }
    return kinds[choose.choice(list(kinds))]()


def swapped(x):
    if x.shape[1] < 2:
        return x
    first, *rest = x.chunk(2, dim=1)
    return torch.cat([*rest, first], 1)


def residual(choose, size):
    inner = nn.Sequential(nn.Linear(size, 5), choose.choice(ACTIVATIONS)(), nn.Linear(5, size))
    return Then(lambda x, f: x + 0.5 * f(x), inner), size


def affine(choose, shape):
    factor, summand = torch.randn(shape), torch.randn(shape)
    kinds = [
        lambda x: (x - summand.to(x)) / (0.5 + factor.abs().to(x)),
        lambda x: 2.0 * x + summand.to(x),
        lambda x: 1.0 - x * factor.to(x),
    ]
    return Then(choose.choice(kinds))


def product(choose, size, other):
    weight = torch.randn(size, other)
    return Then(lambda x: x @ weight.to(x))


def seen(module, shape):
    """A batch normalisation with statistics of its own."""
    module.running_mean = 0.3 * torch.randn(module.num_features)
    module.running_var = 0.5 + torch.rand(module.num_features)
    return module


class Flow(nn.Module):
    """An ODE that is solved by torchdiffeq when it is there; the exporter never runs its solver."""

    def __init__(self, dynamics, solver, times):
        super().__init__()
        self.dynamics, self.solver, self.times = dynamics, solver, times

    def forward(self, x):
        import torchdiffeq

        return torchdiffeq.odeint(self.dynamics, x, self.times, **self.solver)[-1]


class Rate(nn.Module):
    def __init__(self, inner, timed=False):
        super().__init__()
        self.inner, self.timed = inner, timed

    def forward(self, t, z):
        if self.timed:
            z = torch.cat([torch.ones_like(z[:, :1]) * t, z], 1)
        return torch.tanh(self.inner(z))


def solver(choose):
    method = choose.choice(["euler", "midpoint", "rk4", "dopri5", "bosh3"])
    if method in ("dopri5", "bosh3"):
        return {"method": method, "rtol": 1e-2, "atol": 1e-2, "options": {"first_step": 0.25, "min_step": 0.05}}
    return {"method": method, "options": {"step_size": 1.0 / choose.randint(2, 6)}}


def flow(choose, size):
    inner = nn.Sequential(nn.Linear(size, 4), choose.choice(ACTIVATIONS)(), nn.Linear(4, size))
    return Flow(Rate(inner), solver(choose), torch.tensor([0.0, 1.0]))


def timed_flow(choose, size):
    return Flow(Rate(nn.Linear(size + 1, size), timed=True), solver(choose), torch.tensor([0.0, 1.0]))


def image_layer(choose, shape):
    """A layer from an image to an image, and its shape."""
    channels, height, width = shape
    other = choose.randint(1, 4)
    kernel = choose.choice([1, 3])

    def convolution():
        if height < 3 or width < 3:
            return nn.Conv2d(channels, other, 1), (other, height, width)
        stride, padding = choose.choice([1, 1, 2]), choose.choice([0, 1]) if kernel == 3 else 0
        module = nn.Conv2d(channels, other, kernel, stride=stride, padding=padding, bias=choose.random() < 0.7)
        return module, tuple(module(torch.zeros(1, *shape)).shape[1:])

    kinds = {
        "convolution": convolution,
        "same": lambda: (nn.Conv2d(channels, channels, 3, padding="same", groups=channels), shape),
        "activation": lambda: (choose.choice(ACTIVATIONS)(), shape),
        "batch norm": lambda: (seen(nn.BatchNorm2d(channels), shape), shape),
        "group norm": lambda: (nn.GroupNorm(1 if channels % 2 else 2, channels), shape),
        "layer norm": lambda: (nn.LayerNorm(list(shape)), shape),
        "instance norm": lambda: (nn.InstanceNorm2d(channels, affine=True), shape),
        "constants": lambda: (affine(choose, (1, channels, 1, 1)), shape),
        "each pixel": lambda: (affine(choose, shape), shape),
        "residual": lambda: (Then(lambda x, f: x + f(x), nn.Conv2d(channels, channels, 3, padding=1)), shape),
        "concatenated": lambda: (
            Then(lambda x, f: torch.cat([x, f(x)], 1), nn.Conv2d(channels, other, 1)), (channels + other, height, width)),
        "channels": lambda: (
            Then(lambda x, f: x * torch.sigmoid(f(x.mean((2, 3))))[:, :, None, None], nn.Linear(channels, channels)), shape),
        "transposed": lambda: (Then(lambda x: x.transpose(2, 3)), (channels, width, height)),
        "padded": lambda: (Then(lambda x: nn.functional.pad(x, (1, 0, 0, 1))), (channels, height + 1, width + 1)),
        "ode": lambda: (
            Flow(Rate(nn.Conv2d(channels, channels, 3, padding=1)), solver(choose), torch.tensor([0.0, 1.0])), shape),
        "ode with time": lambda: (
            Flow(Rate(nn.Conv2d(channels + 1, channels, 3, padding=1), True), solver(choose), torch.tensor([0.0, 1.0])),
            shape),
    }  # fmt: skip
    if height >= 4 and width >= 4:
        kinds["maximum"] = lambda: (nn.MaxPool2d(2), (channels, height // 2, width // 2))
        kinds["average"] = lambda: (nn.AvgPool2d(2), (channels, height // 2, width // 2))
        kinds["average of three"] = lambda: (
            nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False), shape)  # fmt: skip
    return kinds[choose.choice(list(kinds))]()


def module(choose):
    """A module and a batch that it takes."""
    layers = []
    if choose.random() < 0.5:
        shape = (choose.randint(1, 3), choose.randint(3, 6), choose.randint(3, 6))
        start = shape
        for _ in range(choose.randint(1, 4)):
            layer, shape = image_layer(choose, shape)
            layers.append(layer)
        if choose.random() < 0.4:
            layers.append(nn.AdaptiveAvgPool2d(1))
            shape = (shape[0], 1, 1)
        layers.append(choose.choice([nn.Flatten(), Then(lambda x: x.reshape(x.size(0), -1)), Then(lambda x: x.flatten(1))]))
        size = int(np.prod(shape))
    else:
        size = choose.randint(1, 6)
        start = (size,)
    for _ in range(choose.randint(1, 4)):
        layer, size = vector_layer(choose, size)
        layers.append(layer)
    layers.append(nn.Linear(size, 3))
    return nn.Sequential(*layers), start


@pytest.mark.parametrize("part", range(PARTS))
def test_random_modules_compute_the_same(part):
    pytest.importorskip("torchdiffeq")
    for number in range(part, MODULES, PARTS):
        torch.manual_seed(number)
        choose = random.Random(zlib.crc32(f"module {number}".encode()))
        model, shape = module(choose)
        model = model.eval().double()
        try:
            net = gains.torch.export(model, example=torch.randn(3, *shape, dtype=torch.float64))
            # Other points than those it was exported with.
            again = gains.torch.compare(net, model, torch.randn(4, *shape, dtype=torch.float64), net.check.solvers)
        except gains.Error as error:
            raise AssertionError(f"module {number}: {error}\n{model}") from error
        assert max(net.check.difference, again.difference) < 1e-5, number
