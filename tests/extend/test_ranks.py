"""Ranks that torchrun starts: the report of one process, whichever rank computed what and whatever stopped them."""

import os
import subprocess
import sys

import pytest
from extend_results import result

from ropewalk.extend import extend, plan
from ropewalk.extend.kept import beside
from ropewalk.measure import losses

AT_ONCE = 128  # tokens in a pass: a document, so that there are rounds to share
# Each rank notes how many passes it has computed, and does at a given one what it is told to.
WORKER = f"""
import os, pathlib, signal
from ropewalk._errors import RopewalkError
from ropewalk.cli.main import main
from ropewalk.extend import run
from ropewalk.measure import losses

rank, compute, seen = os.environ["RANK"], losses._losses, []
ends = (os.environ.get("ENDS") == rank, os.environ.get("BREAKS") == rank)

def counted(*given):
    if any(ends) and len(seen) == 5:
        if ends[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        raise RopewalkError("this rank is broken")
    seen.append(given)
    pathlib.Path(os.environ["NOTES"], rank).write_text(str(len(seen)))
    return compute(*given)

losses.TOKENS_AT_ONCE, losses._losses = {AT_ONCE}, counted
run.write_report = lambda report, path: path.write_text("page")
main()
"""


@pytest.fixture
def ranks(tiny, prose, tmp_path):
    """Runs the same command on two ranks, and returns its exit status and what it printed."""
    worker, launch = tmp_path / "worker.py", ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    worker.write_text(WORKER)
    command = [sys.executable, *launch, str(worker), "extend", str(tiny), "--to", "128", "--text", str(prose),
               "--out", str(tmp_path / "out"), "--methods", "yarn", "--documents", "3", "--trials", "3",
               "--needles", "0"]  # fmt: skip

    def ranks(*more, **given):
        environment = {**os.environ, "NOTES": str(tmp_path), "OMP_NUM_THREADS": "1", **given}
        return subprocess.run([*command, *more], env=environment, capture_output=True, text=True, check=False)

    return ranks


def test_ranks_share_the_passes_are_killed_resume_and_report_what_one_process_does(
    ranks, tiny, prose, tmp_path, monkeypatch
):
    seen, compute = [], losses._losses
    monkeypatch.setattr(losses, "TOKENS_AT_ONCE", AT_ONCE)
    monkeypatch.setattr(losses, "_losses", lambda *given: seen.append(given) or compute(*given))
    monkeypatch.setattr("ropewalk.extend.run.write_report", lambda report, path: path.write_text("page"))
    extend(plan(tiny, (prose,), 128, ("yarn",), documents=3, trials=3), tmp_path / "alone")

    assert ranks(ENDS="0").returncode != 0
    kept = len(list(beside(tmp_path / "out").glob("*.npz")))
    assert kept == 10  # five rounds of two
    assert not (tmp_path / "out").exists()

    run = ranks("--resume")
    assert run.returncode == 0, run.stderr
    assert result(tmp_path / "out") == result(tmp_path / "alone")
    shares = [int((tmp_path / rank).read_text()) for rank in "01"]
    assert sum(shares) == len(seen) - kept
    assert min(shares) >= len(seen) / 4  # three documents are two rounds, and the second has one
    assert run.stdout.count("report.html") == 1  # by the first rank alone
    assert not beside(tmp_path / "out").exists()


def test_a_rank_that_fails_says_so_and_ends_the_run(ranks, tmp_path):
    run = ranks(BREAKS="1")
    assert run.returncode != 0
    assert "ropewalk, rank 1: this rank is broken" in run.stderr
    assert "a fault of ropewalk's own" not in run.stderr
    assert not (tmp_path / "out").exists()
