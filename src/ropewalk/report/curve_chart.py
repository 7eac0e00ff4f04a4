"""Loss by position under every method, as the excess over crop, as it is, or as perplexity."""

import math
from typing import Any

from ropewalk.report.chart_parts import axes, line, native_line, positions, styled
from ropewalk.report.look import Look, faint

MEASURES = {"excess": "loss above crop's, nats a token", "loss": "loss, nats a token", "perplexity": "perplexity"}
CEILING = 1.0  # nats above crop: past it a method is lost, and drawing it to scale would flatten the others
TOLERATED = "#d6e9df"
BAND = 0.13  # of its colour, in a band


def curves(report: dict[str, Any]) -> dict[str, Any]:
    """Excess over crop, loss or perplexity by position, with bands: one state a measure."""
    data: list[dict[str, Any]] = []
    for index, method, look in styled(report, report["methods"]):
        for measure in MEASURES if method.get("buckets") else ():
            meta = {"method": index, "state": measure}
            data += [*_band(method, measure, look, meta), _curve(method, measure, look, meta)]
    if not data:
        return {"data": []}
    layout = axes("position", "") | {"hovermode": "x unified"}
    positions(layout, report, "around position %{x:,}")
    native_line(layout, report["native_length"])
    return {"data": data, "layout": layout, "states": {name: _measured(report, name) for name in MEASURES}}


def _curve(method: dict[str, Any], measure: str, look: Look, meta: dict[str, Any]) -> dict[str, Any]:
    buckets = method["buckets"]
    middles = [(bucket["start"] + bucket["end"]) / 2 for bucket in buckets]
    drawn = line(method["method"], middles, [_value(bucket, measure) for bucket in buckets], look, meta)
    template = "%{y:.3f}%{customdata}" if measure != "perplexity" else "%{y:.2f}%{customdata}"
    return drawn | {"hovertemplate": template, "customdata": [_said(method, bucket, measure) for bucket in buckets]}


def _band(method: dict[str, Any], measure: str, look: Look, meta: dict[str, Any]) -> list[dict[str, Any]]:
    """The 95 % band of the difference to crop, around the method's line; crop has none, old reports neither."""
    buckets = method["buckets"]
    if method["method"] == "crop" or any(bucket.get("low") is None for bucket in buckets):
        return []
    x = [(bucket["start"] + bucket["end"]) / 2 for bucket in buckets]
    low, high = ([_value(bucket, measure, bucket[end]) for bucket in buckets] for end in ("low", "high"))
    return [
        {
            "type": "scatter", "x": x + x[::-1], "y": high + low[::-1], "fill": "toself", "mode": "lines",
            "line": {"width": 0}, "fillcolor": faint(look.light, BAND), "hoverinfo": "skip", "showlegend": False,
            "meta": meta,
        }
    ]  # fmt: skip


def _value(bucket: dict[str, Any], measure: str, excess: float | None = None) -> float:
    """A bucket's number under `measure`; with `excess`, what it would be if that were its excess."""
    shift = 0.0 if excess is None else excess - bucket["excess"]
    if measure == "excess":
        return float(bucket["excess"] + shift)
    nll = bucket["nll"] + shift
    return float(nll if measure == "loss" else math.exp(min(nll, 700.0)))


def _said(method: dict[str, Any], bucket: dict[str, Any], measure: str) -> str:
    if method["method"] == "crop" or bucket.get("low") is None:
        return ""
    low, high = (_value(bucket, measure, bucket[end]) for end in ("low", "high"))
    digits = 2 if measure == "perplexity" else 3
    return f" ({low:.{digits}f} to {high:.{digits}f})"


def _measured(report: dict[str, Any], measure: str) -> dict[str, Any]:
    """The y axis of one measure, on a scale that crop sets: what lies far above it leaves the chart."""
    values = [[_value(b, measure) for b in m["buckets"]] for m in report["methods"] if m.get("buckets")]
    crop = [_value(b, measure) for m in report["methods"] if m["method"] == "crop" for b in m["buckets"]]
    lowest, highest = min(map(min, values)), max(map(max, values))
    tops = {
        "excess": CEILING,
        "loss": max(crop, default=highest) + CEILING,
        "perplexity": 3 * max(crop, default=highest),
    }
    top = min(tops[measure], highest + 0.05 * (highest - lowest))
    axis = {"title": {"text": MEASURES[measure]}, "range": [lowest - 0.05 * (top - lowest), top]}
    state: dict[str, Any] = {"yaxis": axis, "shapes": []}
    if measure == "excess":
        state["shapes"] = [
            {"type": "rect", "x0": 0, "x1": 1, "xref": "paper", "y0": 0, "y1": report["tolerance"], "layer": "below",
             "line": {"width": 0}, "fillcolor": TOLERATED}
        ]  # fmt: skip
    return state


def lost(report: dict[str, Any]) -> list[str]:
    """The methods whose excess is over the chart's scale in every bucket."""
    measured = [method for method in report["methods"] if method.get("buckets")]
    return [m["method"] for m in measured if all(bucket["excess"] > CEILING for bucket in m["buckets"])]
