"""`ropewalk bench` on a job so small that it takes no time."""

import json

import torch

from ropewalk.bench.jobs import Job
from ropewalk.bench.peers import ways
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


def test_without_a_gpu_it_says_so_and_writes_nothing(ropewalk, tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    outcome = ropewalk("bench", "--device", "cuda", "--out", str(tmp_path / "speed-gpu.json"))
    assert outcome.code == 2
    assert len(outcome.err.strip().splitlines()) == 1
    assert "torch sees no CUDA device here" in outcome.err
    assert not list(tmp_path.iterdir())
    assert ropewalk("bench", "--device", "tpu").code == 2


def test_the_gpus_result(ropewalk, tmp_path, monkeypatch):
    """On the CPU in its place, with a clock that gives a second."""
    from ropewalk.bench import gpu

    monkeypatch.setattr(gpu, "check", lambda: None)
    monkeypatch.setattr(gpu, "Cold", lambda: lambda way: lambda: 1.0)
    monkeypatch.setattr(gpu, "jobs", lambda: [SMALL])
    monkeypatch.setattr(gpu, "ways", lambda job: {"ropewalk": ways(job)["ropewalk"]})
    monkeypatch.setattr("torch.cuda.get_device_name", lambda: "some GPU")
    outcome = ropewalk("bench", "--device", "cuda", "--rounds", "3", "--out", str(tmp_path / "speed-gpu.json"))
    assert (outcome.code, "some GPU" in outcome.out) == (0, True)
    result = json.loads((tmp_path / "speed-gpu.json").read_text())
    assert (result["gpu"], result["kernel"]) == ("some GPU", "triton")
    assert {"triton", "flash-attn", "liger-kernel"} <= set(result["versions"])
    assert result["jobs"][0]["ways"][0]["ratio"] == 1.0


def test_a_job_that_is_not_there_is_named(ropewalk):
    outcome = ropewalk("bench", "--only", "prefil l")
    assert outcome.code == 2
    assert "'prefil l'" in outcome.err
    assert "alibi attention" in outcome.err
