"""report.html: made from report.json alone, with its pictures inside and nothing fetched."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined
from numpy.typing import NDArray

from ropewalk.plots import curves, spectrum
from ropewalk.report import quick
from ropewalk.report.svg import inline_svg


def write_report(report: dict[str, Any], path: Path) -> None:
    """Render the content of report.json to one HTML file."""
    path.write_text(render(report), encoding="utf-8")


def render(report: dict[str, Any]) -> str:
    """The page, as text. Names and paths in `report` are escaped."""
    if report.get("quick"):
        return quick.render(report)
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(files("ropewalk.report").joinpath("template.html").read_text(encoding="utf-8"))
    chosen = next((m for m in report["methods"] if m["method"] == report["chosen"]), None)
    return template.render(
        report=report,
        chosen=chosen,
        verdict=verdict(report, chosen),
        curves=inline_svg(curves(report)),
        spectrum=inline_svg(spectrum(frequencies(report), report["native_length"], report["target_length"])),
        config=json.dumps(report["config"], indent=2) if report["config"] else None,
    )


def verdict(report: dict[str, Any], chosen: dict[str, Any] | None) -> str:
    """The result in words."""
    if report.get("quick"):
        return quick.verdict(report)
    if chosen is None:
        return f"No method stays within {report['tolerance']:g} nats a token on short text; no checkpoint was written."
    none = next(m for m in report["methods"] if m["method"] == "none")
    return (
        f"{chosen['method']} holds to {chosen['holds_to']['value']:,} tokens; {_reading(report, chosen)}; it costs "
        f"{round(100 * np.expm1(chosen['short_cost']), 1) + 0.0:.1f} % perplexity on short text. "
        f"Unscaled, the model holds to {none['holds_to']['value']:,}."
    )


def _reading(report: dict[str, Any], chosen: dict[str, Any]) -> str:
    if chosen["reads_to"] is not None:
        return f"reads to {chosen['reads_to']:,}"
    if not report["protocol"]["reading"]["trials"]:
        return "how far it reads was not measured"
    return "reading could not be measured: the model does not copy within its native length"


def frequencies(report: dict[str, Any]) -> dict[str, NDArray[np.float64]]:
    """The native frequencies of a report and those of each method, by name."""
    scaled = {m["method"]: np.array(m["inv_freq"]) for m in report["methods"] if m["inv_freq"]}
    return {"native": np.array(report["inv_freq"]), **scaled}
