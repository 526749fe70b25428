"""Modules become networks that compute the same, and networks become modules."""

import json
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from conftest import PATIENT, ROOT, TUTORIAL
from torch import nn

import gains_ode as gains
from gains_ode._solvers import solver_of

torch.manual_seed(0)


def relative(ours, theirs):
    return (np.abs(ours - theirs) / np.abs(theirs).max(axis=1, keepdims=True)).max()


def tutorial(name):
    """A network of the tutorial with its weights, its inputs, PyTorch's logits, and its solver."""
    pytest.importorskip("sklearn")
    load_file = pytest.importorskip("safetensors.torch").load_file
    sys.path.insert(0, str(ROOT / "scripts/tutorial"))
    try:
        import networks
    finally:
        sys.path.pop(0)
    _, model = getattr(networks, name.replace("-", "_"))()
    model.load_state_dict(load_file(TUTORIAL / f"{name}.safetensors"), strict=False)
    description = json.loads((TUTORIAL / f"{name}.json").read_text())
    for layer in description["layers"]:
        if layer["type"] == "normalize":
            model.encoder[0].mean = torch.tensor(layer["mean"])
            model.encoder[0].std = torch.tensor(layer["std"])
    solver = next(layer["solver"] for layer in description["layers"] if layer["type"] == "ode")
    x, logits = np.load(TUTORIAL / f"{name}.x.npy"), np.load(TUTORIAL / f"{name}.logits.npy")
    return model.eval(), torch.tensor(x), logits, solver_of(solver)


NAMES = ["moons", "breast-cancer", "convolutional", "runge-kutta", "augmented", "ode-net"]


@pytest.mark.parametrize("name", NAMES)
def test_the_networks_of_the_tutorial_by_their_parts(name):
    model, x, logits, solver = tutorial(name)
    net = gains.torch.export(
        encoder=model.encoder, dynamics=model.dynamics, head=model.head, solver=solver, example=x, name=name
    )
    assert net.check.difference < 1e-5
    assert relative(net.predict(x, precision="float32"), logits) < 1e-5


class Solved(nn.Module):
    """As anyone would write it: the solver is called in `forward`."""

    def __init__(self, model, adjoint=False, **settings):
        super().__init__()
        self.model, self.adjoint, self.settings = model, adjoint, settings

    def forward(self, x):
        import torchdiffeq

        times = torch.tensor([0.0, 1.0])
        solve = torchdiffeq.odeint_adjoint if self.adjoint else torchdiffeq.odeint
        z = solve(self.model.dynamics, self.model.encoder(x), times, **self.settings)
        return self.model.head(z[-1])


@pytest.mark.parametrize(("name", "adjoint"), [*((name, False) for name in NAMES), ("moons", True), ("ode-net", True)])
def test_the_networks_of_the_tutorial_by_their_calls(name, adjoint):
    pytest.importorskip("torchdiffeq")
    model, x, logits, solver = tutorial(name)
    net = gains.torch.export(Solved(model, adjoint, method="dopri5", rtol=1e-3, atol=1e-3), solver=solver, example=x)
    assert net.check.difference < 1e-5
    assert relative(net.predict(x, precision="float32"), logits) < 1e-5


def test_settings_of_torchdiffeq_are_recognised():
    pytest.importorskip("torchdiffeq")
    model, x, _, _ = tutorial("runge-kutta")
    steady = Solved(model, method="rk4", options={"step_size": 0.125})
    net = gains.torch.export(steady, example=x)
    assert net.check.solvers == (gains.Fixed(method="rk38", steps=8),)
    assert net.check.difference < 1e-5
    assert net.check.own_difference < 1e-5
    adaptive = gains.torch.export(Solved(model, method="dopri5", rtol=1e-4, atol=1e-4), example=x)
    assert isinstance(adaptive.check.solvers[0], gains.Controlled)
    assert adaptive.check.own_difference < 1e-2


def test_exported_networks_are_certified():
    model, x, logits, solver = tutorial("moons")
    net = gains.torch.export(encoder=model.encoder, dynamics=model.dynamics, head=model.head, solver=solver, example=x)
    report = net.certify(x[:10], logits[:10].argmax(1), eps=0.02, method="symbolic", timeout=PATIENT)
    assert report.verified.all()


def test_batch_norm_is_folded():
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 5), nn.BatchNorm1d(5))
    for _ in range(3):
        model(torch.randn(8, 1, 6, 6))
    net = gains.torch.export(model, example=torch.randn(8, 1, 6, 6))
    assert [layer["type"] for layer in net.description["layers"]] == ["conv2d", "relu", "flatten", "linear"]
    assert model.training


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 6), nn.SiLU(), nn.Linear(6, 4))

    def forward(self, x):
        gate = torch.sigmoid(x[:, 1:3].repeat(1, 2))
        return x + gate * self.inner(x) - torch.maximum(x, -x).mean(1, keepdim=True)


def test_branches_are_written_down():
    net = gains.torch.export(Residual(), example=torch.randn(6, 4), task="regression")
    assert net.check.difference < 1e-5


