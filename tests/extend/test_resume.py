"""A run that was stopped, at whatever moment, goes on to the report of one that was not, and repeats nothing."""

import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest
from extend_results import result
from filelock import FileLock

from ropewalk import RopewalkError
from ropewalk.extend import extend, plan
from ropewalk.extend.kept import beside
from ropewalk.extend.run import Watch

METHODS = ("yarn", "dynamic")
MOMENTS = sorted(random.Random(0).sample(range(1, 60), 10))


@pytest.fixture(scope="module", autouse=True)
def without_pictures():
    """report.html has tests of its own, and its pictures take longer than all else here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ropewalk.extend.run.write_report", lambda report, path: path.write_text("page"))
        yield


@pytest.fixture(scope="module")
def planned(tiny, prose):
    def planned(methods=METHODS, target=128, text=prose, model=tiny, **more):
        return plan(model, (text,), target, methods, **{"documents": 2, "trials": 1, "needles": 8, **more})

    return planned


@pytest.fixture
def computed(monkeypatch):
    """The passes that were computed, and not taken over."""
    from ropewalk.measure import losses

    seen, compute = [], losses._losses
    monkeypatch.setattr(losses, "_losses", lambda *given: seen.append(given[1].shape) or compute(*given))
    return seen


@pytest.fixture(scope="module")
def whole(planned, tmp_path_factory):
    """A run that nothing stopped: its result, and how many moments it had."""
    out, moments = tmp_path_factory.mktemp("whole") / "out", []
    extend(planned(), out, watch=Watch(lambda _: moments.append(None), lambda _: moments.append(None)))
    return result(out), len(moments)


def killed(make, out, moment=None, patched=None, resume=False):
    """Run in a process that ends, with no chance to clear up, at the given call of a callback or of a function."""

    def work():
        left = iter(range(moment - 1)) if moment else iter(int, 1)
        end = lambda *_: next(left, None) is None and os._exit(9)  # noqa: E731
        if patched:
            pytest.MonkeyPatch().setattr(patched, lambda *_: os._exit(9))
        extend(make, out, resume=resume, watch=Watch(end, end))

    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join()
    assert process.exitcode == 9


def finished(out):
    return len(list(beside(out).glob("*.npz")))


def test_a_finished_run_leaves_nothing_beside_its_result(planned, tmp_path):
    extend(planned(("yarn",), trials=0), tmp_path / "out")
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_the_moments_are_within_the_run(whole):
    assert max(MOMENTS) <= whole[1] <= 2 * max(MOMENTS)


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_at_any_moment(planned, whole, computed, tmp_path, moment):
    out = tmp_path / "out"
    killed(planned(), out, moment)
    kept = finished(out)
    extend(planned(), out, resume=True)
    assert result(out) == whole[0]
    assert 2 * (kept + len(computed)) == whole[1] - 2  # a pass has two moments, and two stages have one
    assert kept == (moment - 1) // 2
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_killed_again_and_again(planned, whole, computed, tmp_path):
    out = tmp_path / "out"
    killed(planned(), out, 10)
    killed(planned(), out, 25, resume=True)
    killed(planned(), out, 44, resume=True)
    kept = finished(out)
    extend(planned(), out, resume=True)
    assert result(out) == whole[0]
    assert len(computed) == (whole[1] - 2) // 2 - kept


@pytest.mark.parametrize(
    "step", ["write_checkpoint", "verify", "write_report", "Kept.ends_with", "kept._remove"], ids=lambda s: s
)
def test_killed_while_writing(planned, whole, computed, tmp_path, step):
    """Up to the last step of all, when the result has its name and only the kept passes are to be removed."""
    out, module = tmp_path / "out", "ropewalk.extend." if step.startswith("kept") else "ropewalk.extend.run."
    killed(planned(), out, patched=module + step)
    assert out.exists() == (step == "kept._remove")
    extend(planned(), out, resume=True)
    assert result(out) == whole[0]
    assert not computed
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_sigkill_of_the_command(tiny, prose, whole, tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "ropewalk", "extend", str(tiny), "--to", "128", "--text", str(prose),
               "--out", str(out), "--methods", ",".join(METHODS), "--documents", "2", "--trials", "1"]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while finished(out) < 3 and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    subprocess.run([*command, "--resume"], check=True, capture_output=True)
    assert result(out) == whole[0]


def test_ctrl_c(planned, tmp_path):
    """It clears up the checkpoint that was being written, and keeps what was measured."""
    calls = iter(range(20))

    def stop(step):
        if next(calls, None) is None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extend(planned(), tmp_path / "out", watch=Watch(progress=stop))
    assert finished(tmp_path / "out") == 10
    assert not [entry for entry in beside(tmp_path / "out").iterdir() if entry.is_dir()]


@pytest.fixture
def stopped(planned, tmp_path):
    killed(planned(), tmp_path / "out", 30)
    return tmp_path / "out"


def test_more_methods_take_over_what_is_there(planned, stopped, computed):
    kept = finished(stopped)
    report = extend(planned((*METHODS, "ntk"), tolerance=0.2), stopped, resume=True)
    together = len(computed) + kept
    assert [method["method"] for method in report["methods"]] == ["crop", "none", *METHODS, "ntk"]
    computed.clear()
    extend(planned((*METHODS, "ntk"), tolerance=0.2), stopped.with_name("whole"))
    assert together == len(computed)


def test_a_quick_run_resumes_as_well(planned, computed, tmp_path):
    out, quick = tmp_path / "out", planned(quick=True)
    killed(quick, out, 10)
    kept = finished(out)
    extend(quick, out, resume=True)
    resumed, together = result(out), kept + len(computed)
    computed.clear()
    extend(quick, tmp_path / "whole")
    assert (result(tmp_path / "whole"), len(computed)) == (resumed, together)


def test_other_arguments_are_refused_and_named(planned, stopped, prose, tiny, tmp_path):
    text = tmp_path / "other.txt"
    text.write_text(prose.read_text().replace("rope", "cord"))
    model = shutil.copytree(tiny, tmp_path / "tiny")
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "rms_norm_eps": 1e-5}))
    kept = finished(stopped)
    for other, named in (
        (planned(target=112), "target 128;"),
        (planned(text=text), "another text;"),
        (planned(model=model), "another model;"),
        (planned(documents=1, trials=2), "documents 2 and trials 1;"),
        (planned(quick=True), "quick False;"),
    ):
        with pytest.raises(RopewalkError, match=named):
            extend(other, stopped, resume=True)
    assert finished(stopped) == kept


def test_what_is_kept_is_neither_overwritten_nor_shared(planned, stopped):
    with pytest.raises(RopewalkError, match="add --resume"):
        extend(planned(), stopped)
    with FileLock(beside(stopped) / ".lock"), pytest.raises(RopewalkError, match="is at work there"):
        extend(planned(), stopped, resume=True)
    assert finished(stopped)


def test_a_damaged_pass_is_named(planned, stopped):
    path = next(beside(stopped).glob("*.npz"))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(RopewalkError, match=f"{path.name}: damaged"):
        extend(planned(), stopped, resume=True)


def test_a_folder_of_something_else_is_left_alone(planned, tmp_path):
    (beside(tmp_path / "out") / "mine").mkdir(parents=True)
    with pytest.raises(RopewalkError, match="not a folder of ropewalk's"):
        extend(planned(), tmp_path / "out", resume=True)
    assert (beside(tmp_path / "out") / "mine").is_dir()


def test_seconds_count_what_was_taken_over(planned, stopped, monkeypatch):
    from ropewalk.extend.kept import Kept

    find = Kept.find
    monkeypatch.setattr(Kept, "find", lambda self, name: (held := find(self, name)) and (held[0], 1000.0))
    kept = finished(stopped)
    assert 1000 * kept < extend(planned(), stopped, resume=True)["seconds"] < 1000 * kept + 600
