"""Fused kernels, and the choice among them; each is held to `functional`, which is what they compute."""

from ropewalk.kernels.rotate import rotate
from ropewalk.kernels.tables import tables

__all__ = ["rotate", "tables"]
