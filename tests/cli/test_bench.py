"""`ropewalk bench` on a job so small that it takes no time."""

import json

import torch

from ropewalk.bench.jobs import Job
from ropewalk.bench.table import markdown

SMALL = Job("tiny decode", (2, 4, 2, 1, 16), torch.float32, "interleaved", "bhtd", 1.1)


def test_the_command_writes_what_it_shows(ropewalk, tmp_path, monkeypatch):
    monkeypatch.setattr("ropewalk.bench.jobs.jobs", lambda: [SMALL])
    outcome = ropewalk("bench", "--rounds", "3", "--only", "tiny", "--out", str(tmp_path / "speed.json"), "--json")
    assert outcome.code == 0
    result = json.loads(outcome.out)
    assert result == json.loads((tmp_path / "speed.json").read_text())
    assert result["threads"] == 1
    row = markdown(result).splitlines()[2]
    assert row.startswith("| tiny decode | float32, interleaved, bhtd | a copy of q and k |")
    assert [file.name for file in tmp_path.iterdir()] == ["speed.json"]


def test_a_job_that_is_not_there_is_named(ropewalk):
    outcome = ropewalk("bench", "--only", "prefil l")
    assert outcome.code == 2
    assert "'prefil l'" in outcome.err
    assert "alibi attention" in outcome.err
