"""Whatever is wrong is a `gains.Error` with a message and a hint, and never a panic."""

import numpy as np
import pytest

import gains_ode as gains

GOOD = np.zeros((2, 2))
WRONG = {
    "too many columns": np.zeros((2, 3)),
    "too many axes": np.zeros((2, 2, 2)),
    "a single number": np.float64(1.0),
    "nothing": np.zeros((0, 2)),
    "no columns": np.zeros((2, 0)),
    "nan": np.array([[0.0, np.nan]]),
    "infinite": np.array([[0.0, np.inf]]),
    "text": np.array([["a", "b"]]),
    "objects": np.array([[object(), None]]),
    "complex numbers": np.zeros((2, 2), dtype=complex),
    "dates": np.zeros((2, 2), dtype="datetime64[s]"),
    "ragged lists": [[1.0, 2.0], [3.0]],
    "a word": "hello",
    "a dict": {"x": 1},
    "integers beyond float64": np.array([[2**60 + 1, 0]]),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_inputs(tiny, name):
    for ask in (tiny.predict, tiny.certify, tiny.attack, tiny.radius):
        with pytest.raises(gains.Error) as caught:
            ask(WRONG[name])
        assert caught.value.message
        assert caught.value.hint
        assert isinstance(caught.value, ValueError)


OPTIONS = {
    "eps below zero": {"eps": -0.1},
    "eps not a number": {"eps": float("nan")},
    "eps as a matrix": {"eps": [[0.1]]},
    "eps twice": {"eps": [0.1, 0.1]},
    "no eps": {"eps": []},
    "eps as text": {"eps": "large"},
    "method": {"method": "magic"},
    "method of another type": {"method": 3},
    "timeout of zero": {"timeout": 0.0},
    "endless timeout": {"timeout": float("inf")},
    "no threads": {"threads": 0},
    "threads below zero": {"threads": -1},
    "too many threads": {"threads": 10_000},
    "norm": {"norm": 3},
    "range inside out": {"range": (1.0, 0.0)},
    "range of nan": {"range": (float("nan"), 1.0)},
    "range of one": {"range": 1.0},
    "unknown feature": {"features": "age"},
    "radius of a feature below zero": {"feature_eps": {"0": -1.0}},
    "unknown option": {"epsilon": 3},
    "unknown class": {"target": "dog"},
    "property that is none": {"property": {"require": {"nonsense": 1}}},
    "property that is no JSON": {"property": "{"},
    "nu for a classifier": {"nu": 0.1},
    "sample that is not there": {"samples": [7]},
    "layout": {"layout": "sideways"},
    "scale of zero": {"scale": 0.0},
    "series for a classifier": {"series": "x"},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_wrong_options(tiny, name):
    with pytest.raises(gains.Error) as caught:
        tiny.certify(GOOD, **OPTIONS[name])
    assert caught.value.message
    assert caught.value.hint


LABELS = {
    "too few": [0],
    "beyond the classes": [0, 2],
    "below zero": [-1, 0],
    "not whole": [0.5, 0],
    "nan": [float("nan"), 0],
    "names of none": ["cat", "dog"],
    "a matrix": [[0, 1]],
}


@pytest.mark.parametrize("name", LABELS)
def test_wrong_labels(tiny, name):
    with pytest.raises(gains.InputError) as caught:
        tiny.certify(GOOD, LABELS[name])
    assert caught.value.hint


def test_huge_batches(tiny):
    huge = np.broadcast_to(np.zeros(1), (1 << 28, 2))
    with pytest.raises(gains.InputError, match="more than"):
        tiny.predict(huge)
    many = np.zeros((200_000, 2))
    assert tiny.predict(many).shape == (200_000, 2)


def test_boxes_inside_out(tiny):
    with pytest.raises(gains.InputError, match="box"):
        tiny.bounds(GOOD + 1, GOOD)
    with pytest.raises(gains.InputError, match="axes"):
        tiny.bounds(GOOD, np.zeros((3, 2)))
    with pytest.raises(gains.InputError):
        tiny.bounds(GOOD)


def test_files_that_are_no_models(tmp_path):
    with pytest.raises(gains.Error, match="cannot read"):
        gains.load(tmp_path / "none.gains")
    bad = tmp_path / "bad.gains"
    for content in (b"", b"\x80\x02", b"{}", bytes(100), gains.load().to_bytes()[:5000]):
        bad.write_bytes(content)
        with pytest.raises(gains.Error) as caught:
            gains.load(bad)
        assert caught.value.hint
        with pytest.raises(gains.ModelError):
            gains.Network.from_bytes(content)


def test_damaged_models_never_panic():
    whole = gains.load("pond").to_bytes()
    random = np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(random.integers(1, 6)):
            damaged[random.integers(0, min(len(damaged), 6000))] = random.integers(0, 256)
        try:
            gains.Network.from_bytes(bytes(damaged))
        except gains.InternalError as error:
            raise AssertionError("it panicked") from error
        except gains.ModelError as error:
            assert error.message


def test_errors_of_callbacks_come_through(tiny):
    def fail(done, wanted):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        tiny.certify(GOOD, eps=0.1, progress=fail)


def test_forecasting_networks_take_no_arrays():
    pond = gains.load("pond")
    with pytest.raises(gains.InputError, match="forecasts series"):
        pond.predict(GOOD)
    with pytest.raises(gains.InputError, match="forecasts no series"):
        gains.load("mnist").forecast()


def test_messages_print_with_their_hint(tiny):
    with pytest.raises(gains.Error) as caught:
        tiny.certify(GOOD, method="magic")
    assert "hint: there are auto, box" in str(caught.value)


def test_what_is_not_installed_is_told(monkeypatch):
    import builtins

    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "pandas":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    report = gains.load("pond").certify(samples=[0], eps=0.01)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(gains.MissingError, match="pandas is not installed"):
        report.to_pandas()
