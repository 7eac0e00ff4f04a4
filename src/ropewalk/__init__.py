"""Position encodings of Transformers, and the tool that walks a model's context out to a longer length."""

from importlib import import_module
from typing import TYPE_CHECKING

from ropewalk import functional as functional
from ropewalk import positions as positions
from ropewalk._errors import RopewalkError as RopewalkError
from ropewalk.attention import attend as attend
from ropewalk.attention import attend_sharded as attend_sharded
from ropewalk.modules import ALiBi as ALiBi
from ropewalk.modules import Axial as Axial
from ropewalk.modules import CoPE as CoPE
from ropewalk.modules import DistanceBias as DistanceBias
from ropewalk.modules import DualChunk as DualChunk
from ropewalk.modules import Encoding as Encoding
from ropewalk.modules import Fire as Fire
from ropewalk.modules import Kerple as Kerple
from ropewalk.modules import Learned as Learned
from ropewalk.modules import MRoPE as MRoPE
from ropewalk.modules import NoPE as NoPE
from ropewalk.modules import Rotary as Rotary
from ropewalk.modules import Sandwich as Sandwich
from ropewalk.modules import SelfExtend as SelfExtend
from ropewalk.modules import Shaw as Shaw
from ropewalk.modules import Sinusoidal as Sinusoidal
from ropewalk.modules import T5Bias as T5Bias
from ropewalk.modules import TransformerXL as TransformerXL
from ropewalk.modules import XPos as XPos
from ropewalk.modules import for_heads as for_heads
from ropewalk.scaling import NTK as NTK
from ropewalk.scaling import DynamicLinear as DynamicLinear
from ropewalk.scaling import DynamicNTK as DynamicNTK
from ropewalk.scaling import DynamicYaRN as DynamicYaRN
from ropewalk.scaling import Linear as Linear
from ropewalk.scaling import Llama3 as Llama3
from ropewalk.scaling import LongRoPE as LongRoPE
from ropewalk.scaling import MrRoPE as MrRoPE
from ropewalk.scaling import NTKCritical as NTKCritical
from ropewalk.scaling import Proportional as Proportional
from ropewalk.scaling import Scaled as Scaled
from ropewalk.scaling import Tempered as Tempered
from ropewalk.scaling import YaRN as YaRN

__version__ = "0.1.0"

# What reads checkpoints is imported when it is first asked for: it takes as long as all the rest.
if TYPE_CHECKING:
    from ropewalk import checkpoints as checkpoints
    from ropewalk import models as models
    from ropewalk.checkpoints.config import from_config as from_config
    from ropewalk.checkpoints.convert import convert as convert
    from ropewalk.checkpoints.detect import DetectedLayout as DetectedLayout
    from ropewalk.checkpoints.detect import detect_layout as detect_layout
    from ropewalk.checkpoints.kernel_patch import patch as patch
else:  # hidden from type checkers, for which a module with a __getattr__ has every name
    _LATER = {
        "checkpoints": "ropewalk.checkpoints",
        "models": "ropewalk.models",
        "from_config": "ropewalk.checkpoints.config",
        "convert": "ropewalk.checkpoints.convert",
        "DetectedLayout": "ropewalk.checkpoints.detect",
        "detect_layout": "ropewalk.checkpoints.detect",
        "patch": "ropewalk.checkpoints.kernel_patch",
    }

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = import_module(_LATER[name])
        globals()[name] = found = getattr(module, name, module)  # the module itself, where that is what has the name
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LATER})
