"""One pair of a query and of a key, turned in its plane."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from numpy.typing import NDArray

from ropewalk.plots.style import figure


def rotation(
    arrows: dict[str, tuple[NDArray[np.floating], str, str]], scores: NDArray[np.floating], at: tuple[int, int]
) -> Figure:
    """Arrows in the plane, and the score of every query and key position.

    Args:
        arrows: for each name its end [2], colour and dashes.
        scores: [query positions, key positions].
        at: the query's and the key's position.
    """
    drawn, (plane, table) = figure(6.0, 11.0, rows=2)
    plane.add_patch(Circle((0, 0), 1, fill=False, color="#b4bac2"))
    for name, ((x, y), colour, dashes) in arrows.items():
        plane.plot([0, x], [0, y], color=colour, linestyle=dashes, label=name)
        plane.plot([x], [y], color=colour, marker="o")
    plane.set(xlim=(-1.15, 1.15), ylim=(-1.15, 1.15), aspect="equal", title="One pair, turned by its position")
    plane.legend(frameon=False, loc="lower right", fontsize=8)
    most = float(np.abs(scores).max())
    image = table.imshow(scores, cmap="RdBu_r", vmin=-most, vmax=most, interpolation="nearest")
    table.plot([at[1]], [at[0]], color="#1a1a1a", marker="o", markersize=8)
    table.grid(visible=False)
    table.set(xlabel="n", ylabel="m", title="The score depends on n - m alone")
    drawn.colorbar(image, ax=table, label="score", pad=0.02)
    return drawn
