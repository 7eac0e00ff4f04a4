"""A comparison in two pictures: every encoding past its training length, and every scaling by its factor."""

import itertools
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ropewalk.plots.style import figure, line_style

COLOURS = {
    "none": "#1a1a1a",
    "sinusoidal": "#937860",
    "learned": "#c44e52",
    "shaw": "#8172b3",
    "transformer-xl": "#5d4a9c",
    "cope": "#b39ddb",
    "t5": "#2e8b57",
    "alibi": "#e07b28",
    "kerple": "#b5651d",
    "sandwich": "#d9a441",
    "fire": "#a63d2f",
    "rope": "#1f4e9c",
    "rope-partial": "#4a90d9",
    "rope-proportional": "#27a9c4",
    "rope-window": "#8fb8de",
    "xpos": "#6a5acd",
}
SPARE = ("#d14fa0", "#b8860b", "#008b8b", "#6b8e23", "#555555")  # for a user's own, in turn
MARKERS = "osD^vP*X<>hp"  # so that the lines can be told apart without colour
HEADROOM = 0.3  # bits a byte above the unigram line: what lies higher knows less than how common each byte is
COPIES = 0.5  # share of bytes copied rightly from which a distance counts as copied


def comparison(result: dict[str, Any]) -> Figure:
    """Bits per byte by position, and copy accuracy by distance, one line an encoding.

    An encoding that did not pass the gate is pale and its name in brackets.

    Args:
        result: the content of comparison.json.
    """
    drawn, (loss, copying) = figure(9.0, 9.0, rows=2)
    colours = encoding_colours([encoding["name"] for encoding in result["encodings"]])
    for encoding, marker in zip(result["encodings"], itertools.cycle(MARKERS), strict=False):
        style = _style(encoding, colours[encoding["name"]])
        _curve(loss, encoding["curve"], style)
        distances = [copy["distance"] for copy in encoding["copy"]]
        copying.plot(distances, _values(encoding["copy"], "accuracy"), marker=marker, markersize=4, **style)
        _band(copying, distances, [copy["accuracy"] for copy in encoding["copy"]], style)
    _dress_loss(loss, result)
    _dress_copying(copying)
    for ax in (loss, copying):
        _mark_training(ax, result["protocol"]["length"])
    handles, labels = copying.get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    return drawn


def scaling_comparison(result: dict[str, Any]) -> Figure:
    """Bits per byte of the last quarter by factor, one line a scaling of the same trained RoPE.

    Args:
        result: the content of comparison.json, with at least one factor in `scalings`.
    """
    drawn, (ax,) = figure(9.0, 4.8)
    for method in dict.fromkeys(m["method"] for scaling in result["scalings"] for m in scaling["methods"]):
        points = [(s["factor"], m) for s in result["scalings"] for m in s["methods"] if m["method"] == method]
        factors, measured = [factor for factor, _ in points], [m["last_quarter"] for _, m in points]
        style = line_style(method) | {"label": _plain(method)}
        ax.plot(factors, [value["value"] for value in measured], marker="o", markersize=4, **style)
        _band(ax, factors, measured, style)
    _base_two(ax)
    _clip(ax, result)
    ax.set(xlabel="length read / training length", ylabel="bits per byte, last quarter")
    ax.set_title("One trained RoPE under every scaling", loc="left", fontweight="bold")
    if result["scalings"]:
        drawn.legend(loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    return drawn


def encoding_colours(names: list[str]) -> dict[str, str]:
    """A colour for each name: its own, or for a name not known here the next spare one."""
    spare = itertools.cycle(SPARE)
    return {name: COLOURS.get(name) or next(spare) for name in names}


def _style(encoding: dict[str, Any], colour: str) -> dict[str, Any]:
    name = _plain(encoding["name"])
    if encoding["passed"]:
        return {"color": colour, "linewidth": 1.6, "label": name}
    return {"color": colour, "linewidth": 1.2, "linestyle": ":", "alpha": 0.5, "label": f"({name})"}


def _plain(name: str) -> str:
    """Matplotlib reads what stands between two dollars as a formula: a name is none."""
    return name.replace("$", r"\$")


def _curve(ax: Axes, curve: dict[str, Any], style: dict[str, Any]) -> None:
    ax.plot(curve["ends"], curve["bits"], **style)
    if curve["low"] is not None:
        ax.fill_between(curve["ends"], curve["low"], curve["high"], color=style["color"], alpha=0.15, linewidth=0)


def _band(ax: Axes, x: list[float], values: list[dict[str, Any]], style: dict[str, Any]) -> None:
    """From low to high, where there is more than one seed."""
    known = [(at, value) for at, value in zip(x, values, strict=True) if value["low"] is not None]
    low, high = [value["low"] for _, value in known], [value["high"] for _, value in known]
    ax.fill_between([at for at, _ in known], low, high, color=style["color"], alpha=0.12, linewidth=0)


def _values(rows: list[dict[str, Any]], key: str) -> list[float]:
    return [row[key]["value"] for row in rows]


def _dress_loss(ax: Axes, result: dict[str, Any]) -> None:
    _base_two(ax)
    _clip(ax, result)
    for name in ("unigram", "bigram"):
        bits = result["text"][f"{name}_bits"]
        ax.axhline(bits, color="#777777", linewidth=0.8, linestyle="--")
        ax.annotate(f"{name}s", (0.995, bits), xycoords=("axes fraction", "data"), fontsize=8, ha="right", va="bottom")
    ax.set(xlabel="position, bytes", ylabel="bits per byte")
    ax.set_title("Reading past the training length", loc="left", fontweight="bold")


def _dress_copying(ax: Axes) -> None:
    _base_two(ax)
    ax.axhline(COPIES, color="#777777", linewidth=0.8, linestyle="--")
    at: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "fontsize": 8, "ha": "right", "va": "bottom"}
    ax.annotate("copies from here up", (0.995, COPIES), **at)
    ax.set(xlabel="distance to the original, bytes", ylabel="copy accuracy", ylim=(-0.02, 1.02))


def _base_two(ax: Axes) -> None:
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_formatter("{x:,g}")


def _clip(ax: Axes, result: dict[str, Any]) -> None:
    """Just above unigrams, where a model is lost; higher only where everything drawn is."""
    drawn = [np.asarray(line.get_ydata(), dtype=float) for line in ax.get_lines()]
    lowest = float(np.nanmin(np.concatenate(drawn))) if drawn else 0.0
    ax.set_ylim(lowest - 0.1, max(result["text"]["unigram_bits"] + HEADROOM, lowest + 1.0))


def _mark_training(ax: Axes, length: int) -> None:
    ax.axvline(length, color="#444444", linewidth=1.0, linestyle=":")
    ax.annotate(
        "training length",
        (length, 0.97),
        xycoords=("data", "axes fraction"),
        xytext=(-2, 0),
        textcoords="offset points",
        fontsize=8,
        ha="right",
        rotation=90,
        va="top",
    )
