"""The figures hold the numbers that they were given."""

import json
from pathlib import Path

import numpy as np
from matplotlib.patches import Rectangle

from ropewalk import positions
from ropewalk.functional import inv_freq, sinusoidal, sinusoidal_shift
from ropewalk.plots import biases, grid, rotation, score, shuffle, spectrum, speed, waves


def test_grid_shows_the_encoding():
    encoding = sinusoidal(positions.arange(20), 32).numpy()
    (image,) = grid(encoding).axes[0].images
    np.testing.assert_array_equal(image.get_array(), encoding)
    assert image.get_clim() == (-1, 1)


def test_spectrum_shows_wavelengths_and_leaves_stopped_pairs_out():
    plain = inv_freq(64, 10_000.0).numpy()
    stopped = np.where(np.arange(32) < 8, plain, 0.0)
    lines = {line.get_label(): line for line in spectrum({"native": plain, "p": stopped}, 4096, 16384).axes[0].lines}
    np.testing.assert_allclose(lines["native"].get_ydata(), 2 * np.pi / plain)
    assert list(lines["p"].get_xdata()) == list(range(8))


def test_waves_show_the_table_and_the_matrix():
    table, shift = sinusoidal(positions.arange(30), 8).numpy(), sinusoidal_shift(3, 8).numpy()
    ax, below, _ = waves(table, shift, 1, 3).axes
    lines = {line.get_label(): line.get_ydata() for line in ax.lines}
    np.testing.assert_array_equal(lines["sin, pair 1"], table[:, 2])
    np.testing.assert_array_equal(lines["cos, pair 1"], table[:, 3])
    np.testing.assert_array_equal(below.images[0].get_array(), shift)


def test_a_rotation_shows_its_arrows_and_scores():
    scores = np.arange(9.0).reshape(3, 3)
    plane, table, _ = rotation({"q": (np.array([0.6, 0.8]), "red", "-")}, scores, (2, 1)).axes
    np.testing.assert_array_equal(plane.lines[0].get_xydata(), [[0, 0], [0.6, 0.8]])
    np.testing.assert_array_equal(table.images[0].get_array(), scores)
    np.testing.assert_array_equal(table.lines[0].get_xydata(), [[1, 2]])


def test_scores_biases_and_shuffles_show_their_numbers():
    far = np.arange(4)
    (ax,) = score(far, {"one": far / 4, "other": far / 8}, (far - 1.0, far + 1.0)).axes
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), far / 8)
    matrix = np.array([[0.0, -np.inf], [-1.0, 0.0]])
    image = biases({"a": (matrix, "bias"), "b": (matrix, "bias")}).axes[0].images[0].get_array()
    assert image.tolist() == [[0.0, None], [-1.0, 0.0]]
    texts = [text.get_text() for text in shuffle({"attention": 0.0, "rnn": 0.5}, 1e-9).axes[0].texts]
    assert texts == ["0.0e+00", "5.0e-01"]


def test_speed_shows_every_ratio_of_ours_and_of_others():
    def job(name, ways, layout="half", axes="bhtd"):
        ways = [{"name": way, "ratio": ratio, "low": ratio * 0.9, "high": ratio * 1.2} for way, ratio in ways]
        return {"job": name, "dtype": "float32", "layout": layout, "axes": axes, "ways": ways}

    jobs = [
        job("turn", [("somebody", 0.5), ("ropewalk", 1.1), ("ropewalk, torch's operators", 9.0), ("nobody", 3.25)]),
        job("attend", [("ropewalk", 2.0), ("somebody", 4.0)], layout="-"),
        job("alone", [("ropewalk", 7.0)]),
        job("left out", [("ropewalk", 7.0), ("somebody", 8.0)], layout="interleaved"),
    ]
    drawn = speed({"cpu": "a CPU", "threads": 2, "jobs": jobs})
    (ax,), (legend,) = drawn.axes, drawn.legends
    bars = [bar for bar in ax.patches if isinstance(bar, Rectangle)]
    np.testing.assert_allclose([1 + bar.get_width() for bar in bars], [1.1, 0.5, 3.25, 2.0, 4.0])
    assert [text.get_text() for text in ax.texts] == ["1.10", "0.50", "3.25", "2.00", "4.00"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["turn\nfloat32", "attend\nfloat32"]
    colours = dict(
        zip([t.get_text() for t in legend.get_texts()], [h.get_facecolor() for h in legend.get_patches()], strict=True)
    )
    assert list(colours) == ["ropewalk", "somebody", "nobody"]
    named = ["ropewalk", "somebody", "nobody", "ropewalk", "somebody"]
    assert [bar.get_facecolor() for bar in bars] == [colours[name] for name in named]
    assert len(set(colours.values())) == 3
    assert ax.get_title(loc="left") == "Speed on a CPU, 2 threads"


def test_the_drawn_speed_is_the_landed_result():
    """Its numbers in their order, as the picture of README holds them: `make figures` after a new result."""
    root = Path(__file__).parents[2]
    result = json.loads((root / "benchmarks/results/speed-cpu.json").read_text())
    picture = (root / "docs/speed.svg").read_text()
    at = 0
    for text in speed(result).axes[0].texts:
        at = picture.index(f">{text.get_text()}</text>", at) + 1
