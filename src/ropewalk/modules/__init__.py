"""nn.Module shells over `functional`."""

from ropewalk.modules.rotary import Rotary as Rotary
