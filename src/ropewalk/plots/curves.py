"""A result in one picture: loss against position and reading against distance, every method on the same tokens."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ropewalk.plots.style import figure, line_style

CEILING = 1.0  # nats of excess: past it a method is lost, and drawing it to scale would flatten the others
READS = 1.0  # nats of gain from which a copy counts as read


def curves(report: dict[str, Any]) -> Figure:
    """Perplexity and excess over crop by position, and where reading was measured, the gain of a copy by distance.

    Args:
        report: the content of report.json.
    """
    read = any(method["reading"] for method in report["methods"])
    drawn, axes = figure(9.0, 11.0 if read else 7.5, rows=3 if read else 2)
    _perplexity(axes[0], report)
    _excess(axes[1], report)
    if read:
        _reading(axes[2], report)
    title = f"{report['model']}: {report['native_length']:,} to {report['target_length']:,} tokens"
    axes[0].set_title(title, loc="left", fontweight="bold")
    for ax in axes:
        _mark_native(ax, report["native_length"])
    return drawn


def _perplexity(ax: Axes, report: dict[str, Any]) -> None:
    """On a scale that crop sets: what lies far above it leaves the picture."""
    crop = next(m for m in report["methods"] if m["method"] == "crop")
    top = 3 * max(bucket["perplexity"] for bucket in crop["buckets"])
    for method in report["methods"]:
        values = [bucket["perplexity"] for bucket in method["buckets"]]
        away = " (off the scale)" if min(values) > top else ""
        ax.plot(_middles(method), values, label=method["method"] + away, **line_style(method["method"]))
    ax.set(ylabel="perplexity", xlabel="position", ylim=(None, top))
    ax.legend(frameon=False, fontsize=8, ncols=4, loc="upper right")


def _excess(ax: Axes, report: dict[str, Any]) -> None:
    for method in report["methods"]:
        excess = np.minimum([bucket["excess"] for bucket in method["buckets"]], CEILING)
        ax.plot(_middles(method), excess, **line_style(method["method"]))
    ax.axhspan(0, report["tolerance"], color="#2e8b57", alpha=0.12, linewidth=0)
    ax.annotate("tolerance", (0.005, report["tolerance"]), xycoords=("axes fraction", "data"), fontsize=8, va="bottom")
    ax.set(xlabel="position", ylabel="loss above crop's, nats a token", ylim=(None, CEILING * 1.02))


def _reading(ax: Axes, report: dict[str, Any]) -> None:
    for method in report["methods"]:
        distances = [reading["distance"] for reading in method["reading"]]
        gains = [reading["gain"] for reading in method["reading"]]
        ax.plot(distances, gains, marker=".", **line_style(method["method"]))
    ax.axhline(READS, color="#444444", linewidth=0.8, linestyle=":")
    ax.annotate("reads from here up", (0.005, READS), xycoords=("axes fraction", "data"), fontsize=8, va="bottom")
    ax.set(xlabel="distance to the original", ylabel="gain of a copy, nats a token", xlim=(0, report["target_length"]))


def _middles(method: dict[str, Any]) -> list[float]:
    return [(bucket["start"] + bucket["end"]) / 2 for bucket in method["buckets"]]


def _mark_native(ax: Axes, native: int) -> None:
    ax.axvline(native, color="#444444", linewidth=0.8, linestyle=":")
    ax.annotate(
        "native length",
        (native, 0.93),
        xycoords=("data", "axes fraction"),
        fontsize=8,
        ha="right",
        rotation=90,
        va="top",
    )
