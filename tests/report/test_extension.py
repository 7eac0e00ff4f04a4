"""An extension's page: complete, self-contained, and safe whatever things are called."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import plotly.graph_objects as go
import pytest
from extension_reports import HOSTILE, made, old, quick
from markdown_it import MarkdownIt

from ropewalk.report.chart_parts import names
from ropewalk.report.html import render, write_report
from ropewalk.report.look import DARK, LINES, SPARE, looks
from ropewalk.report.words import verdict

VOID = {"meta", "input", "path", "link", "br"}
RESULT = Path(__file__).parents[2] / "benchmarks/results/extend-smollm2-135m-16384.json"


class Page(HTMLParser):
    """The elements of a page: their attributes, and the text within each kind."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.rows: list[list[str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in set(self.open):
            self.texts[tag][-1] += data
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data

    def of(self, tag: str, **wanted: str) -> list[dict]:
        return [a for name, a in self.tags if name == tag and all(a.get(k) == v for k, v in wanted.items())]

    @property
    def embedded(self) -> dict:
        return json.loads(self.texts["script"][0])


def page_of(report: dict) -> Page:
    page = Page(render(report))
    assert not page.open, "an element was left open, or a name opened one"
    return page


@pytest.fixture(scope="module")
def report() -> dict:
    return made()


@pytest.fixture(scope="module")
def page(report) -> Page:
    return page_of(report)


def numbers(report: dict) -> set[str]:
    """Every number of the result as the tables have it."""
    said = set()
    for m in report["methods"]:
        said |= {f"{m['short_cost']:+.3f}"}
        for b in m["buckets"]:
            said |= {f"{b['nll']:.3f}", f"{b['perplexity']:.2f}", f"{b['tokens']}", f"{b['start']}–{b['end'] - 1}"}
            said |= {f"{b['excess']:+.3f} ({b['low']:+.3f} to {b['high']:+.3f})"}
        said |= {f"{r['gain']:+.2f}" for r in (*m["reading"], *m["retrieval"])}
        if m["holds_to"]:
            said |= {str(m["holds_to"]["value"]), f"{m['holds_to']['low']}–{m['holds_to']['high']}"}
            said |= {str(m["reads_to"]), str(m["usable_length"])}
    return said


def test_every_number_is_in_a_table(report, page):
    cells = {cell for row in page.rows for cell in row}
    assert len(numbers(report)) > 80
    assert numbers(report) - cells == set()


@pytest.mark.parametrize("make", [made, old, quick, lambda: json.loads(RESULT.read_text())])
def test_it_fetches_nothing(make):
    page = page_of(make())
    policy = page.of("meta", **{"http-equiv": "Content-Security-Policy"})[0]["content"]
    assert policy.startswith("default-src 'none';")
    assert "http" not in policy
    assert not [a for _, a in page.tags if {"src", "href", "srcset", "action", "data"} & set(a)]
    assert not [a for _, a in page.tags if any(name.startswith("on") for name in a)]
    assert not re.search(r"@import|url\(", page.texts["style"][0])
    assert {tag for tag, _ in page.tags} & {"link", "img", "iframe", "object", "base"} == set()


def test_the_charts_hold_the_numbers(report, page):
    charts = page.embedded["charts"]
    assert set(charts) == {"curves", "lengths", "reading", "wavelengths", "arcs"}
    for index, m in enumerate(report["methods"]):
        for state, key in (("excess", "excess"), ("loss", "nll"), ("perplexity", "perplexity")):
            line, *_ = [
                t
                for t in charts["curves"]["data"]
                if t["meta"] == {"method": index, "state": state} and "fill" not in t
            ]
            assert line["y"] == pytest.approx([bucket[key] for bucket in m["buckets"]])
            assert line["x"] == [bucket["start"] + 16 for bucket in m["buckets"]]
            bands = [t for t in charts["curves"]["data"] if t["meta"] == line["meta"] and "fill" in t]
            assert len(bands) == (m["method"] != "crop")
    band = next(t for t in charts["curves"]["data"] if t["meta"] == {"method": 3, "state": "excess"} and "fill" in t)
    assert band["y"][:8] == pytest.approx([b["high"] for b in report["methods"][3]["buckets"]])
    assert band["y"][:7:-1] == pytest.approx([b["low"] for b in report["methods"][3]["buckets"]])
    reading = [t["y"] for t in charts["reading"]["data"]]
    assert reading == [[r["gain"] for r in m["reading"]] for m in report["methods"] if m["reading"]]


