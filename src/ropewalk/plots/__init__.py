"""Arrays in, matplotlib figures out; nothing here writes a file or imports torch."""

from ropewalk.plots.biases import biases as biases
from ropewalk.plots.comparison import comparison as comparison
from ropewalk.plots.curves import curves as curves
from ropewalk.plots.grid import grid as grid
from ropewalk.plots.rotation import rotation as rotation
from ropewalk.plots.score import score as score
from ropewalk.plots.shuffle import shuffle as shuffle
from ropewalk.plots.spectrum import spectrum as spectrum
from ropewalk.plots.speed import speed as speed
from ropewalk.plots.waves import waves as waves
