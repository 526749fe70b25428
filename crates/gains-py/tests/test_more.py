"""Series, forecasts, training, notebooks, documentation."""

import doctest
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import PATIENT, ROOT

import gains_ode as gains


def long_table(records=30):
    rows = []
    random = np.random.default_rng(0)
    for record in range(records):
        rows.append((f"r{record}", None, "depth", float(random.uniform(1, 4))))
        for time in range(40):
            for feature in ("oxygen", "algae"):
                if random.random() < 0.7:
                    rows.append(
                        (f"r{record}", float(time), feature, float(np.sin(time / 6 + record) + random.normal() * 0.1))
                    )
    return dict(zip(("record", "time", "feature", "value"), map(list, zip(*rows, strict=True)), strict=True))


@pytest.mark.parametrize("library", ["dict", "pandas", "polars", "file"])
def test_tables_become_series(library, tmp_path):
    table = long_table()
    plain = gains.series.prepare(table, tmp_path / "plain.series")
    assert plain.records == 30
    if library == "pandas":
        table = pytest.importorskip("pandas").DataFrame(table)
    elif library == "polars":
        table = pytest.importorskip("polars").DataFrame(table)
    elif library == "file":
        pandas = pytest.importorskip("pandas")
        pandas.DataFrame(table).to_csv(tmp_path / "t.csv", index=False)
        table = tmp_path / "t.csv"
    found = gains.series.prepare(table, tmp_path / "found.series")
    assert found.path.read_bytes()[-2000:] == plain.path.read_bytes()[-2000:]
    with pytest.raises(gains.InputError, match="no column"):
        gains.series.prepare({"record": [1]}, tmp_path / "bad.series")
    with pytest.raises(gains.Error):
        gains.load("pond").certify(series=found, eps=0.1)


def test_forecasts_have_certified_bands():
    pond = gains.load("pond")
    shown = pond.forecast(eps=0.01, timeout=PATIENT)
    assert ((shown.low <= shown.prediction) & (shown.prediction <= shown.high)).all()
    assert ((shown.low <= shown.attacked) & (shown.attacked <= shown.high)).all()
    assert shown.features[0] in shown._repr_html_()
    report = pond.certify(samples=range(3), eps=[0.01], nu=0.2)
    assert set(report.verdicts) <= {"verified", "falsified", "unknown"}
    assert "record" in report.columns()
    assert not np.isnan(report.certified_mae[report.verified]).any()
    pytest.importorskip("matplotlib")
    assert shown.plot().axes


def test_forecasts_are_tables():
    pytest.importorskip("pandas")
    table = gains.load("pond").forecast(eps=0.01).to_pandas()
    assert list(table.columns) == ["prediction", "low", "high", "attacked", "truth"]


SMALL = {"batch": 20, "phases[0].epochs": 1, "phases[1].epochs": 1}


def test_training_on_a_known_set(tmp_path):
    found = os.environ.get("GAINS_DATA")
    if not found or not (Path(found) / "fashion-mnist").is_dir():
        pytest.skip("there is no Fashion-MNIST: set GAINS_DATA")
    run = gains.train(preset="quick", out=tmp_path / "run", settings={**SMALL, "images": 256}, data_dir=found)
    assert run.model.predict(np.zeros((1, 1, 28, 28))).shape == (1, 10)


@pytest.mark.parametrize("kind", ["floats", "bytes", "last"])
def test_a_preset_is_trained_on_arrays(kind, images, tmp_path):
    x, y = images
    settings = {**SMALL, "network.encoder.channels": [4, 4], "network.dynamics.channels": [4, 4], "data.range": [0, 1]}
    if kind == "bytes":
        x = np.round(255 * x).astype(np.uint8)
    elif kind == "last":
        x, settings["data.layout"] = np.moveaxis(x, 1, -1), "nhwc"
    seen = []
    run = gains.train(preset="quick", data=(x, y), out=tmp_path / "run", settings=settings, threads=1, epoch=seen.append)
    assert run.is_finished
    assert len(run.metrics) == len(seen) == 2
    assert run.metrics[-1]["eps"] == 0.05
    net = run.model
    assert net.shape == (1, 28, 28)
    assert net.description["layers"][0]["type"] == "normalize"
    # All three are the same samples, so the same network comes out: values of Fashion-MNIST are bytes divided by 255.
    again = gains.train(preset="quick", data=images, out=tmp_path / "again", settings={**settings, "data.layout": "nchw"})
    assert np.array_equal(net.predict(images[0]), again.model.predict(images[0]))
    with pytest.raises(gains.InputError, match="holds a run"):
        gains.train(preset="quick", data=(x, y), out=tmp_path / "run", settings=settings)


