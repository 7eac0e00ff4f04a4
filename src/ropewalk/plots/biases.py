"""Biases of the distance as matrices."""

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ropewalk.plots.style import figure


def biases(matrices: dict[str, tuple[NDArray[np.floating], str]]) -> Figure:
    """A matrix below the other, a row a query and a column a key.

    Args:
        matrices: for each title its values [T, S], -inf where a query does not look, and what they are.
    """
    drawn, axes = figure(6.0, 5.0 * len(matrices), rows=len(matrices))
    for ax, (title, (values, label)) in zip(axes, matrices.items(), strict=True):
        image = ax.imshow(np.where(np.isfinite(values), values, np.nan), cmap="Blues", interpolation="nearest")
        ax.grid(visible=False)
        ax.set(xlabel="key position", ylabel="query position", title=title)
        drawn.colorbar(image, ax=ax, label=label, pad=0.02)
    return drawn
