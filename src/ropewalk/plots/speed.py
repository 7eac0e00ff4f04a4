"""A speed benchmark in one picture: every way to do a job as a multiple of its limit."""

import itertools
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ropewalk.plots.style import figure

OURS = "ropewalk"
COLOURS = {
    OURS: "#1f4e9c",
    "chunk and cat, compiled": "#e07b28",
    "transformers, compiled": "#d9a441",
    "transformers": "#9a9a9a",
    "flex attention, compiled": "#2e8b57",
    "a mask, ready": "#8172b3",
    "a mask, made each time": "#c0b3dc",
}
SPARE = ("#c44e52", "#27a9c4", "#6b8e23", "#d14fa0")  # for ways not known here, in turn
BAR, GAP = 0.145, 0.8  # inches of a bar, and bars between two jobs


def speed(result: dict[str, Any]) -> Figure:
    """A bar a way from the limit (1) to its ratio, with its quartiles; the jobs that somebody else's code does too.

    As in the short table: the half layout, [B, H, T, D].

    Args:
        result: the content of a result file of `ropewalk bench`, with at least one such job.
    """
    jobs = [(job, _ways(job)) for job in result["jobs"] if job["layout"] != "interleaved" and job["axes"] == "bhtd"]
    jobs = [(job, ways) for job, ways in jobs if len(ways) > 1]
    colours = _colours(way["name"] for _, ways in jobs for way in ways)
    rows = sum(len(ways) + GAP for _, ways in jobs)
    drawn, (ax,) = figure(9.0, rows * BAR + 1.6)
    ax.set_xscale("log")
    at, middles = 0.0, []
    for _, ways in jobs:
        middles.append(at + (len(ways) - 1) / 2)
        for way in ways:
            _bar(ax, at, way, colours[way["name"]])
            at += 1
        at += GAP
    values = [way[key] for _, ways in jobs for way in ways for key in ("ratio", "low", "high")]
    ax.set_xlim(min(0.5, *values) * 0.9, max(2.0, *values) * 1.3)
    ax.set_ylim(at - GAP - 0.2, -0.8)
    _dress(ax, result)
    ax.set_yticks(middles, [f"{job['job']}\n{job['dtype']}" for job, _ in jobs], fontsize=9)
    handles = [Patch(color=colour, label=name) for name, colour in colours.items()]
    drawn.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return drawn


def _ways(job: dict[str, Any]) -> list[dict[str, Any]]:
    """Ours first, then other people's, fastest first; without our own code's slower form."""
    ours = [way for way in job["ways"] if way["name"] == OURS]
    return ours + [way for way in job["ways"] if not way["name"].startswith(OURS)]


def _colours(names: Any) -> dict[str, str]:
    spare = itertools.cycle(SPARE)
    return {name: COLOURS.get(name) or next(spare) for name in dict.fromkeys(names)}


def _bar(ax: Axes, at: float, way: dict[str, Any], colour: str) -> None:
    ratio, low, high = way["ratio"], way["low"], way["high"]
    whiskers = [[max(ratio - low, 0.0)], [max(high - ratio, 0.0)]]  # a median of ratios is not the ratio of medians
    ax.barh(
        at, ratio - 1, left=1, height=0.86, color=colour  , zorder=2,
        xerr=whiskers, error_kw={"elinewidth": 0.8, "ecolor": "#333333"},
    )  # fmt: skip
    end = max(ratio, high, 1.0)
    weight = "bold" if way["name"] == OURS else "normal"
    ax.annotate(
        f"{ratio:.2f}", (end, at), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8, fontweight=weight
    )


def _dress(ax: Axes, result: dict[str, Any]) -> None:
    ticks: list[float] = [2.0**n for n in range(-6, 8)]
    low, high = ax.get_xlim()
    ticks = [tick for tick in ticks if low <= tick <= high]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.grid(visible=False, axis="y")
    ax.tick_params(axis="y", length=0)
    ax.axvline(1, color="#1a1a1a", linewidth=1.2, zorder=3)
    where = result.get("gpu") or f"{result['cpu']}, {result['threads']} thread" + "s" * (result["threads"] > 1)
    ax.set(xlabel="time over the limit, which is 1: a copy of q and k, or causal attention (less is better)")
    ax.set_title(f"Speed on {where}", loc="left", fontweight="bold")