class Tall(nn.Module):
    """Time in every shape people give it."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.wide = nn.Linear(4, 3)
        self.embed = nn.Linear(1, 3)
        self.plain = nn.Linear(3, 3)

    def forward(self, t, z):
        if self.kind == "concatenated":
            return torch.tanh(self.wide(torch.cat([z, torch.ones_like(z[:, :1]) * t], 1)))
        if self.kind == "expanded":
            return torch.tanh(self.wide(torch.cat([t.expand(z.shape[0], 1), z], 1)))
        if self.kind == "embedded":
            return torch.tanh(self.plain(z) + self.embed(t.view(1, 1)))
        if self.kind == "waves":
            return torch.tanh(self.plain(z)) * torch.cos(3.0 * t) + torch.sin(t)
        return torch.tanh(self.plain(z)) * t - z


@pytest.mark.parametrize("kind", ["concatenated", "expanded", "embedded", "waves", "scaled"])
def test_dynamics_take_the_time(kind):
    solver = gains.Fixed(method="midpoint", steps=5)
    net = gains.torch.export(dynamics=Tall(kind), head=nn.Linear(3, 2), solver=solver, example=torch.randn(5, 3))
    assert net.check.difference < 1e-5
    types = [layer["type"] for layer in net.description["layers"][0]["dynamics"]]
    if kind in ("concatenated", "expanded"):
        assert types == ["linear", "tanh"], "the time is a column of the weights"


def test_times_may_begin_anywhere():
    torchdiffeq = pytest.importorskip("torchdiffeq")

    class Later(nn.Module):
        def __init__(self):
            super().__init__()
            self.f = Tall("waves")

        def forward(self, x):
            return torchdiffeq.odeint(self.f, x, torch.linspace(0.5, 2.0, 4), method="rk4")[-1]

    net = gains.torch.export(Later(), example=torch.randn(5, 3), task="regression")
    assert net.check.solvers[0] == gains.Fixed(method="rk38", steps=3, end_time=1.5)
    assert net.check.own_difference < 1e-5


class Softmaxed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.odd = nn.Softmax(dim=1)

    def forward(self, x):
        return self.odd(self.first(x))


def test_what_has_no_layer_is_named_with_its_place():
    with pytest.raises(gains.ExportError) as caught:
        gains.torch.export(Softmaxed(), example=torch.randn(2, 3))
    assert "softmax" in caught.value.message
    assert "test_torch.py" in caught.value.message
    assert "odd: Softmax" in caught.value.message
    assert "relu" in caught.value.hint


BAD = {
    "numbers out of tensors": lambda x: x * x.sum().item(),
    "division by the input": lambda x: 1.0 / (x + 9.0),
    "a constant": lambda x: torch.zeros(2),
    "two outputs": lambda x: (x, x),
    "mixed samples": lambda x: x - x.mean(0),
    "flattened samples": lambda x: x.reshape(-1),
    "random": lambda x: x + torch.rand_like(x),
}


class Call(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_exported_is_refused(name):
    with pytest.raises(gains.ExportError) as caught:
        gains.torch.export(Call(BAD[name]), example=torch.randn(4, 3), task="regression")
    assert caught.value.hint


def test_wrong_calls_are_refused():
    with pytest.raises(gains.InputError):
        gains.torch.export(Residual(), example=torch.randn(4))
    with pytest.raises(gains.InputError):
        gains.torch.export(example=torch.randn(4, 4))
    with pytest.raises(gains.InputError, match="solver"):
        gains.torch.export(dynamics=nn.Linear(2, 2), example=torch.randn(4, 2))
    with pytest.raises(gains.InputError, match="names"):
        gains.torch.export(nn.Linear(2, 2), example=torch.randn(4, 2), classes=["one"])


def test_networks_are_modules(fashion, images):
    x = torch.tensor(images[0][:3], dtype=torch.float32, requires_grad=True)
    model = gains.torch.module(fashion)
    logits = model(x)
    assert np.allclose(logits.detach().numpy(), fashion.predict(x, precision="float32"))
    loss = nn.functional.cross_entropy(logits, torch.tensor(images[1][:3]))
    loss.backward()
    assert x.grad.shape == x.shape
    # Downhill is downhill: the attack of somebody else finds what ours would.
    step = (x + 0.01 * x.grad.sign()).detach()
    assert nn.functional.cross_entropy(model(step), torch.tensor(images[1][:3])) > loss


def test_there_and_back():
    """A module, exported, as a module again: the same values and the same gradients."""
    model, x, _, solver = tutorial("moons")
    net = gains.torch.export(encoder=model.encoder, dynamics=model.dynamics, head=model.head, solver=solver, example=x)
    back = gains.torch.module(net, precision="float64")
    double = x[:4].double().requires_grad_()
    assert torch.autograd.gradcheck(lambda one: back(one), (double,), eps=1e-6, atol=1e-4)


def test_a_function_of_jax(fashion, images):
    jax = pytest.importorskip("jax")
    f = gains.jax.function(fashion)
    x = images[0][:2].astype(np.float32)
    assert np.allclose(f(x), fashion.predict(x, precision="float32"), atol=1e-5)
    assert np.allclose(jax.jit(f)(x), f(x))
    found = jax.grad(lambda one: f(one)[:, 3].sum())(x)
    cotangent = np.zeros((2, 10))
    cotangent[:, 3] = 1.0
    assert np.allclose(found, fashion.gradients(x, cotangent, precision="float32"), atol=1e-5)
