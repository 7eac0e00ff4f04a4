"""How far each layer is from following a shuffle of its tokens."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from ropewalk.plots.style import figure


def shuffle(strays: Mapping[str, float], follows: float) -> Figure:
    """A bar a layer on a logarithmic axis; below `follows` the difference is rounding.

    Args:
        strays: for each layer the largest difference, relative to its outputs.
    """
    drawn, (ax,) = figure(8.0, 4.0)
    least = 1e-17
    colours = ["#2a6fbb" if value < follows else "#b84300" for value in strays.values()]
    bars = ax.barh(list(strays), [max(value, 2 * least) for value in strays.values()], left=least, color=colours)
    ax.bar_label(bars, [f"{value:.1e}" for value in strays.values()], padding=3)
    ax.axvline(follows, color="#444444", linestyle=":", linewidth=1)
    ax.invert_yaxis()
    ax.set(
        xscale="log", xlim=(least, 100), xlabel="f(shuffled) against shuffled f, relative", title="Shuffle the words"
    )
    return drawn
