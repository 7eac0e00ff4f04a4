"""An extension's own report, from measurement to page: what the files say is what report.json says."""

import json

import pytest

from ropewalk.extend import extend, plan
from ropewalk.report.html import verdict


@pytest.fixture(scope="module")
def out(tiny, prose, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "out"
    extend(plan(tiny, (prose,), 128, ("yarn", "mrrope"), documents=2, trials=1), folder)
    return folder


@pytest.fixture(scope="module")
def report(out):
    return json.loads((out / "report.json").read_text())


@pytest.mark.parametrize("name", ["report.html", "report.md"])
def test_it_says_what_the_json_says(out, report, name):
    page = (out / name).read_text()
    for method in report["methods"]:
        assert method["method"] in page
        assert f"{method['short_cost']:+.3f}" in page
    assert report["versions"]["torch"] in page


def test_every_bucket_has_a_band(report):
    for method in report["methods"]:
        for bucket in method["buckets"]:
            assert bucket["low"] <= bucket["excess"] <= bucket["high"]
    crop = next(method for method in report["methods"] if method["method"] == "crop")
    assert {bucket["low"] for bucket in crop["buckets"]} == {0}


def test_the_verdict_in_words(report):
    chosen = dict(next(m for m in report["methods"] if m["method"] == "yarn"))
    chosen |= {"holds_to": {"value": 96}, "reads_to": 80, "short_cost": 0.0296}
    said = verdict(report, chosen)
    assert "yarn holds to 96 tokens" in said
    assert "reads to 80" in said
    assert "3.0 % perplexity" in said
    assert "not copy within its native length" in verdict(report, {**chosen, "reads_to": None})
    unread = {**report, "protocol": {**report["protocol"], "reading": {"trials": 0}}}
    assert "how far it reads was not measured" in verdict(unread, {**chosen, "reads_to": None})
    assert "No method stays within 0.1 nats" in verdict(report, None)
