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


def refused(function, example=None, **more):
    with pytest.raises(gains.ExportError) as caught:
        gains.torch.export(
            Call(function), example=torch.randn(4, 4) if example is None else example, task="regression", **more
        )
    return caught.value


def threshold(x):
    z = 2 * x
    z[z > 100] = 1
    return z


def column(x):
    z = 2 * x
    z[:, 0] = x[:, 1]
    return z


def buffer(x):
    z = torch.zeros(x.shape[0], 4)
    z[:, :2] = x[:, :2]
    return x + z


def other_data(x):
    z = 2 * x
    z.data = z.clamp(-100, 100)
    return z


def slice_clamped(x):
    z = 2 * x
    z[:, :2].clamp_(-100, 100)
    return z


def view_added(x):
    z = 2 * x
    z.view(-1).add_(1e-6)
    return z


def detached(x):
    z = 2 * x
    z.detach().clamp_(-100, 100)
    return z


def data(x):
    z = 2 * x
    z.data.clamp_(-100, 100)
    return z


def base_changed(x):
    z = 2 * x
    part = z[:, :2]
    z.clamp_(-100, 100)
    return part


def written_out(x):
    z = torch.zeros(x.shape[0], 8)
    torch.clamp(x, -100, 100, out=z[:, :4])
    return z[:, :4] + x


IN_PLACE = {
    "setitem with a mask": (threshold, "setitem"),
    "setitem of a column": (column, "setitem"),
    "setitem into a constant": (buffer, "setitem"),
    "data of another": (other_data, "set"),
    "a slice": (slice_clamped, "clamp_"),
    "a view": (view_added, "add_"),
    "detached": (detached, "clamp_"),
    "its data": (data, "clamp_"),
    "the base of a view": (base_changed, "clamp_"),
    "out of another": (written_out, "clamp"),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_changes_in_place_that_others_see_are_refused(name):
    """Each of these was left out, and the samples of the example do not show it."""
    function, operation = IN_PLACE[name]
    error = refused(function)
    assert error.message.startswith(operation)
    assert "in place" in error.message
    assert "test_torch.py" in error.message
    assert "without changing tensors in place" in error.hint


def relu_of_two_names(x):
    z = 2 * x
    same = z
    nn.functional.relu_(z)
    return same + z.add_(1) * same


def relu_of_a_view(x):
    z = (2 * x).view(-1, 2, 2).flatten(1)
    z = nn.functional.relu(z, inplace=True)
    return z[:, :2] - z[:, 2:]


def later_constant(x):
    shift = torch.zeros(4)
    z = x + shift
    shift += 100
    return torch.relu(z) + torch.relu(x - shift)


WHOLE = [relu_of_two_names, relu_of_a_view, later_constant]


@pytest.mark.parametrize("function", WHOLE, ids=lambda one: one.__name__)
def test_whole_tensors_are_changed_in_place(function):
    net = gains.torch.export(Call(function), example=torch.randn(4, 4), task="regression")
    x = 100 * torch.randn(50, 4)
    # The module may change what it is given.
    assert np.allclose(net.predict(x), function(x.clone()).numpy(), rtol=1e-4, atol=1e-3)


def test_states_are_not_changed_in_place():
    """The solver goes on with what it gave to the dynamics; here they do change it, though not on the example."""
    dynamics = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(3, 3))
    with pytest.raises(gains.ExportError, match="in place"):
        gains.torch.export(dynamics=dynamics, solver=gains.Fixed(method="euler", steps=2), example=torch.rand(5, 3) + 9)


def test_dynamics_see_nothing_but_their_state():
    torchdiffeq = pytest.importorskip("torchdiffeq")

    def solved(x):
        hidden = torch.relu(x - 100)  # zero on the example, as a constant would be
        return torchdiffeq.odeint(lambda t, z: hidden - z, x, torch.tensor([0.0, 1.0]))[-1]

    assert "more of the input than their state" in refused(solved, solver=gains.Fixed(method="euler", steps=2)).message


