"""The sinusoids as waves over positions."""

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ropewalk.plots.style import figure


def waves(encoding: NDArray[np.floating], shift: NDArray[np.floating], pair: int, offset: int) -> Figure:
    """Sine and cosine of one pair before the other sines, and the matrix that moves every position by `offset`.

    Args:
        encoding: [positions, dimensions], sines and cosines in turn.
        shift: [dimensions, dimensions].
    """
    drawn, (ax, below) = figure(9.0, 9.0, rows=2)
    ax.plot(encoding[:, 0::2], color="#b4bac2", linewidth=0.7)
    ax.plot(encoding[:, 2 * pair], color="#2a6fbb", linewidth=2.2, label=f"sin, pair {pair}")
    ax.plot(encoding[:, 2 * pair + 1], color="#b84300", linewidth=2.2, linestyle="--", label=f"cos, pair {pair}")
    ax.set(xlabel="position", ylabel="value", title=f"Waves of {encoding.shape[1]} dimensions")
    ax.legend(frameon=False, loc="upper right")
    image = below.imshow(shift, cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest")
    below.grid(visible=False)
    below.set(xlabel="dimension", ylabel="dimension", title=f"PE(p + {offset}) = M PE(p): M")
    drawn.colorbar(image, ax=below, label="value", pad=0.02)
    return drawn
