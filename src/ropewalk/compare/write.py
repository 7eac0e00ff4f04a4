"""The files of a comparison, from its result."""

import csv
import io
import json
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from ropewalk._files import replace_text
from ropewalk.compare.literature import LITERATURE
from ropewalk.extend.result import versions
from ropewalk.plots.comparison import comparison, scaling_comparison
from ropewalk.report.comparison import render
from ropewalk.report.comparison_table import PICTURES, csv_rows, markdown
from ropewalk.report.svg import svg


def write_comparison(result: dict[str, Any], out: Path) -> dict[str, Any]:
    """Write comparison.json, .csv, .md, .html and .svg into `out`; the result with its versions."""
    full = {**result, "versions": versions()}
    replace_text(out / "comparison.json", json.dumps(full, indent=2, allow_nan=False) + "\n")
    for name, figure in _pictures(full).items():
        replace_text(out / name, svg(figure))
    replace_text(out / "comparison.md", markdown(full, LITERATURE))
    replace_text(out / "comparison.csv", _csv(csv_rows(full)))
    replace_text(out / "comparison.html", render(full, LITERATURE))
    return full


def _pictures(result: dict[str, Any]) -> dict[str, Figure]:
    """By the file names that the Markdown shows them under."""
    drawn = {PICTURES[0]: comparison(result)}
    return {**drawn, PICTURES[1]: scaling_comparison(result)} if result["scalings"] else drawn


def _csv(rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
