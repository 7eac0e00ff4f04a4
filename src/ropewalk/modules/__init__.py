"""nn.Module shells over `functional`, one an encoding."""

from ropewalk.modules.alibi import ALiBi as ALiBi
from ropewalk.modules.encoding import DistanceBias as DistanceBias
from ropewalk.modules.encoding import Encoding as Encoding
from ropewalk.modules.grids import Axial as Axial
from ropewalk.modules.learned import Learned as Learned
from ropewalk.modules.mrope import MRoPE as MRoPE
from ropewalk.modules.nope import NoPE as NoPE
from ropewalk.modules.rotary import Rotary as Rotary
from ropewalk.modules.shaw import Shaw as Shaw
from ropewalk.modules.sinusoidal import Sinusoidal as Sinusoidal
from ropewalk.modules.t5 import T5Bias as T5Bias
from ropewalk.modules.xpos import XPos as XPos
