"""An extension's own report, from measurement to page: what the files say is what report.json says."""

import html
import json

import pytest
from markupsafe import escape

from ropewalk.extend import extend, plan
from ropewalk.report.html import render
from ropewalk.report.words import verdict


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


def test_every_engine_has_its_recipe_or_a_reason(report):
    page = html.unescape(render(report))
    assert {recipe["status"] for recipe in report["recipes"]} == {"run here", "documented", "refused"}
    for recipe in report["recipes"]:
        assert recipe["engine"] in page
        assert (recipe["text"] or recipe["reason"]).strip() in page
        assert recipe["source"] in page
    assert "&lt;script" in render({**report, "recipes": [{**report["recipes"][0], "text": "<script>"}]})


def test_every_bucket_has_a_band(report):
    for method in report["methods"]:
        for bucket in method["buckets"]:
            assert bucket["low"] <= bucket["excess"] <= bucket["high"]
    crop = next(method for method in report["methods"] if method["method"] == "crop")
    assert {bucket["low"] for bucket in crop["buckets"]} == {0}


def test_the_verdict_of_every_method_can_be_said(report):
    for method in report["methods"]:
        assert method["method"] in verdict(report, method["method"])
    assert str(escape(verdict(report, report["chosen"]))) in render(report)
