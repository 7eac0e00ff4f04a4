"""Bad input: exit code 2, a message that quotes the offending word, and nothing written."""

import json
import shutil

import pytest


@pytest.fixture
def model(tiny, tmp_path):
    return shutil.copytree(tiny, tmp_path / "model")


def change(model, **keys):
    file = model / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **keys}))


@pytest.fixture
def extend(ropewalk, model, prose, tmp_path):
    def run(*more, model=model, to=128, text=prose, out=tmp_path / "out"):
        return ropewalk("extend", model, "--to", to, "--text", text, "--out", out, *more)

    return run


@pytest.fixture
def refused(tmp_path, model):
    """Asserts that a run was refused with this message and left the folder as it was."""
    before = sorted(tmp_path.iterdir())

    def check(outcome, message):
        assert outcome.code == 2, outcome.err
        assert message in " ".join(outcome.err.replace("│", " ").split())
        assert "Traceback" not in outcome.err
        assert sorted(tmp_path.iterdir()) == before

    return check


def test_a_model_with_no_rotary_encoding(extend, refused, model):
    change(model, model_type="gpt2")
    refused(extend(), "'gpt2' uses a learned table and has no rotary encoding")


def test_a_target_that_is_not_longer(extend, refused):
    refused(extend(to=64), "reads 64 tokens natively; 64 is not longer")
    refused(extend(to="far"), "Invalid value for '--to'")


def test_documents_shorter_than_the_target(extend, refused):
    refused(extend(to=100_000), "shorter than the 100000 tokens to be measured")


def test_an_output_folder_that_exists(extend, refused, model):
    refused(extend(out=model), "exists already")
    refused(extend(out=model / "deeper/out"), "no such folder")


def test_truncated_weights(extend, refused, model):
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    refused(extend(), "damaged or cut short")


def test_a_misspelt_scaling_key(extend, refused, model):
    change(model, rope_scaling={"rope_type": "linear", "facotr": 2.0})
    refused(extend(), "'facotr'")


def test_an_unknown_method(extend, refused):
    refused(extend("--methods", "linear,yarm"), "unknown method 'yarm'; did you mean 'yarn'?")
    refused(extend("--methods", ","), "no method")
    refused(extend("--methods", "dynamic"), "'dynamic' cannot be written")


def test_a_model_that_carries_a_scaling_already(extend, refused, model):
    change(model, rope_scaling={"rope_type": "linear", "factor": 2.0})
    refused(extend(), "extended already")


def test_texts(extend, ropewalk, refused, model, tmp_path):
    refused(extend(text=model / "nowhere.txt"), "no such text file")
    refused(ropewalk("extend", model, "--to", 128, "--out", tmp_path / "out"), "no text to measure on")


@pytest.mark.parametrize(("option", "value"), [("--documents", 0), ("--trials", -1), ("--tolerance", 0)])
def test_numbers_out_of_range(extend, refused, option, value):
    refused(extend(option, value), option.removeprefix("--"))


def test_no_such_model(extend, refused, model):
    refused(extend(model=model / "nowhere"), "no such file")


def test_usage(ropewalk, refused):
    refused(ropewalk("extend"), "--to")
    refused(ropewalk("walk"), "walk")


def test_pictures(ropewalk, refused, tmp_path, model, prose):
    refused(ropewalk("plot", "grid", "--out", tmp_path / "grid.bmp"), ".png or .svg")
    refused(ropewalk("plot", "grid", "--dim", 0, "--out", tmp_path / "grid.png"), "dim=0 is not a whole number")
    refused(ropewalk("plot", "curves", prose, "--out", tmp_path / "curves.png"), "not a report.json")
    refused(ropewalk("plot", "spectrum", model, "--methods", "yarm", "--out", tmp_path / "s.png"), "'yarm'")


def test_a_fault_of_our_own_is_said_without_a_traceback(ropewalk, monkeypatch, tiny):
    def broken(*_, **__):
        raise RuntimeError("the wheel came off")

    monkeypatch.setattr("ropewalk.cli.inspect.examined", broken)
    outcome = ropewalk("inspect", tiny)
    assert outcome.code == 3
    assert "the wheel came off" in outcome.err
    assert "Traceback" not in outcome.err


def test_a_full_disk_and_a_stop(extend, monkeypatch, tmp_path):
    """What was measured stays, so that it can be gone on with; nothing else does."""
    for more, error, code in (((), OSError(28, "No space left"), 3), (("--resume",), KeyboardInterrupt(), 130)):

        def fail(*_, error=error):
            raise error

        monkeypatch.setattr("ropewalk.extend.run.write_checkpoint", fail)
        outcome = extend(*more)
        assert outcome.code == code
        assert not (tmp_path / "out").exists()
        (left,) = tmp_path.glob(".out*")
        assert not [entry for entry in left.iterdir() if entry.is_dir()]
    assert "the same command with --resume goes on" in outcome.err
    assert "add --resume to go on with it, or remove it" in extend().err


def test_a_stop_before_anything_was_measured_leaves_nothing(extend, monkeypatch, tmp_path):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("ropewalk.extend.run.prepare", stop)
    outcome = extend()
    assert outcome.code == 130
    assert "--resume" not in outcome.err
    assert not list(tmp_path.glob(".out*"))


def test_ctrl_c_is_said(ropewalk, monkeypatch):
    """typer catches it and gives back its code."""
    monkeypatch.setattr("ropewalk.cli.app.app", lambda arguments, standalone_mode: 130)
    outcome = ropewalk("verify")
    assert (outcome.code, outcome.err) == (130, "ropewalk: stopped\n")
