"""Context extension: each method is a frozen dataclass of its parameters with one pure function, `apply`."""

from ropewalk.scaling._base import Scaled as Scaled
from ropewalk.scaling._base import Scaling as Scaling
from ropewalk.scaling.dynamic_yarn import DynamicYaRN as DynamicYaRN
from ropewalk.scaling.linear import DynamicLinear as DynamicLinear
from ropewalk.scaling.linear import Linear as Linear
from ropewalk.scaling.llama3 import Llama3 as Llama3
from ropewalk.scaling.longrope import LongRoPE as LongRoPE
from ropewalk.scaling.mrrope import MrRoPE as MrRoPE
from ropewalk.scaling.ntk import NTK as NTK
from ropewalk.scaling.ntk import DynamicNTK as DynamicNTK
from ropewalk.scaling.ntk import NTKCritical as NTKCritical
from ropewalk.scaling.proportional import Proportional as Proportional
from ropewalk.scaling.tempered import Tempered as Tempered
from ropewalk.scaling.yarn import YaRN as YaRN
