"""What is measured is what is said to be: turns in order, ratios of medians, every way held to the oracle."""

from functools import partial

import pytest
import torch

from ropewalk.bench import attention, bench
from ropewalk.bench.clock import interleaved
from ropewalk.bench.jobs import Job, jobs
from ropewalk.bench.peers import Way
from ropewalk.bench.ratios import against
from ropewalk.bench.run import entry

ERRORS = {torch.float32: 3e-6, torch.bfloat16: 0.05}


@pytest.fixture(autouse=True)
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def small(name, dtype, layout="half", axes="bhtd"):
    return Job(name, (2, 4, 2, 1 if name == "decode" else 24, 16), dtype, layout, axes, 1.1)


def test_ways_take_turns():
    order = []
    seconds = interleaved({name: lambda name=name: order.append(name) for name in "ab"}, rounds=4)
    assert [len(each) for each in seconds.values()] == [4, 4]
    runs = [name for name, before in zip(order, [None, *order], strict=False) if name != before]
    assert runs[-8:] == list("abababab")


def test_a_ratio_is_of_medians():
    result = against(
        {"fast": None, "slow": 0.5}, {"copy": [1, 2, 9], "slow": [8, 2, 6], "fast": [1, 1, 1]}, "copy", "a copy"
    )
    assert [(way["name"], way["ratio"], way["largest_error"]) for way in result["ways"]] == [
        ("fast", 0.5, None), ("slow", 3.0, 0.5)
    ]  # fmt: skip
    assert result["limit"] == {"what": "a copy", "seconds": 2}


@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.parametrize(
    ("name", "layout", "axes"),
    [("prefill", "half", "bthd"), ("train with backward", "interleaved", "bhtd"), ("decode", "interleaved", "bhtd")],
)
def test_every_way_is_held_to_the_oracle(name, layout, axes, dtype):
    (found,) = bench([partial(entry, small(name, dtype, layout, axes))], threads=1, rounds=3)
    assert {"ropewalk", "ropewalk, torch's operators"} <= {way["name"] for way in found["ways"]}
    for way in found["ways"]:
        assert 0 < way["largest_error"] < ERRORS[dtype], way["name"]
        assert way["low"] <= way["high"]
    assert found["limit"]["what"] == ("two copies" if "backward" in name else "a copy of q and k")


def test_a_wrong_way_shows():
    nothing = {"ropewalk": Way(lambda q, k: (q, k), "x")}
    (found,) = bench([partial(entry, small("prefill", torch.float32), ways=lambda job: nothing)], threads=1, rounds=3)
    assert found["ways"][0]["largest_error"] > 0.5


def test_attention_is_held_to_float64(monkeypatch):
    monkeypatch.setattr(attention, "TOKENS", 160)
    alibi = attention.ALiBi(attention.HEADS)
    made = attention.entry("alibi", attention._biased(alibi), 1.35, 3, exact=attention._exact(alibi))
    assert len(made["ways"]) == 3
    assert all(0 < way["largest_error"] < 4e-6 for way in made["ways"])


def test_the_jobs_are_the_targets():
    """Every job of the plan once, and none twice."""
    told = [(job.name, job.dtype, job.layout, job.axes) for job in jobs()]
    assert len(set(told)) == len(told) == 21
    assert {job.target for job in jobs()} == {1.0, 1.1, 1.3, 1.35, 1.5, 1.6}
