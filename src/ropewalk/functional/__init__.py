"""Pure maths: tensors in, tensors out; no modules, no config, no state."""

from ropewalk.functional.alibi import alibi_slopes as alibi_slopes
from ropewalk.functional.rotary import apply_rotary as apply_rotary
from ropewalk.functional.rotary import cos_sin as cos_sin
from ropewalk.functional.rotary import inv_freq as inv_freq
from ropewalk.functional.sandwich import sinusoidal_product as sinusoidal_product
from ropewalk.functional.sinusoidal import sinusoidal as sinusoidal
from ropewalk.functional.sinusoidal import sinusoidal_frequencies as sinusoidal_frequencies
from ropewalk.functional.sinusoidal import sinusoidal_shift as sinusoidal_shift
from ropewalk.functional.t5 import t5_bucket as t5_bucket
