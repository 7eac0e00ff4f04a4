"""nn.Module shells over `functional`, one an encoding."""

from ropewalk.modules.alibi import ALiBi as ALiBi
from ropewalk.modules.cope import CoPE as CoPE
from ropewalk.modules.encoding import DistanceBias as DistanceBias
from ropewalk.modules.encoding import Encoding as Encoding
from ropewalk.modules.fire import Fire as Fire
from ropewalk.modules.grids import Axial as Axial
from ropewalk.modules.heads import for_heads as for_heads
from ropewalk.modules.kerple import Kerple as Kerple
from ropewalk.modules.learned import Learned as Learned
from ropewalk.modules.mrope import MRoPE as MRoPE
from ropewalk.modules.nope import NoPE as NoPE
from ropewalk.modules.remapped import DualChunk as DualChunk
from ropewalk.modules.remapped import SelfExtend as SelfExtend
from ropewalk.modules.rotary import Rotary as Rotary
from ropewalk.modules.sandwich import Sandwich as Sandwich
from ropewalk.modules.shaw import Shaw as Shaw
from ropewalk.modules.sinusoidal import Sinusoidal as Sinusoidal
from ropewalk.modules.t5 import T5Bias as T5Bias
from ropewalk.modules.transformer_xl import TransformerXL as TransformerXL
from ropewalk.modules.xpos import XPos as XPos
