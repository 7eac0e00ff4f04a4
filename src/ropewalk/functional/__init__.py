"""Pure maths: tensors in, tensors out; no modules, no config, no state."""

from ropewalk.functional.rotary import apply_rotary as apply_rotary
from ropewalk.functional.rotary import cos_sin as cos_sin
from ropewalk.functional.rotary import inv_freq as inv_freq
from ropewalk.functional.sinusoidal import sinusoidal as sinusoidal
