"""A small Transformer that takes any encoding, and checkpoints read into it."""

from ropewalk.models.cache import Cache as Cache
from ropewalk.models.decoder import Decoder as Decoder
from ropewalk.models.load import load as load
