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
from conftest import ROOT

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
    shown = pond.forecast(eps=0.01)
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


def data_dir():
    found = os.environ.get("GAINS_DATA")
    if not found or not (Path(found) / "mnist").is_dir():
        pytest.skip("there is no MNIST: set GAINS_DATA")
    return found


SMALL = {"images": 256, "batch": 64, "phases[0].epochs": 1, "phases[1].epochs": 1}


def test_training_gives_a_run(tmp_path):
    seen = []
    run = gains.train(preset="quick", out=tmp_path / "run", settings=SMALL, data_dir=data_dir(), epoch=seen.append)
    assert run.is_finished
    assert len(run.metrics) == len(seen) == 2
    assert run.model.predict(np.zeros((1, 1, 28, 28))).shape == (1, 10)
    with pytest.raises(gains.Error):
        gains.train(preset="quick", out=tmp_path / "run", settings=SMALL, data_dir=data_dir())


def test_training_is_interrupted_and_goes_on(tmp_path):
    class Enough(Exception):
        pass

    def stop(row):
        raise Enough

    where = {"settings": {**SMALL, "phases[1].epochs": 3}, "data_dir": data_dir(), "threads": 1}
    with pytest.raises(Enough):
        gains.train(preset="quick", out=tmp_path / "a", epoch=stop, **where)
    cut = gains.train(resume=tmp_path / "a", data_dir=data_dir(), threads=1)
    whole = gains.train(preset="quick", out=tmp_path / "b", **where)
    assert cut.model.hash == whole.model.hash


def test_wrong_training_is_told(tmp_path):
    with pytest.raises(gains.InputError, match="one of"):
        gains.train()
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
    if "gains.train(" in text:
        data_dir()
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()


MODULES = ["__init__", "_network", "_report", "_solvers", "errors", "series", "torch.__init__"]


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
