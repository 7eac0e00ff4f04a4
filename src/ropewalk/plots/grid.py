"""The heat map of a position encoding."""

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ropewalk.plots.style import figure


def grid(encoding: NDArray[np.floating], title: str = "Sinusoidal position encoding") -> Figure:
    """Each row a position, each column a dimension, colour the value in [-1, 1].

    Args:
        encoding: [positions, dimensions].
    """
    positions, dim = encoding.shape
    drawn, (ax,) = figure(max(6.0, dim / 4), max(3.0, positions / 5))
    image = ax.imshow(encoding, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto", interpolation="nearest")
    ax.grid(visible=False)
    ax.set(xlabel="dimension", ylabel="position", title=f"{title}, {positions} positions x {dim} dimensions")
    ax.locator_params(integer=True)
    drawn.colorbar(image, ax=ax, label="value", pad=0.02)
    return drawn