def test_the_bars_hold_lengths_and_intervals(report, page):
    usable, holds, reads = page.embedded["charts"]["lengths"]["data"]
    judged = report["methods"][1:]
    assert usable["x"] == [m["usable_length"] for m in judged]
    assert reads["x"] == [m["reads_to"] for m in judged]
    assert holds["x"] == [64, 96, 256]
    assert holds["error_x"]["arrayminus"] == [32] * 3
    assert holds["error_x"]["array"] == [0] * 3


def test_unseen_angles_are_what_training_never_reached(page):
    """Of pairs that turn 1, 0.3, 0.05, 0.01 and 0 radians a token, 64 tokens show 3.2 radians of the third's circle."""
    arcs = page.embedded["charts"]["arcs"]["data"]
    turn = 6.283185307
    assert arcs[0]["y"] == pytest.approx([1, 1, 3.2 / turn, 0.64 / turn, 0])
    beyond = {t["meta"]["state"]: t["y"] for t in arcs[1:] if "base" in t}
    assert beyond[1] == pytest.approx([0, 0, 1 - 3.2 / turn, 1.92 / turn, 0])  # none: 256 tokens at the native speed
    assert beyond[2] == [0] * 5  # four times slower over four times the length
    assert beyond[3] == pytest.approx([0, 0, 1 - 3.2 / turn, 0.64 / turn, 0])  # only twice as slow
    assert ["none", "2 of 5", "2–3", "49.1%"] in page.rows
    assert ["linear", "0 of 5", "-", "0.0%"] in page.rows


def test_retrieval_is_a_grid_a_method_and_number_of_needles(report, page):
    assert page.texts["caption"] == [
        f"{m}, {n}" for m in ("none", "linear", "yarn") for n in ("1 key a depth", "4 keys a depth")
    ]
    assert ["0%", "+0.688%", "+2.688%"] in page.rows
    assert ["50%", "+0.1-", "+2.1-"] in page.rows
    shares = [a["style"] for _, a in page.tags if "--share" in a.get("style", "")]
    assert len(shares) == 24
    assert {style.split(":")[1] for style in shares} <= {"0.25", "0.055", "1.0", "0.805"}


@pytest.mark.parametrize("make", [made, old, quick])
def test_plotly_takes_every_chart(make):
    for chart in page_of(make()).embedded["charts"].values():
        drawn = go.Figure(chart["data"], chart["layout"])
        for state in chart.get("states", {}).values():
            drawn.update_layout(yaxis=state["yaxis"], shapes=state["shapes"])


def test_dark_pages_have_a_colour_for_each_light_one(page):
    def colours(value, key=""):
        if isinstance(value, dict):
            return set().union(*(colours(inner, name) for name, inner in value.items()))
        if isinstance(value, list):
            return set().union(*(colours(inner, key) for inner in value))
        return {value} if key.endswith("color") and isinstance(value, str) else set()

    assert colours(page.embedded["charts"]) - {"rgba(0,0,0,0)"} <= set(page.embedded["dark"])


def test_every_control_has_its_chart_and_its_name(report, page):
    charts = page.embedded["charts"]
    assert {a["id"] for a in page.of("div") if "id" in a} == set(charts)
    assert all(a["aria-label"] for a in page.of("div") if "id" in a)
    buttons = page.of("button", **{"class": "method"})
    assert {a["data-method"] for a in buttons} == {str(n) for n in range(len(report["methods"]))}
    assert [a["value"] for a in page.of("input", type="radio")] == list(charts["curves"]["states"])
    assert {a["value"] for a in page.of("option")} == {"1", "2", "3"}
    assert page.of("option", value="3") == [{"value": "3", "selected": None}]  # the chosen one
    assert json.loads(page.texts["pre"][0]) == report["config"]
    assert page.texts["pre"][1] == report["recipes"][0]["text"]
    assert len(page.of("button", **{"class": "copy"})) == 2
    assert any("reloaded in transformers 5.23.0: frequencies equal to the last bit" in said for said in page.texts["p"])


