"""The rotary score against distance."""

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ropewalk.plots.style import figure


def score(
    distances: NDArray[np.integer],
    lines: dict[str, NDArray[np.floating]],
    band: tuple[NDArray[np.floating], NDArray[np.floating]],
) -> Figure:
    """A line for each kind of key, and the band of random ones.

    Args:
        distances: [R].
        lines: for each name its scores [R], divided by the lengths of query and key.
        band: the lower and the upper end, [R] each.
    """
    drawn, (ax,) = figure(9.0, 5.0)
    ax.fill_between(distances, *band, color="#8a929c", alpha=0.3, linewidth=0, label="random q and k, ± 1 deviation")
    for (name, values), colour, dashes in zip(lines.items(), ("#2a6fbb", "#006e51"), ("-", "--"), strict=True):
        ax.plot(distances, values, color=colour, linestyle=dashes, label=name)
    ax.axhline(0, color="#777777", linewidth=0.8)
    ax.set(xlabel="distance, tokens", ylabel="score / |q| |k|", title="Rotary score against distance")
    ax.legend(frameon=False)
    return drawn
