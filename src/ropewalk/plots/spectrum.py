"""The rotary spectrum: how long each pair takes to turn once."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ropewalk.plots.style import figure, line_style


def spectrum(inv_freq: Mapping[str, NDArray[np.floating]], native: int, target: int | None = None) -> Figure:
    """The wavelength of each pair, 2 pi / inv_freq, before ("native") and after each method.

    A pair above the native line never finished a turn in training: positions past the native length bring it
    to angles that the model has not seen.

    Args:
        inv_freq: for each name, [P] radians a token.
        native: the trained length, tokens.
        target: the length to be reached, tokens.
    """
    drawn, (ax,) = figure(9.0, 5.0)
    for name, values in inv_freq.items():
        turning = values > 0
        ax.plot(
            np.flatnonzero(turning),
            2 * np.pi / values[turning],
            label=name,
            marker=".",
            markersize=4,
            **line_style(name),
        )
    for length, label in ((native, "native"), (target, "target")):
        if length:
            ax.axhline(length, color="#444444", linewidth=0.8, linestyle=":")
            ax.annotate(
                f"{label} length, {length:,}", (0, length), xytext=(2, 3), textcoords="offset points", fontsize=8
            )
    ax.set_yscale("log")
    ax.set(xlabel="pair", ylabel="wavelength, tokens a turn", title="Rotary spectrum")
    ax.legend(frameon=False, fontsize=8)
    return drawn
