"""report.html: complete, self-contained, and safe whatever the names are."""

import html
import json
import re

import pytest

from ropewalk.extend import extend, plan
from ropewalk.report.html import render, verdict


@pytest.fixture(scope="module")
def report(tiny, prose, tmp_path_factory):
    out = tmp_path_factory.mktemp("report") / "out"
    return extend(plan(tiny, (prose,), 128, ("yarn", "mrrope"), documents=2, trials=1), out)


def test_it_says_what_the_json_says(report):
    page = render(report)
    for method in report["methods"]:
        assert f"<td>{method['method']}" in page
        assert f"{method['short_cost']:+.3f}" in page
    assert "reloaded in transformers" in page
    assert report["versions"]["torch"] in page


def test_every_engine_has_its_recipe_or_a_reason(report):
    page = html.unescape(render(report))
    assert {recipe["status"] for recipe in report["recipes"]} == {"run here", "documented", "refused"}
    for recipe in report["recipes"]:
        assert f"<b>{recipe['engine']}</b>: {recipe['status']}" in page
        assert (recipe["text"] or recipe["reason"]).strip() in page
        assert recipe["source"] in page
    assert "&lt;script" in render({**report, "recipes": [{**report["recipes"][0], "text": "<script>"}]})


def test_it_fetches_nothing(report):
    page = render(report)
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!#)|@import|url\((?!#)""", page)
    assert page.count("<svg") == 2


def test_names_are_escaped(report):
    hostile = json.loads(json.dumps(report))
    hostile["model"] = "<script>alert(1)</script>"
    assert "<script" not in render(hostile)


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
