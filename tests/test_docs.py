"""Every example in docs/ runs, and prints what stands below it."""

import contextlib
import io
import json
import re
import runpy
from pathlib import Path

import pytest

from ropewalk.checkpoints.presets import PRESETS
from ropewalk.checkpoints.rules import known_types
from ropewalk.report.extension_markdown import markdown
from ropewalk.report.words import verdict

FINDING = re.compile(r'(?:Finding|ConfigError)\(\s*"([a-z0-9-]+)"')
DOCS = Path(__file__).parents[1] / "docs"
EXAMPLE = re.compile(r"```python\n(.*?)```\s*```text\n(.*?)```", re.DOTALL)


def examples() -> list:
    found = [
        (page, code, printed)
        for page in sorted(DOCS.glob("*.md"))
        for code, printed in EXAMPLE.findall(page.read_text())
    ]
    return [pytest.param(code, printed, id=f"{page.name}:{n}") for n, (page, code, printed) in enumerate(found)]


@pytest.mark.parametrize(("code", "printed"), examples())
def test_an_example_prints_what_it_shows(code, printed):
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(compile(code, "docs", "exec"), {})
    assert shown.getvalue() == printed


def test_its_memory_table_is_the_result_file():
    page = (DOCS / "encodings.md").read_text()
    rows = json.loads((DOCS.parent / "benchmarks/results/attention-memory.json").read_text())["rows"]
    for row in rows:
        assert f"| {row['encoding']} | {row['tokens']:,} | {row['backend']} | {row['peak_mb']:,} |" in page
        assert row["peak_mb"] < 3000


def test_every_finding_is_described():
    page = (DOCS / "checkpoints.md").read_text()
    sources = (DOCS.parent / "src/ropewalk/checkpoints").rglob("*.py")
    codes = {code for file in sources for code in FINDING.findall(file.read_text())}
    assert len(codes) > 30
    assert {code for code in codes if f"`{code}`" not in page} == set()


def test_the_number_of_model_types_is_the_tables():
    for page in (DOCS / "checkpoints.md", DOCS.parent / "README.md"):
        assert f"{len(known_types())} model types" in page.read_text()
    assert f"{len(PRESETS)} public models" in (DOCS.parent / "README.md").read_text()


def test_no_example_stands_without_its_output():
    for page in DOCS.glob("*.md"):
        assert page.read_text().count("```python") == len(EXAMPLE.findall(page.read_text()))


def test_its_speed_tables_are_the_result_files():
    from ropewalk.bench.table import markdown

    made = re.compile(r"<!-- (short, )?made from (\S+) -->\n\n((?:\|.*\n)+)")
    found = [each for page in ("README.md", "docs/speed.md") for each in made.findall((DOCS.parent / page).read_text())]
    assert len(found) == 3
    for short, path, table in found:
        result = json.loads((DOCS.parent / path).read_text())
        assert len(result["jobs"]) > 21
        assert table == markdown(result, short=bool(short)) + "\n"


def test_its_agreement_of_ranks_is_the_result_files():
    """Each table stands below links to the two reports from which the recipe makes it."""
    recipe = runpy.run_path(str(DOCS.parent / "recipes/rank_agreement.py"))
    page = (DOCS / "measuring.md").read_text()
    links = re.findall(r"\[full\]\(\.\./([^)\s]+)\),\s\[quick\]\(\.\./([^)\s]+)\)", page)
    assert links
    for paths in links:
        assert recipe["table"](*(json.loads((DOCS.parent / path).read_text()) for path in paths)) in page


def test_full_passes_over_the_tokens_that_the_probe_reads():
    """The losses of the last 4096 in the text, the best first, and the order of the probe."""
    full, quick = (
        json.loads((DOCS.parent / f"benchmarks/results/{name}-smollm2-135m-16384.json").read_text())
        for name in ("extend", "quick")
    )
    ranked = sorted((row for row in quick["probe"]["methods"] if row["method"] != "none"), key=lambda row: row["rank"])
    losses = {}
    for method in full["methods"]:
        end = [bucket for bucket in method["buckets"] if bucket["start"] >= 16_384 - quick["protocol"]["end"]]
        losses[method["method"]] = sum(b["nll"] * b["tokens"] for b in end) / sum(b["tokens"] for b in end)
    said = [f"{row['method']} {losses[row['method']]:.3f}" for row in ranked]
    assert [losses[row["method"]] for row in ranked] == sorted(losses[row["method"]] for row in ranked)
    page = " ".join((DOCS / "measuring.md").read_text().split())
    assert f"({', '.join(said)})" in page
    minutes, seconds = divmod(round(quick["seconds"]), 60)
    assert f"It took {minutes} minutes {seconds} seconds" in page


def test_its_figures_of_smollm2_are_the_result_file():
    page = (DOCS / "measuring.md").read_text()
    result = json.loads((DOCS.parent / "benchmarks/results/extend-smollm2-135m-16384.json").read_text())
    assert f"{result['seconds'] / 60:.0f} minutes of" in page
    assert (DOCS / "smollm2-16384.md").read_text() == markdown(result, verdict(result, result["chosen"]))
    for m in (m for m in result["methods"] if m["holds_to"]):
        gains = [f"{reading['gain']:.2f}" for reading in m["reading"]]
        cells = [
            m["method"],
            f"{m['holds_to']['value']:,}",
            *gains,
            *["–"] * (4 - len(gains)),
            f"{m['short_cost']:+.3f}",
        ]
        assert f"| {' | '.join(cells)} |" in page


def test_its_figures_of_a_whole_model_are_the_result_file():
    page = (DOCS / "speed.md").read_text().replace("\n", " ")
    result = json.loads((DOCS.parent / "benchmarks/results/whole-model-smollm2-135m.json").read_text())
    share, before, after = (result[name] for name in ("share_of_the_rotation", "transformers", "patched"))
    assert f"is {100 * share['prefill']:.1f} % of prefill and {100 * share['decode']:.1f} % of decoding" in page
    for name, told in (("Before `rw.patch`", before), ("after it", after)):
        assert f"{name} {told['prefill_tokens_per_second']} and {told['decode_tokens_per_second']}" in page
    assert result["largest_difference_of_logits"] == 0
