"""report.html and report.md: made from report.json alone, with nothing fetched."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from plotly.offline import get_plotlyjs

from ropewalk.report.chart_parts import names
from ropewalk.report.charts import charts, dark_colours, drawn_methods
from ropewalk.report.curve_chart import MEASURES, lost
from ropewalk.report.extension_markdown import markdown
from ropewalk.report.extension_tables import reloaded, tables, title
from ropewalk.report.grids import grids
from ropewalk.report.look import looks
from ropewalk.report.page import embedded, filled
from ropewalk.report.spectrum_charts import frequencies_of
from ropewalk.report.words import verdict

NUMBERS = ("excess", "loss", "perplexity", "reading", "retrieval", "wavelengths")  # tables that stand last, folded


def write_report(report: dict[str, Any], path: Path) -> None:
    """Render the content of report.json to one HTML file, and beside it, as .md, to Markdown."""
    path.write_text(render(report), encoding="utf-8")
    path.with_suffix(".md").write_text(markdown(report, verdict(report, report["chosen"])), encoding="utf-8")


def render(report: dict[str, Any]) -> str:
    """The page, as text. Names and paths in `report` are escaped."""
    drawn, made = charts(report), tables(report)
    return filled(
        "template.html",
        report=report,
        title=title(report),
        verdict=verdict(report, report["chosen"]),
        tables=made,
        numbers=[made[name] for name in NUMBERS if name in made],
        methods=looks(names(report)),
        charts=drawn,
        lines={name: drawn_methods(chart) for name, chart in drawn.items()},
        measures=MEASURES,
        lost=lost(report),
        bands=any(bucket.get("low") is not None for m in report["methods"] for bucket in m.get("buckets") or []),
        grids=grids(report),
        **_turning(report),
        config=json.dumps(report["config"], indent=2) if report["config"] else None,
        reloaded=reloaded(report),
        recipes=report.get("recipes") or [],
        embedded=embedded({"charts": drawn, "dark": dark_colours(report)}),
        plotly=Markup(get_plotlyjs()),
    )


def _turning(report: dict[str, Any]) -> dict[str, Any]:
    """The methods whose angles can be shown, by index, and the one shown first: what was chosen, or else none."""
    every = names(report)
    turning = {every.index(m["method"]): m["method"] for m in report["methods"] if frequencies_of(report, m)}
    chosen = (index for index, name in turning.items() if name == report["chosen"])
    return {"turning": turning, "first_turning": next(chosen, min(turning, default=None))}


def frequencies(report: dict[str, Any]) -> dict[str, NDArray[np.float64]]:
    """The native frequencies of a report and those of each method, by name."""
    scaled = {m["method"]: np.array(m["inv_freq"]) for m in report["methods"] if m["inv_freq"]}
    return {"native": np.array(report["inv_freq"]), **scaled}
