"""The measured comparison: every encoding read past the length it was trained on, and every scaling of RoPE."""

import itertools
import json
import math
from functools import cache
from importlib import resources
from typing import Any

from ropewalk.explorer.charts import layout, line
from ropewalk.explorer.panel import Choice, Drawn, Panel, State
from ropewalk.explorer.words import Words
from ropewalk.plots.comparison import HEADROOM, encoding_colours
from ropewalk.report.chart_parts import level, native_line
from ropewalk.report.look import faint, looks

KEPT = ("protocol", "text", "encodings", "scalings")
OF_AN_ENCODING = ("name", "passed", "curve", "bits", "copy", "holds_to")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
EVERY = "all"


def kept(result: dict[str, Any]) -> dict[str, Any]:
    """What this page needs of comparison.json, number for number, and ours alone of the encodings."""
    encodings = [{key: e[key] for key in OF_AN_ENCODING} for e in result["encodings"] if ":" not in e["name"]]
    return {key: result[key] for key in KEPT} | {"encodings": encodings}


@cache
def numbers() -> dict[str, Any]:
    """The landed result, as `make figures` copied it from benchmarks/results/comparison-plays.json."""
    text = resources.files("ropewalk.explorer").joinpath("comparison.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def draw(state: State, words: Words) -> Drawn:
    """Curves of one kind; one of them before the others where it is chosen."""
    result = numbers()
    one = next((e for e in result["encodings"] if e["name"] == state["encoding"]), None)
    picture = {"loss": _loss, "copying": _copying, "scalings": _scalings}[state["shown"]]
    facts = {"length": f"{result['protocol']['length']:,}", "seeds": str(len(result["protocol"]["seeds"]))}
    if one:
        bits = {entry["times"]: entry["last_quarter"]["value"] for entry in one["bits"]}
        facts |= {"once": f"{bits[1.0]:.2f}", "twice": f"{bits[2.0]:.2f}", "farthest": f"{bits[max(bits)]:.2f}"}
        facts |= {"holds_to": f"{one['holds_to']['value']:,}"}
    return Drawn({"curves": picture(result, state["encoding"], words)}, facts)


def _loss(result: dict[str, Any], chosen: str, words: Words) -> dict[str, Any]:
    data = []
    for name, encoding, colour, dash in _styled(result, chosen):
        curve = encoding["curve"]
        if encoding["name"] == chosen:
            data += _band(curve["ends"], curve["low"], curve["high"], colour)
        data.append(
            line(name, curve["ends"], _rounded(curve["bits"]), colour, dash) | {"hovertemplate": "%{x:,}: %{y:.3f}"}
        )
    made = _doubling(layout(words("axis.bytes"), words("axis.bits"), legend=True))
    lowest = min(min(e["curve"]["bits"]) for e in result["encodings"])
    made["yaxis"]["range"] = [lowest - 0.1, result["text"]["unigram_bits"] + HEADROOM]
    native_line(made, result["protocol"]["length"], words("comparison.trained"))
    _at_power(made)
    level(made, result["text"]["unigram_bits"], words("comparison.unigrams"))
    level(made, result["text"]["bigram_bits"], words("comparison.bigrams"))
    return {"data": data, "layout": made}


def _copying(result: dict[str, Any], chosen: str, words: Words) -> dict[str, Any]:
    data = []
    for name, encoding, colour, dash in _styled(result, chosen):
        x = [copy["distance"] for copy in encoding["copy"]]
        y = [copy["accuracy"]["value"] for copy in encoding["copy"]]
        data.append(line(name, x, y, colour, dash) | {"mode": "lines+markers", "hovertemplate": "%{x:,}: %{y:.3f}"})
    made = _doubling(layout(words("axis.copied"), words("axis.accuracy"), legend=True))
    made["yaxis"]["range"] = [0, 1]
    return {"data": data, "layout": made}


def _scalings(result: dict[str, Any], chosen: str, words: Words) -> dict[str, Any]:
    methods = list(dict.fromkeys(m["method"] for s in result["scalings"] for m in s["methods"]))
    data = []
    for name, look in looks(methods).items():
        points = [
            (s["factor"], m["last_quarter"]) for s in result["scalings"] for m in s["methods"] if m["method"] == name
        ]
        trace = line(name, [x for x, _ in points], [y["value"] for _, y in points], look.light, look.dash)
        data.append(trace | {"mode": "lines+markers", "marker": {"symbol": look.symbol, "color": look.light, "size": 8},
                             "hovertemplate": "%{x}×: %{y:.3f}"})  # fmt: skip
    made = _doubling(layout(words("axis.factor"), words("axis.bits"), legend=True))
    level(made, result["text"]["unigram_bits"], words("comparison.unigrams"))
    return {"data": data, "layout": made}


def _styled(result: dict[str, Any], chosen: str) -> list[tuple[str, dict[str, Any], str, str]]:
    """Every encoding with its colour and dashes; all but the chosen one are pale, where one is."""
    colours = encoding_colours([e["name"] for e in result["encodings"]])
    styled = [
        (e["name"], e, colours[e["name"]] if chosen in (EVERY, e["name"]) else faint(colours[e["name"]], 0.25), dash)
        for e, dash in zip(result["encodings"], itertools.cycle(DASHES), strict=False)
    ]
    return sorted(styled, key=lambda each: each[0] == chosen)


def _band(x: list[float], low: list[float] | None, high: list[float] | None, colour: str) -> list[dict[str, Any]]:
    """The interval over seeds, where there is more than one."""
    if low is None or high is None:
        return []
    return [
        {"type": "scatter", "mode": "lines", "x": x + x[::-1], "y": _rounded(high + low[::-1]), "fill": "toself",
         "line": {"width": 0}, "fillcolor": faint(colour, 0.2), "hoverinfo": "skip", "showlegend": False}
    ]  # fmt: skip


def _rounded(values: list[float]) -> list[float]:
    return [round(value, 4) for value in values]


def _doubling(made: dict[str, Any]) -> dict[str, Any]:
    ticks = [2**power for power in range(1, 11)]
    made["xaxis"] |= {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:,}" for tick in ticks]}
    return made


def _at_power(made: dict[str, Any]) -> None:
    """Of a logarithmic axis, annotations alone take logarithms."""
    made["annotations"][-1]["x"] = math.log10(made["annotations"][-1]["x"])


PANEL = Panel(
    "comparison",
    (
        Choice("shown", "loss", ("loss", "copying", "scalings"), shared=("loss", "copying", "scalings")),
        Choice("encoding", EVERY, (EVERY, *(e["name"] for e in numbers()["encodings"])),
               shared=(EVERY, "none", "sinusoidal", "alibi", "rope", "rope-window")),
    ),
    ("curves",),
    draw,
)  # fmt: skip
