"""The figures hold the numbers that they were given."""

import numpy as np

from ropewalk import positions
from ropewalk.functional import inv_freq, sinusoidal
from ropewalk.plots import grid, spectrum


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