def linear(name, inputs, outputs):
    return {"type": "linear", "name": name, "in_features": inputs, "out_features": outputs}


def flow(outputs):
    """A network for points of the plane."""
    solver = gains.Controlled(method="bosh3", tolerance=0.2, h0=0.2, minimum_step=0.1)
    ode = {"type": "ode", "dynamics": [linear("f", 2, 2), {"type": "tanh"}], "solver": solver}
    return [ode, linear("head", 2, outputs)]


def recipe(epochs=4, **more):
    eps = {"target": 0.1, "over": [0.1, 0.6]}
    phases = [{"epochs": epochs, "step_form": "difference", "eps": eps}]
    return {"method": "provable", "batch": 16, "phases": phases, **more}


def points():
    x = np.random.default_rng(0).normal(size=(80, 2))
    return x, (x[:, 0] > 0).astype(int)


def test_layers_are_trained_on_arrays(tmp_path):
    x, y = points()
    net = gains.train(config=recipe(), layers=flow(2), data=(x, y), out=tmp_path / "a").model
    assert net.outputs == ["0", "1"]
    assert (net.predict(x).argmax(1) == y).mean() > 0.6
    assert len(net.certify(x[:3], y[:3], eps=0.01)) == 3
    # Names of classes; a table; a tensor.
    names = np.array(["left", "right"])[y]
    pandas = pytest.importorskip("pandas")
    named = gains.train(
        config=recipe(), layers=flow(2), data=(pandas.DataFrame(x), pandas.Series(names)), out=tmp_path / "b"
    ).model
    assert named.outputs == ["left", "right"]
    assert np.array_equal(named.predict(x), net.predict(x))
    torch = pytest.importorskip("torch")
    data = (torch.tensor(x), torch.tensor(y))
    assert np.array_equal(
        gains.train(config=recipe(), layers=flow(2), data=data, out=tmp_path / "c").model.predict(x), net.predict(x)
    )


def test_bytes_are_asked_about_as_they_were_trained_on(tmp_path):
    """They were divided by 255 when it learned; undivided they are other inputs."""
    _, y = points()
    x = np.random.default_rng(0).integers(0, 256, size=(80, 2)).astype(np.uint8)
    net = gains.train(config=recipe(), layers=flow(2), data=(x, y), out=tmp_path / "run").model
    scaled = x.astype(np.float32) / np.float32(255)
    assert np.array_equal(net.predict(x), net.predict(scaled))
    found, wanted = (net.certify(one[:4], y[:4], eps=0.01, timeout=PATIENT) for one in (x, scaled))
    assert found.verdicts.tolist() == wanted.verdicts.tolist()
    assert np.array_equal(found.margins, wanted.margins, equal_nan=True)
    assert np.array_equal(net.bounds(x[:4], x[:4]), net.bounds(scaled[:4], scaled[:4]))
    # Whoever says how they are to be divided is believed.
    assert np.array_equal(net.predict(x, scale=1), net.predict(x.astype(float)))


def test_a_preset_gives_the_recipe_for_other_layers(tmp_path):
    run = gains.train(preset="quick", layers=flow(2), data=points(), out=tmp_path / "run", settings=SMALL)
    assert run.model.shape == (2,)
    assert run.metrics[-1]["eps"] == 0.05


def test_numbers_are_predicted_from_arrays(tmp_path):
    x, _ = points()
    config = recipe(criterion={"type": "squared"})
    net = gains.train(config=config, layers=flow(1), data=(x, x[:, :1] - x[:, 1:]), out=tmp_path / "run").model
    assert net.task == "regression"
    assert net.predict(x).shape == (80, 1)


