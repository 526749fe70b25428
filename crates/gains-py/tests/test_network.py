"""Networks answer as the command line does."""

import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from conftest import PATIENT, tiny_description, tiny_weights

import gains_ode as gains


def command(*flags, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "gains_ode", *map(str, flags)], capture_output=True, text=True, check=False, cwd=cwd
    )


def timeless(line):
    """A line of a result file without what depends on the clock: the seconds, and the check sum over all."""
    found = json.loads(line) if isinstance(line, str) else dict(line)
    found.pop("seconds")
    found.pop("check", None)
    found["stages"] = [stage["name"] for stage in found["stages"]]
    return found


def by_sample(path):
    lines = [timeless(line) for line in path.read_text().splitlines()]
    return sorted(lines, key=lambda line: (line["index"], line["eps"]))


def test_the_command_comes_with_the_package(tmp_path):
    script = os.path.join(os.path.dirname(sys.executable), "gains")
    if os.path.exists(script):
        found = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
        assert found.stdout.strip() == f"gains {gains.__version__}"
    assert command("model", "list").returncode == 0
    assert command("nonsense").returncode == 2


def test_predictions_are_those_of_the_command_line(fashion, images, tmp_path):
    x, y = images
    np.save(tmp_path / "x.npy", x)
    found = command("predict", "--inputs", tmp_path / "x.npy", "--json", "-q")
    theirs = np.array([json.loads(line)["logits"] for line in found.stdout.splitlines()])
    assert np.array_equal(theirs, fashion.predict(x))
    assert (fashion.predict(x).argmax(1) == y).mean() > 0.5


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ({}, []),
        ({"range": (0.0, 1.0), "method": "tight"}, ["--range", "0,1", "--method", "tight"]),
        ({"norm": 2, "attack_steps": 10}, ["--norm", "2", "--attack-steps", "10"]),
        ({"top": 2, "arithmetic": "float32"}, ["--top", "2", "--arithmetic", "float32"]),
        ({"target": ["bag"], "features": [3, 4, 300]}, ["--target", "bag", "--features", "3,4,300"]),
        ({"feature_eps": {"5": 0.2}, "step_form": "difference", "method": "gains"},
         ["--feature-eps", "5=0.2", "--step-form", "difference", "--method", "gains"]),
    ],
)  # fmt: skip
def test_certificates_are_those_of_the_command_line(fashion, images, tmp_path, options, flags):
    """Bit for bit, seconds aside."""
    x, y = images
    np.save(tmp_path / "x.npy", x[:4])
    np.save(tmp_path / "y.npy", y[:4])
    given = ["--inputs", tmp_path / "x.npy", "--labels", tmp_path / "y.npy", "--eps", "0.02,0.1", "--timeout", "60"]
    found = command("certify", *given, "--threads", "1", "--out", tmp_path / "theirs.jsonl", "-q", *flags)
    assert found.returncode == 0, found.stderr
    report = fashion.certify(
        x[:4], y[:4], eps=[0.02, 0.1], timeout=60, threads=1, name="x.npy", out=tmp_path / "ours.jsonl", **options
    )
    theirs = by_sample(tmp_path / "theirs.jsonl")
    assert by_sample(tmp_path / "ours.jsonl") == theirs
    assert [timeless(line) for line in report] == theirs
    assert report.verdicts.tolist() == [line["verdict"] for line in theirs]


def test_data_of_the_network_are_taken_by_name(fashion):
    report = fashion.certify(samples=[3, 1], eps=0.02)
    assert report.index.tolist() == [3, 1]
    assert json.loads(report.jsonl.splitlines()[0])["data"] == "fashion-mnist"


def test_a_result_file_is_gone_on_with(tiny, tmp_path):
    x, out = np.random.default_rng(1).normal(size=(6, 2)), tmp_path / "r.jsonl"
    tiny.certify(x, eps=0.01, samples=range(3), out=out)
    with pytest.raises(gains.InputError, match="exists already"):
        tiny.certify(x, eps=0.01, out=out)
    told = []
    report = tiny.certify(x, eps=0.01, out=out, resume=True, progress=lambda done, wanted: told.append((done, wanted)))
    assert len(report) == 6
    assert told[0] == (3, 6)
    assert told[-1] == (6, 6)
    assert len(out.read_text().splitlines()) == 6
    with pytest.raises(gains.InputError, match="another run"):
        tiny.certify(x, eps=0.01, out=out, resume=True, timeout=5)


