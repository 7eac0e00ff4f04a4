"""The comparison's page, Markdown and CSV: complete, self-contained, and safe whatever an encoding is called."""

import json
import re
from types import SimpleNamespace

import pytest

from ropewalk.plots.comparison import COLOURS, comparison, encoding_colours, scaling_comparison
from ropewalk.report.comparison import render
from ropewalk.report.comparison_table import copies_to, csv_rows, escaped, markdown, verdict

LENGTHS = {1: 64, 1.5: 96, 2: 128, 4: 256, 8: 512, 16: 1024}
DISTANCES = (8, 16, 32, 64)
OWN = "mine:<script>alert(1)</script>|$x$"
NAMES = ("rope", "alibi", OWN)
LITERATURE = {
    name: SimpleNamespace(
        title=f"{name} in full", paper="Somebody 2021, arXiv 1234.56789", acts="turns | adds", learnable="no",
        used_by="a model", pros="cheap", cons="a < b", choose="this\nand that", reported=f"{name} was reported",
    )
    for name in ("rope", "alibi")
}  # fmt: skip


def about(value: float, half: float | None) -> dict:
    return {"value": value, "low": half and value - half, "high": half and value + half}


def encoding(name: str, *, half: float | None, passed: bool, holds: int, worst: float, copied: tuple) -> dict:
    rows = [
        {"times": times, "length": length, "mean": about(2.5, half), "last_quarter": about(2.4 + worst * n, half),
         "crop": about(2.45, half)}
        for n, (times, length) in enumerate(LENGTHS.items())
    ]  # fmt: skip
    ends, bits = [*range(8, 1025, 8)], [2.4 + worst * n / 25 for n in range(128)]
    band = [[value + sign * half for value in bits] if half else None for sign in (-1, 1)]
    return {
        "name": name, "passed": passed, "seeds": [0, 1, 2] if half else [0], "parameters_added": 4096,
        "tokens_per_second": about(12_345.0, half), "peak_memory_mb": about(321.0, half), "bits": rows,
        "curve": {"ends": ends, "bits": bits, "low": band[0], "high": band[1]},
        "holds_to": {"value": holds, "low": holds - 16 if half else holds, "high": holds},
        "copy": [{"distance": at, "accuracy": about(value, half)} for at, value in zip(DISTANCES, copied, strict=True)],
    }  # fmt: skip


def scalings(half: float | None) -> list:
    methods = ("none", "crop", "linear", "ntk", "ntk-critical", "dynamic", "yarn", "llama3", "mrrope")
    return [
        {
            "factor": factor,
            "length": 64 * factor,
            "methods": [
                {
                    "method": method,
                    "last_quarter": about(2.6 + 0.1 * n, half),
                    "within": about(2.5, half),
                    "copy": None if method == "crop" else about(0.25, half),
                }
                for n, method in enumerate(methods)
            ],
        }
        for factor in (2, 4)
    ]


def made(half: float | None = 0.03) -> dict:
    """A result of three encodings: one that breaks, one that failed the gate, and a user's own that holds."""
    return {
        "schema_version": 1,
        "protocol": {
            "length": 64, "reach": 16, "dim": 64, "layers": 2, "heads": 4, "batch": 16, "steps": 4000, "rate": 0.004,
            "copies": 0.25, "stretches": 64, "tolerance_bits": 0.1443, "seeds": [0, 1, 2] if half else [0],
        },
        "text": {
            "train": ["plays.txt"], "held_out": ["tempest.txt"], "train_bytes": 4767199, "held_out_bytes": 98439,
            "unigram_bits": 4.8, "bigram_bits": 3.56,
        },
        "encodings": [
            encoding("rope", half=half, passed=True, holds=96, worst=0.41, copied=(0.99, 0.81, 0.33, 0.77)),
            encoding("alibi", half=half, passed=False, holds=1024, worst=0.0, copied=(0.1, 0.1, 0.1, 0.1)),
            encoding(OWN, half=half, passed=True, holds=1024, worst=0.01, copied=(0.2, 0.9, 0.9, 0.9)),
        ],
        "scalings": scalings(half),
        "claims": {
            "decay": {"head_dim": 64, "distances": [0, 1, 2, 3, 4], "aligned": [1.0, 0.978, 0.93, 0.89, 0.871],
                      "random_mean": [0.004, -0.005, 0.001, 0.002, 0.003], "first_negative": 725},
            "uniqueness": {"dim": 64, "positions": 65536, "nearest": 0.312, "shift": 1},
            "frequencies": [{"layer": 0, "wavelengths": [6.28, 62.8, 628.0], "share": [0.2, 0.5, 0.3]}],
            "shuffling": {"attention": 1e-7, "rnn": 0.81, "convolution": 0.92},
        },
        "versions": {"ropewalk": "0.1.0", "torch": "2.13.0", "python": "3.12", "machine": "x", "date": "2026-12-03"},
        "seconds": 2400.0,
    }  # fmt: skip


