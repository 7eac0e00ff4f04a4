"""The landed comparison: its page is made from it, and the order is the literature's where that agrees with itself."""

import itertools
import json
from pathlib import Path

import pytest

from ropewalk.compare.contestants import CONTESTANTS
from ropewalk.compare.literature import LITERATURE
from ropewalk.compare.protocol import Protocol
from ropewalk.report.comparison_table import markdown

ROOT = Path(__file__).parents[2]
RESULT = json.loads((ROOT / "benchmarks/results/comparison-plays.json").read_text())
BY_NAME = {one["name"]: one for one in RESULT["encodings"]}
LATER = {"kerple", "sandwich", "fire", "transformer-xl", "cope", "xpos"}  # encodings that came after the run
PEERS = {"rope": "benchmarks.x_transformers_peers:Rotary", "alibi": "benchmarks.x_transformers_peers:ALiBi"}


def rise(name: str, times: float) -> float:
    """Bits a byte above crop's in the last quarter, the mean over seeds."""
    entry = next(one for one in BY_NAME[name]["bits"] if one["times"] == times)
    return entry["last_quarter"]["value"] - entry["crop"]["value"]


def test_the_page_is_made_from_the_result():
    assert (ROOT / "docs/comparison.md").read_text() == markdown(RESULT, LITERATURE)


def test_it_holds_every_encoding_three_times_under_todays_protocol():
    assert set(BY_NAME) == {*CONTESTANTS, *PEERS.values()} - LATER
    assert set(LITERATURE) == set(CONTESTANTS)
    assert RESULT["protocol"] == {**Protocol().to_dict(), "seeds": [0, 1, 2]}
    assert RESULT["seconds"] < 2 * 90 * 60  # of computing, on two cores
    assert all(one["passed"] for one in RESULT["encodings"])


def test_the_order_of_the_literature():
    assert min(rise("sinusoidal", 1.5), rise("learned", 1.5)) > 1 > 0.2 > rise("rope", 1.5)  # absolute ones break first
    assert rise("rope", 4) > 1
    assert max(abs(rise("alibi", times)) for times in (1.5, 2, 4, 8, 16)) < 0.1
    holds = {name: one["holds_to"]["value"] for name, one in BY_NAME.items()}
    assert holds["sinusoidal"] == holds["learned"] == 64 < holds["rope"] < holds["t5"] < holds["alibi"] == 1024


@pytest.mark.parametrize("name", PEERS)
def test_other_peoples_code_lands_within_seed_noise_of_ours(name):
    for ours, theirs in zip(BY_NAME[name]["bits"], BY_NAME[PEERS[name]]["bits"], strict=True):
        a, b = ours["last_quarter"], theirs["last_quarter"]
        assert max(a["low"], b["low"]) <= min(a["high"], b["high"]), ours["times"]


def test_its_curves_end_where_its_lengths_do():
    for one in RESULT["encodings"]:
        ends = one["curve"]["ends"]
        assert ends[-1] == 1024
        assert all(early < late for early, late in itertools.pairwise(ends))


def test_the_figures_of_the_guide_are_the_results():
    text = (ROOT / "docs/comparing.md").read_text()
    risen = [f"{rise(name, 1.5):.2f}" for name in ("sinusoidal", "learned", "rope")]
    assert "sinusoidal is {} and learned {} above crop, RoPE {}".format(*risen) in text

    def bits(name: str, times: float) -> str:
        entry = next(one["last_quarter"] for one in BY_NAME[name]["bits"] if one["times"] == times)
        return f"{entry['value']:.2f}"

    assert f"{bits('alibi', 1)} to {bits('alibi', 16)} at 16 times" in text
    assert f"{bits('t5', 1)}, {bits('t5', 2)} at 2 times, {bits('t5', 16)} at 16 times" in text
    nearest = max(RESULT["encodings"], key=lambda one: one["copy"][0]["accuracy"]["value"])
    accuracy = nearest["copy"][0]["accuracy"]
    half = (accuracy["high"] - accuracy["low"]) / 2
    assert (nearest["name"], nearest["copy"][0]["distance"]) == ("t5", 7)
    assert f"T5 comes nearest, {accuracy['value']:.2f} ± {half:.2f} at 7 bytes" in text
    assert f"{bits('none', 1)} to {bits('none', 2)}" in text
    assert f"({RESULT['text']['bigram_bits']:.2f} on average)" in text