def test_reports_show_themselves(tiny):
    x = np.random.default_rng(0).normal(size=(8, 2))
    y = tiny.predict(x).argmax(1)
    report = tiny.certify(x, y, eps=[0.001, 3.0], timeout=PATIENT)
    assert len(report) == 16
    assert report.verified[::2].all()
    assert (report.margins[report.verified] > 0).all()
    assert report.falsified.any()
    for at in np.flatnonzero(report.falsified):
        witness, index = report.witnesses[at], report.index[at]
        assert witness.shape == (2,)
        assert np.abs(witness - x[index]).max() <= report.eps[at] * (1 + 1e-12)
        assert tiny.predict(witness[None]).argmax() != y[index]
    assert "verified" in report._repr_html_()
    assert repr(report).startswith("<Report of 16: 8 verified")
    pandas = pytest.importorskip("pandas")
    table = report.to_pandas()
    assert isinstance(table, pandas.DataFrame)
    assert table.verdict.tolist() == report.verdicts.tolist()
    assert [line["index"] for line in report] == report.index.tolist()


def test_witnesses_have_the_layout_of_the_inputs(fashion, images):
    x, y = images
    last = np.moveaxis(x, 1, -1)
    # Intervals prove nothing here and are done at once: what is left is what the attack finds.
    settings = {"eps": 0.3, "timeout": PATIENT, "method": "box", "attack_steps": 20}
    first = fashion.certify(x[:6], y[:6], **settings)
    other = fashion.certify(last[:6], y[:6], **settings)
    at = int(np.flatnonzero(first.falsified)[0])
    assert first.witnesses[at].shape == (1, 28, 28)
    assert other.witnesses[at].shape == (28, 28, 1)
    assert np.array_equal(other.witnesses[at][..., 0], first.witnesses[at][0])


def test_bounds_enclose_what_is_seen(tiny, fashion, images):
    random = np.random.default_rng(5)
    x = random.normal(size=(5, 2))
    low, high = tiny.bounds(x - 0.05, x + 0.05, timeout=PATIENT)
    for _ in range(200):
        seen = tiny.predict(x + random.uniform(-0.05, 0.05, size=x.shape))
        assert ((low <= seen) & (seen <= high)).all()
    again = tiny.bounds(x, eps=0.05, timeout=PATIENT)
    assert np.allclose(again[0], low, atol=1e-6)
    pictures = images[0][:2]
    low, high = fashion.bounds(pictures, eps=0.01, method="tight", timeout=PATIENT)
    seen = fashion.predict(pictures)
    assert ((low <= seen) & (seen <= high)).all()
    assert (high - low < 10).all()


def test_boxes_of_bytes_are_divided_as_bytes_are(fashion, images):
    lower = np.minimum(np.round(255 * images[0][:2]), 254).astype(np.uint8)
    scaled = [each.astype(np.float32) / np.float32(255) for each in (lower, lower + np.uint8(1))]
    found = fashion.bounds(lower, lower + np.uint8(1), method="box", timeout=PATIENT)
    assert np.array_equal(found, fashion.bounds(*scaled, method="box", timeout=PATIENT))
    # What `predict` says of the same bytes is inside.
    assert ((found[0] <= fashion.predict(lower)) & (fashion.predict(lower) <= found[1])).all()
    with pytest.raises(gains.InputError, match="bytes"):
        fashion.bounds(lower, scaled[1])


def test_known_values_are_in_the_order_of_the_outputs():
    pandas = pytest.importorskip("pandas")
    description = {**tiny_description(), "task": {"type": "regression", "outputs": ["oxygen", "algae"]}}
    net = gains.Network.from_description(description, tiny_weights())
    x = np.random.default_rng(2).normal(size=(3, 2))
    y = pandas.DataFrame(net.predict(x) + 0.1, columns=net.outputs)
    asked = {"eps": 0.01, "method": "box", "timeout": PATIENT}
    by_name = net.certify(x, y, **asked)
    assert by_name.verdicts.tolist() == net.certify(x, y.to_numpy(), **asked).verdicts.tolist()
    other = y[["algae", "oxygen"]]
    for ask in (net.certify, net.radius):
        with pytest.raises(gains.InputError, match="known values are called algae, oxygen"):
            ask(x, other)
    with pytest.raises(gains.InputError, match="known values are called algae, oxygen"):
        net.attack(x, other, eps=0.01)


def test_attacks_find_what_breaks(tiny):
    x = np.random.default_rng(2).normal(size=(4, 2))
    y = tiny.predict(x).argmax(1)
    found = tiny.attack(x, y, eps=[3.0], steps=50, step_size=0.2)
    assert len(found) == 4
    assert found.found.any()
    for at in np.flatnonzero(found.found):
        assert tiny.predict(found.witnesses[at][None]).argmax() != y[at]


