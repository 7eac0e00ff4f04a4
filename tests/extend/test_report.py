"""report.html: complete, self-contained, and safe whatever the names are."""

import html
import json
import re

import pytest
from markupsafe import escape

from ropewalk.extend import extend, plan
from ropewalk.report.html import render
from ropewalk.report.words import verdict


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


def test_the_verdict_of_every_method_can_be_said(report):
    for method in report["methods"]:
        assert method["method"] in verdict(report, method["method"])
    assert str(escape(verdict(report, report["chosen"]))) in render(report)