def markdown_tables(page: str) -> list[list[str]]:
    blocks = [block.splitlines() for block in page.split("\n\n")]
    return [block for block in blocks if block[0].startswith("|")]


def columns(line: str) -> int:
    return len(re.findall(r"(?<!\\)\|", line))


@pytest.fixture
def result() -> dict:
    return json.loads(json.dumps(made()))


@pytest.fixture
def page(result) -> str:
    return render(result, LITERATURE)


@pytest.mark.parametrize(
    "number", ["2.40 ± 0.03", "4.45 ± 0.03", "96 (80–96)", "12,345", "321", "4,096", "0.81 ± 0.03"]
)
def test_both_pages_hold_the_numbers(result, page, number):
    assert f"<td>{number}" in page
    assert f"| {number}" in markdown(result, LITERATURE)


def test_both_pages_hold_the_rest(result, page):
    said = (
        "725", "0.978", "0.312 apart", "65,536", "1.0e-07", "mrrope", "rope was reported",
        "holds to 96 (80–96), copies to 16",
        "tempest.txt", "4,767,199 bytes", "torch 2.13.0", "4,000 steps", "2,400 s", "62.8", "70%",
    )  # fmt: skip
    for text in said:
        assert text in page
        assert text in markdown(result, LITERATURE)


def test_every_encoding_is_in_every_output(result, page):
    for name in NAMES:
        assert escaped(name) in markdown(result, LITERATURE)
        assert any(row[0] == name for row in csv_rows(result))
    for name in ("rope", "alibi", "mine:&lt;script&gt;alert(1)&lt;/script&gt;|$x$"):
        assert page.count(f'<th scope="row">{name}</th>') == 5  # main, lengths, copying, and two of the literature
    drawn = {text.get_text() for text in comparison(result).legends[0].get_texts()}
    assert drawn == {"rope", "(alibi)", OWN.replace("$", r"\$")}


def test_names_are_escaped(result, page):
    assert "<script" not in page
    assert "<script" not in markdown(result, LITERATURE)


def test_the_page_fetches_nothing_and_runs_nothing(page):
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!#)|@import|url\((?!#)|<script|<link""", page)
    assert page.count("<svg") == 2


def test_the_page_is_made_for_light_dark_paper_and_phones(page):
    assert page.lstrip().startswith("<!doctype html>")
    assert "color-scheme: light dark" in page
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page
    assert 'name="viewport"' in page
    assert page.count('<div class="scroll"') == page.count("<table")


def test_an_encoding_that_failed_the_gate_is_in_brackets_and_in_no_verdict(result, page):
    row = re.search(r'<tr class="failed"><th scope="row">alibi</th>(.*)</tr>', page).group(1)
    assert "<td>(2.40 ± 0.03)</td>" in row
    assert "not passed" in row
    assert "alibi holds" not in verdict(result)
    assert "Left out: alibi, which did not learn more than bigrams." in verdict(result)