def test_radii_are_between_proof_and_counterexample(tiny):
    x = np.random.default_rng(2).normal(size=(3, 2))
    y = tiny.predict(x).argmax(1)
    report = tiny.radius(x, y, max=4.0, timeout=5)
    assert (report.certified_radius > 0).all()
    assert (report.certified_radius < report.attacked_radius).all()


def test_trajectories_are_graphs(tiny):
    x = np.random.default_rng(2).normal(size=(3, 2))
    shown = tiny.trajectory(x[0], eps=0.01)
    assert len(shown.vertices) >= len(shown.steps) > 0
    assert all(0 <= edge["from"] < len(shown.vertices) for edge in shown.edges)
    assert shown._repr_svg_().startswith("<svg")
    assert shown.steps == tiny.trajectory(x[:1], eps=0.01).steps


def test_gradients_are_those_of_differences(tiny):
    random = np.random.default_rng(7)
    x, cotangent = random.normal(size=(4, 2)), random.normal(size=(4, 2))
    found = tiny.gradients(x, cotangent)
    step = 1e-6
    for entry in range(2):
        moved = np.eye(2)[entry] * step
        wanted = ((tiny.predict(x + moved) - tiny.predict(x - moved)) * cotangent).sum(1) / (2 * step)
        assert np.allclose(found[:, entry], wanted, atol=1e-5)


def test_networks_travel(tiny, tmp_path):
    again = pickle.loads(pickle.dumps(tiny))
    assert again.hash == tiny.hash
    tiny.save(tmp_path / "tiny.gains")
    assert gains.load(tmp_path / "tiny.gains").hash == tiny.hash
    assert gains.Network.from_bytes(tiny.to_bytes()).description == tiny.description
    assert tiny.task == "classification"
    assert tiny.outputs == ["upper", "lower"]


def test_arrays_of_others_are_taken(tiny):
    x = np.random.default_rng(2).normal(size=(3, 2))
    wanted = tiny.predict(x)
    assert np.array_equal(tiny.predict(x.tolist()), wanted)
    assert np.array_equal(tiny.predict(np.asfortranarray(x)), wanted)
    assert np.array_equal(tiny.predict(np.repeat(x, 2, axis=0)[::2]), wanted)
    fixed = x.copy()
    fixed.flags.writeable = False
    assert np.array_equal(tiny.predict(fixed), wanted)
    assert np.allclose(tiny.predict(x.astype(np.float32)), wanted, atol=1e-5)
    assert tiny.certify(x, ["upper"] * 3, eps=0.01).labels.tolist() == [0, 0, 0]
    torch = pytest.importorskip("torch")
    assert np.array_equal(tiny.predict(torch.tensor(x, requires_grad=True)), wanted)

    class Capsule:
        def __dlpack__(self, **settings):
            return x.__dlpack__(**settings)

        def __dlpack_device__(self):
            return x.__dlpack_device__()

    assert np.array_equal(tiny.predict(Capsule()), wanted)


def test_tables_name_their_features(tiny):
    pandas = pytest.importorskip("pandas")
    x = pandas.DataFrame(np.random.default_rng(2).normal(size=(3, 2)), columns=["age", "weight"])
    still = tiny.certify(x, eps=0.5, features="age", feature_eps={"age": 0.0}, timeout=PATIENT)
    assert still.verified.all()
    with pytest.raises(gains.InputError, match="no feature 'height'"):
        tiny.certify(x, eps=0.5, features="height")


def test_properties_are_dicts_files_and_words(tiny, tmp_path):
    x = np.random.default_rng(2).normal(size=(20, 2))
    x = x[tiny.predict(x).argmax(1) == 0][:3]
    asked = {"require": {"predicted": ["upper"]}}
    wanted = tiny.certify(x, [0, 0, 0], eps=0.01).verdicts.tolist()
    assert tiny.certify(x, eps=0.01, property=asked).verdicts.tolist() == wanted
    assert tiny.certify(x, eps=0.01, property=json.dumps(asked)).verdicts.tolist() == wanted
    path = tmp_path / "p.json"
    path.write_text(json.dumps(asked))
    assert tiny.certify(x, eps=0.01, property=path).verdicts.tolist() == wanted
    assert tiny.certify(x, eps=0.01, allow="upper").verdicts.tolist() == wanted
    assert tiny.certify(x, eps=0.01, target=1).verdicts.tolist() == wanted
    with pytest.raises(gains.InputError, match="two properties"):
        tiny.certify(x, top=1, target="upper")
