"""A comparison from the command line: what it leaves, that it resumes, and what it refuses."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from filelock import FileLock

from ropewalk.compare.result import comparison, interval

SMALL = ("--encodings", "none,rope", "--seeds", "2", "--steps", "2", "--length", "16", "--jobs", "2")
MEASURED = ("bits", "curve", "holds_to", "copy", "passed", "parameters_added")


def command(out, *more):
    return [sys.executable, "-m", "ropewalk", "compare", *SMALL, "--out", str(out), *more]


def refused(arguments):
    """What a command that must end with 2 says."""
    outcome = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert outcome.returncode == 2, outcome.stderr
    return outcome.stderr


def numbers(out):
    """What does not depend on the clock."""
    result = json.loads((out / "comparison.json").read_text())
    return {
        **{key: result[key] for key in ("protocol", "text", "scalings", "claims")},
        "encodings": [{key: one[key] for key in ("name", *MEASURED)} for one in result["encodings"]],
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("compare") / "whole"
    subprocess.run(command(out), check=True, capture_output=True)
    return out


def test_it_leaves_every_form_of_the_result(whole):
    assert {file.name for file in whole.iterdir()} == {
        "comparison.json", "comparison.csv", "comparison.md", "comparison.html", "comparison.svg",
        "comparison-scalings.svg", "protocol.json", "runs",
    }  # fmt: skip
    result = json.loads((whole / "comparison.json").read_text())
    assert [one["name"] for one in result["encodings"]] == ["none", "rope"]
    assert [one["seeds"] for one in result["encodings"]] == [[0, 1]] * 2
    assert [entry["factor"] for entry in result["scalings"]] == [2, 4, 8, 32]
    assert not any(one["passed"] for one in result["encodings"])  # two steps teach nothing
    assert len(list((whole / "runs").glob("*.json"))) == len(list((whole / "runs").glob("*.safetensors"))) == 4


def test_a_killed_run_resumes_to_the_same_numbers(whole, tmp_path):
    out = tmp_path / "killed"
    process = subprocess.Popen(command(out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0)
    while not list(out.glob("runs/*.json")) and process.poll() is None:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    kept = {file: file.stat().st_mtime_ns for file in out.glob("runs/*.json")}
    assert kept
    assert len(kept) < 4
    assert "--resume" in refused(command(out))
    subprocess.run(command(out, "--resume"), check=True, capture_output=True)
    assert numbers(out) == numbers(whole)
    assert {file: file.stat().st_mtime_ns for file in kept} == kept


def test_runs_of_another_protocol_are_not_mixed(whole):
    assert "another protocol (steps)" in refused(command(whole, "--resume", "--steps", "3"))


def test_two_at_once_in_one_folder_are_refused(whole):
    with FileLock(whole / "runs/.lock"):
        assert "another comparison is at work" in refused(command(whole, "--resume"))


def test_an_encoding_of_ones_own_that_has_changed_is_not_mixed(tmp_path):
    module = tmp_path / "mine.py"
    module.write_text("from ropewalk import NoPE\nclass Mine(NoPE):\n    pass\n")
    arguments = [sys.executable, "-m", "ropewalk", "compare", "--encodings", "none", "--encoding", "mine:Mine",
                 "--seeds", "1", "--steps", "1", "--length", "16", "--out", "out"]  # fmt: skip
    subprocess.run(arguments, check=True, capture_output=True, cwd=tmp_path)
    subprocess.run([*arguments, "--resume"], check=True, capture_output=True, cwd=tmp_path)
    module.write_text(module.read_text() + "    changed = True\n")
    outcome = subprocess.run([*arguments, "--resume"], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert outcome.returncode == 2
    assert "mine:Mine, whose file has changed" in outcome.stderr


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "mine").write_text("x")
    outcome = refused(command(tmp_path))
    assert "not empty" in outcome
    assert [file.name for file in tmp_path.iterdir()] == ["mine"]
    assert "not empty" in refused(command(tmp_path / "mine"))


def test_an_unknown_encoding_is_named_before_anything_is_written(tmp_path):
    assert "'ropes'" in refused(command(tmp_path / "new", "--encodings", "ropes"))
    assert not (tmp_path / "new").exists()


def test_intervals_are_students():
    """1, 2, 3: mean 2, standard error 1 / sqrt(3), t of two degrees of freedom 4.303."""
    found = interval([1.0, 2.0, 3.0])
    assert found["value"] == 2
    assert found["high"] == pytest.approx(2 + 4.303 / 3**0.5)
    assert found["low"] == pytest.approx(2 - 4.303 / 3**0.5)
    assert interval([5.0]) == {"value": 5.0, "low": None, "high": None}


def test_the_gate_is_every_seeds(whole):
    """One seed that knows no more than bigrams, and the curve does not count."""
    from ropewalk.compare.protocol import Protocol

    runs = [json.loads(file.read_text()) for file in sorted((whole / "runs").glob("rope-*.json"))]
    learnt = max(run["bits"][0]["mean"] for run in runs)
    least = min(run["bits"][0]["mean"] for run in runs)
    for bigram, passed in ((learnt + 0.01, True), ((learnt + least) / 2, False)):
        result = comparison(Protocol(length=16, steps=2), {"bigram_bits": bigram}, runs, {"rope": [1.0]}, {})
        assert result["encodings"][0]["passed"] is passed
