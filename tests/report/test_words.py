"""The result in words, from JSON written by hand."""

import pytest

from ropewalk.report.words import verdict


def method(name: str, holds: int, reads: int | None, finds: int | None, cost: float = 0.0) -> dict:
    usable = holds if reads is None else min(holds, reads)
    return {
        "method": name, "holds_to": {"value": holds}, "reads_to": reads, "finds_to": finds, "usable_length": usable,
        "short_cost": cost,
    }  # fmt: skip


def report(*methods: dict, trials: int = 1, needles: int = 8) -> dict:
    crop = {"method": "crop", "holds_to": None}
    protocol = {"reading": {"trials": trials}, "retrieval": {"needles": needles}}
    return {"tolerance": 0.1, "methods": [crop, *methods], "protocol": protocol}


NONE, YARN = method("none", 4096, 4096, 4096), method("yarn", 16384, 12000, 8192, 0.0296)


def test_all_of_it():
    assert verdict(report(NONE, {**YARN, "usable_length": 16384}), "yarn") == (
        "yarn holds to 16,384 tokens; reads to 12,000; finds pass keys in texts of 8,192; it costs 3.0 % perplexity on "
        "short text. That is 4 times as far as today: unscaled, the model is usable to 4,096."
    )


def test_baselines():
    said = verdict(report(NONE), "none")
    assert said == "none holds to 4,096 tokens; reads to 4,096; finds pass keys in texts of 4,096. " + (
        "This is the model as it is."
    )
    assert "last native-length context" in verdict(report(NONE), "crop")


def test_none_chosen():
    assert verdict(report(NONE), None).startswith("No method stays within 0.1 nats a token")


@pytest.mark.parametrize(
    ("trials", "needles", "present", "missing"),
    [
        (1, 8, ["reading could not be measured", "retrieval could not be measured"], ["was not measured"]),
        (0, 0, ["how far it reads was not measured"], ["pass keys", "could not"]),
        (0, 8, ["how far it reads was not measured", "retrieval could not be measured"], []),
    ],
)
def test_what_is_not_known_is_said(trials, needles, present, missing):
    known = report(method("none", 4096, None, None), method("ntk", 6144, None, None), trials=trials, needles=needles)
    said = verdict(known, "ntk")
    assert all(words in said for words in present)
    assert not any(words in said for words in missing)
    assert "1.5 times as far as today" in said


def test_failures():
    none = method("none", 4096, 4096, 4096)
    assert "no farther than today: unscaled, the model is usable to 4,096." in verdict(
        report(none, method("linear", 4096, 4096, 0)), "linear"
    )
    lost = verdict(report(none, method("linear", 16384, 0, 0, -1e-5)), "linear")
    assert "reads to 0; finds no pass keys; it costs 0.0 % perplexity" in lost
    assert "no farther than today" in lost
    blind = report(method("none", 4096, 0, 0), method("yarn", 16384, 2048, 2048))
    assert "usable at none of the lengths measured" in verdict(blind, "yarn")
