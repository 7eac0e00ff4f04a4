"""Attention that asks an encoding at its four doors and knows none by name."""

from ropewalk.attention.attention import Plan as Plan
from ropewalk.attention.attention import attend as attend
from ropewalk.attention.parallel import attend_sharded as attend_sharded