def test_runs_have_a_folder_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x, y = points()
    first = gains.train(config=recipe(1), layers=flow(2), data=(x, y))
    other = gains.train(config=recipe(1), layers=flow(2), data=(x, 1 - y))
    assert first.folder != other.folder
    assert first.is_finished
    assert other.is_finished


def test_training_is_interrupted_and_goes_on(tmp_path):
    class Enough(Exception):
        pass

    def stop(row):
        raise Enough

    # So many epochs that it is not over before it is stopped, wherever it runs.
    where = {"config": recipe(150), "layers": flow(2), "data": points(), "threads": 1}
    with pytest.raises(Enough):
        gains.train(out=tmp_path / "a", epoch=stop, **where)
    cut = gains.Run(tmp_path / "a")
    assert not cut.is_finished
    assert 1 <= len(cut.metrics) < 150
    whole = gains.train(out=tmp_path / "b", **where)
    assert len(cut.resume(threads=1).metrics) == 150
    found = (cut.model.predict(points()[0]), whole.model.predict(points()[0]))
    assert np.array_equal(*found)


WRONG = {
    "no pair": np.zeros((4, 2)),
    "one label": (np.zeros((4, 2)), [0]),
    "nan": (np.full((4, 2), np.nan), [0, 1, 0, 1]),
    "labels of nan": (np.zeros((4, 2)), [0, 1, np.nan, 1]),
    "no axis of samples": (np.zeros(4), [0, 1, 0, 1]),
    "nothing": (np.zeros((0, 2)), []),
    "text": (np.array([["a", "b"]] * 4), [0, 1, 0, 1]),
    "halves": (np.zeros((4, 2)), [0, 0.5, 0, 1]),
    "one class": (np.zeros((4, 2)), [0, 0, 0, 0]),
    "columns": (np.zeros((40, 3)), [0, 1] * 20),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arrays_are_told(name, tmp_path):
    with pytest.raises(gains.Error) as caught:
        gains.train(config=recipe(), layers=flow(2), data=WRONG[name], out=tmp_path / "run")
    assert caught.value.message
    assert caught.value.hint
    assert not (tmp_path / "run" / "config.toml").exists()


def test_wrong_training_is_told(tmp_path):
    with pytest.raises(gains.InputError, match="one of"):
        gains.train()
    with pytest.raises(gains.InputError, match="gone on with"):
        gains.train(resume=tmp_path, data=points())
    with pytest.raises(gains.InputError, match="larger images"):
        gains.train(preset="quick", data=points(), out=tmp_path / "vectors")
    with pytest.raises(gains.Error) as caught:
        gains.train(preset="nonsense", out=tmp_path / "run")
    assert caught.value.hint


@pytest.mark.parametrize("name", ["1-bring-your-own", "2-train", "3-forecast", "4-trajectory"])
def test_notebooks_run(name, tmp_path):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    path = ROOT / "crates/gains-py/notebooks" / f"{name}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    text = "\n".join(cell.source for cell in notebook.cells)
    for package in re.findall(r"^(?:import|from) (\w+)", text, re.M):
        pytest.importorskip(package)
    where = {"metadata": {"path": str(tmp_path)}}
    for tries in (2, 1, 0):
        try:
            nbclient.NotebookClient(notebook, timeout=1200, startup_timeout=300, resources=where).execute()
            return
        except (RuntimeError, nbclient.exceptions.DeadKernelError):
            # The kernel did not come up, or lost its port to somebody else; a cell that fails is another error.
            if tries == 0:
                raise


MODULES = ["__init__", "_network", "_report", "_solvers", "_train", "errors", "series", "torch.__init__"]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name):
    """Every `>>>` of the package."""
    if name.startswith("torch"):
        pytest.importorskip("torch")
    module = importlib.import_module(f"gains_ode.{name}".removesuffix(".__init__"))
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0


def test_the_page_about_python_is_true(tmp_path):
    """Its Python blocks run, from top to bottom."""
    page = (ROOT / "docs/python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    assert len(blocks) >= 5
    for name in ("torch", "torchdiffeq", "pandas"):
        pytest.importorskip(name)
    code = "\n".join(blocks)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert found.returncode == 0, found.stderr[-3000:]
