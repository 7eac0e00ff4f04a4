"""Arrays in, matplotlib figures out; nothing here writes a file or imports torch."""

from ropewalk.plots.curves import curves as curves
from ropewalk.plots.grid import grid as grid
from ropewalk.plots.spectrum import spectrum as spectrum
from ropewalk.plots.speed import speed as speed
