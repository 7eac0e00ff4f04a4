"""The same small decoder trained with each encoding, and read past its training length."""

from ropewalk.compare.contestants import CONTESTANTS as CONTESTANTS
from ropewalk.compare.protocol import Protocol as Protocol
from ropewalk.compare.run import compare as compare