def test_it_is_made_for_light_dark_paper_and_phones(page):
    style = page.texts["style"][0]
    for part in ("color-scheme: light dark", "@media screen and (prefers-color-scheme: dark)", "@media print"):
        assert part in style
    assert page.of("meta", name="viewport")
    assert len(page.of("div", **{"class": "scroll"})) == len(page.of("table"))


def hostile(make=made, **more) -> dict:
    return make(HOSTILE[:2], **more)


@pytest.mark.parametrize("report", [hostile(model=HOSTILE[2]), hostile(model=HOSTILE[3]), hostile(quick)])
def test_names_are_only_ever_text(report):
    page = page_of(report)
    plain = page_of(made(model="m") if not report.get("quick") else quick())
    assert [tag for tag, _ in page.tags] == [tag for tag, _ in plain.tags]
    assert len(page.texts["script"]) == 3
    assert report["model"] in page.texts["h1"][0]
    for name in HOSTILE[:2]:
        assert any(row[0].removesuffix(" (chosen)") == name for row in page.rows)
        assert any(button.strip() == name for button in page.texts["button"])
    drawn = {trace.get("name", "") for chart in page.embedded["charts"].values() for trace in chart["data"]}
    assert "<" not in "".join(drawn)


@pytest.mark.parametrize("model", ["m", *HOSTILE])
def test_the_markdown_says_it_all_and_names_stay_text(tmp_path, model):
    """Read back by somebody else's parser: the same elements whatever the names, and the cells as they were."""
    report = made(HOSTILE[:2], model)
    write_report(report, tmp_path / "report.html")
    text = (tmp_path / "report.md").read_text()
    page = Page(MarkdownIt("commonmark").enable("table").render(text))
    assert {tag for tag, _ in page.tags} <= {
        "h1",
        "h2",
        "h3",
        "p",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "pre",
        "code",
    }
    assert page.texts["h1"] == [" ".join(model.split()) + ": 64 to 256 tokens"]
    cells = {cell for row in page.rows for cell in row}
    assert numbers(report) - cells == set()
    assert set(HOSTILE[:2]) <= cells
    assert any("reloaded in transformers 5.23.0: frequencies equal to the last bit" in said for said in page.texts["p"])
    assert json.loads(page.texts["code"][0]) == report["config"]
    assert page.texts["code"][1] == report["recipes"][0]["text"] + "\n"
    assert " ".join(verdict(report, report["methods"][3]["method"]).split()) in page.texts["p"][0]


def test_an_old_report_renders_without_what_it_lacks():
    page = page_of(old())
    assert "fill" not in str(page.embedded["charts"]["curves"]["data"])
    assert not page.texts.get("caption")
    assert not page.of("button", **{"class": "copy"})
    assert "no checkpoint was written" in page.texts["p"][1]


def test_a_screening_says_that_it_is_one():
    report = quick()
    page = page_of(report)
    assert set(page.embedded["charts"]) == {"probe", "wavelengths", "arcs"}
    assert "A quick probe, which measures no length" in page.texts["p"][1]
    assert ["1", "yarn", "+0.023 ± 0.001", "+0.232 ± 0.017", "+0.000 ± 0.010"] in page.rows
    line = page.embedded["charts"]["probe"]["data"][0]
    assert (line["x"], line["y"]) == ([208, 256], pytest.approx([0.208, 0.256]))
    assert line["meta"] == {"method": names(report).index("linear")}


def test_each_method_has_a_look_of_its_own_that_can_be_seen():
    every = looks([*LINES, "one", "two", "three", "four"])
    assert len({(look.dash, look.symbol) for look in every.values()}) == len(every) == len(DARK) + len(SPARE)
    for look in every.values():
        assert contrast(look.light, "#ffffff") >= 3
        assert contrast(look.dark, "#16181b") >= 3
        assert look.dashes
        assert look.outline


def contrast(one: str, other: str) -> float:
    """WCAG 2's, of two `#rrggbb`."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05

    low, high = sorted(map(luminance, (one, other)))
    return high / low
