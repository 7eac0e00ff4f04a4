"""Oracles for whoever tests an encoding: slow, plain, and sharing no code with what they check."""

from ropewalk.testing.attention import attend_densely as attend_densely
from ropewalk.testing.rotary import rotate_complex as rotate_complex
from ropewalk.testing.rotary import rotation_matrix as rotation_matrix