def test_the_verdict_says_who_holds_and_who_breaks_where(result):
    said = verdict(result)
    assert f"Trained on 64 bytes and read to 1,024: {OWN} holds to the end." in said
    assert "Breaking on the way: rope at 96 (1.5x)." in said
    assert f"Fewest bits a byte at 16x: {OWN}, 2.45 ± 0.03" in said
    assert "Copying reaches farthest with rope: 16 bytes." in said
    result["encodings"][0]["holds_to"]["value"] = 64
    assert "Breaking at once past the training length: rope." in verdict(result)
    for one in result["encodings"]:
        one["passed"] = False
    assert "says nothing" in verdict(result)


def test_copying_counts_from_the_shortest_distance_on(result):
    rope, _, own = result["encodings"]
    assert copies_to(rope) == 16  # 64 is copied too, but 32 is not
    assert copies_to(own) is None


def test_an_encoding_without_literature_shows_a_dash(result):
    line = next(
        line for line in markdown(result, LITERATURE).splitlines() if "mine:" in line and line.endswith("| - |")
    )
    assert line.count("| -") == 5


def test_markdown_tables_are_rectangular(result):
    found = markdown_tables(markdown(result, LITERATURE))
    assert len(found) == 10
    for lines in found:
        assert len({columns(line) for line in lines}) == 1
    assert "](comparison.svg)" in markdown(result, LITERATURE)


def test_csv_has_a_row_for_each_number(result):
    header, *rows = csv_rows(result)
    assert header == ["encoding", "times", "length", "measure", "value", "low", "high"]
    assert len(rows) == len(NAMES) * (len(LENGTHS) * 3 + len(DISTANCES))
    assert {len(row) for row in rows} == {len(header)}
    row = next(row for row in rows if row[:4] == ["rope", "1.5", "96", "last_quarter"])
    assert [float(text) for text in row[4:]] == pytest.approx([2.81, 2.78, 2.84])
    assert ["rope", "0.25", "16", "copy_accuracy"] in [row[:4] for row in rows]


def test_one_seed_has_no_intervals():
    single = made(half=None)
    page = render(single, {})
    assert "<td>2.40</td>" in page
    assert "<td>96</td>" in page
    assert "2.40 ±" not in page
    assert "none: one seed" in markdown(single, {})
    assert csv_rows(single)[1][5:] == ["", ""]
    assert not comparison(single).axes[0].collections


def test_what_was_not_measured_is_left_out(result):
    result["scalings"], result["claims"]["frequencies"] = [], []
    page = render(result, LITERATURE)
    assert page.count("<svg") == 1
    for text in ("Scalings of RoPE", "The frequencies that RoPE uses"):
        assert text not in page
        assert text not in markdown(result, LITERATURE)
    assert scaling_comparison(result).axes[0].get_ylim()[0] < scaling_comparison(result).axes[0].get_ylim()[1]


def test_the_pictures_hold_the_numbers(result):
    loss, copying = comparison(result).axes
    for one, line in zip(result["encodings"], loss.lines, strict=False):
        assert list(line.get_ydata()) == one["curve"]["bits"]
    assert list(copying.lines[0].get_ydata()) == [0.99, 0.81, 0.33, 0.77]
    assert len(loss.collections) == len(NAMES)
    assert loss.get_ylim()[1] == pytest.approx(5.1)
    lines = {line.get_label(): line for line in scaling_comparison(result).axes[0].lines}
    assert list(lines["yarn"].get_xdata()) == [2, 4]
    assert list(lines["yarn"].get_ydata()) == pytest.approx([3.2, 3.2])


def test_lost_models_stay_in_the_picture(result):
    for one in result["encodings"]:
        one["curve"]["bits"] = [8.0] * 128
    low, high = comparison(result).axes[0].get_ylim()
    assert low < 8.0 < high


def test_each_encoding_has_a_colour_of_its_own():
    names = [*COLOURS, "one:A", "other:B"]
    assert len(set(encoding_colours(names).values())) == len(names)