def test_times_do_not_depend_on_the_input():
    torchdiffeq = pytest.importorskip("torchdiffeq")

    def solved(x):
        return torchdiffeq.odeint(lambda t, z: -z, x, torch.stack([torch.zeros(()), 1 + torch.relu(x.max() - 100)]))[-1]

    assert "times" in refused(solved, solver=gains.Fixed(method="euler", steps=2)).message


ANSWERS = {
    "tolist": lambda x: x if x.tolist()[0][0] < 100 else -x,
    "equal": lambda x: -x if torch.equal(x, 2 * x) else x,
    "allclose": lambda x: -x if torch.allclose(x, x + 1) else x,
    "numpy": lambda x: x if x.numpy().max() < 100 else -x,
    "numpy from the CPU": lambda x: x if x.detach().cpu().numpy().max() < 100 else -x,
    "numpy's function": lambda x: x if np.max(np.asarray(x)) < 100 else -x,
    "is_nonzero": lambda x: x if torch.is_nonzero(x.abs().sum() + 1) else -x,
    "item": lambda x: x if x.max().item() < 100 else -x,
    "bool": lambda x: x if (x < 100).all() else -x,
    "contains": lambda x: -x if 100.0 in x else x,
    "a slice": lambda x: x[:, : (x < 100).all(0).sum()],
    "a constant's number": lambda x: x + torch.full_like(x, (x > 100).sum()),
    "inference_mode": torch.inference_mode()(lambda x: 2 * x),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_what_python_could_decide_by_is_refused(name):
    error = refused(ANSWERS[name])
    assert "test_torch.py" in error.message
    assert error.hint


def test_shapes_and_types_may_be_asked_for():
    def asked(x):
        assert x.shape == x.size()
        assert len(x) == x.numel() // 4
        assert x.dim() == x.ndim == 2
        assert x.is_floating_point()
        assert x.is_contiguous()
        assert (x.device.type, x.layout, x.dtype, x.type()) == ("cpu", torch.strided, torch.float32, "torch.FloatTensor")
        assert not x.requires_grad
        assert x.stride() == (4, 1)
        assert repr(x)
        return x.type(x.dtype) + torch.zeros_like(input=x) + x.new_full((4,), 1.0)

    with torch.inference_mode():
        net = gains.torch.export(Call(asked), example=torch.randn(4, 4), task="regression")
    x = torch.randn(3, 4)
    assert np.allclose(net.predict(x), x.numpy() + 1)


def test_programs_of_torch_jit_are_refused():
    scripted = torch.jit.trace(nn.Linear(4, 4), torch.randn(1, 4))
    assert "torch.jit" in refused(nn.Sequential(nn.Linear(4, 4), scripted)).message


def test_thresholds_of_softplus_are_not_left_out():
    """PyTorch's is linear from there on."""
    for function in (lambda x: nn.functional.softplus(x, threshold=5), nn.Softplus(beta=2.0, threshold=19.0)):
        assert "threshold" in refused(function, torch.randn(4, 4) - 9).message
    gains.torch.export(nn.Softplus(threshold=30.0), example=torch.randn(4, 4))


SETTINGS = {
    "grid_constructor": {"options": {"grid_constructor": lambda f, y, t: torch.linspace(0, 1, 21)}},
    "perturb": {"options": {"step_size": 0.5, "perturb": True}},
    "event_fn": {"event_fn": lambda t, z: z[0, 0] - 100},
    "strange": {"strange": 1},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_of_fixed_steps_are_not_left_out(name):
    torchdiffeq = pytest.importorskip("torchdiffeq")

    def solved(x):
        return torchdiffeq.odeint(lambda t, z: -1e-6 * z, x, torch.tensor([0.0, 1.0]), method="euler", **SETTINGS[name])[-1]

    error = refused(solved)
    assert ("event" if name == "event_fn" else name) in error.message
    assert error.hint


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
