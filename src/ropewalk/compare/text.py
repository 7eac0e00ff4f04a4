"""Bytes to learn from, bytes to be measured on, and what an n-gram makes of them."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ropewalk._errors import RopewalkError

BACKING = 5.0  # what single bytes weigh against a pair that was seen as often


@dataclass(frozen=True)
class Text:
    """Training text and held-out text, as bytes.

    Attributes:
        train, held_out: int64 [bytes], 0 to 255.
        names: of the files, the training ones first.
        digest: of everything, so that a run is not resumed on other text.
    """

    train: Tensor
    held_out: Tensor
    names: tuple[tuple[str, ...], tuple[str, ...]]
    digest: str

    @classmethod
    def read(cls, train: Sequence[Path], held_out: Sequence[Path], least: int) -> "Text":
        """The files, one after the other.

        Raises:
            RopewalkError: a file that cannot be read, too little text, or held-out text that was learnt from.
        """
        learnt, held = b"\n\n".join(map(_bytes, train)), b"\n\n".join(map(_bytes, held_out))
        for name, text in (("training", learnt), ("held-out", held)):
            if len(text) < least:
                raise RopewalkError(f"compare: {len(text)} bytes of {name} text; at least {least} are needed")
        middle = held[len(held) // 2 :][:200]
        if middle in learnt:
            raise RopewalkError("compare: the held-out text stands in the training text; give other files")
        names = tuple(path.name for path in train), tuple(path.name for path in held_out)
        return cls(_tensor(learnt), _tensor(held), names, hashlib.sha256(learnt + b"\0" + held).hexdigest())

    def to_dict(self) -> dict[str, Any]:
        """As the result holds it."""
        unigram, bigram = ngram_bits(self.train.numpy(), self.held_out.numpy())
        return {
            "train": list(self.names[0]), "held_out": list(self.names[1]), "train_bytes": len(self.train),
            "held_out_bytes": len(self.held_out), "unigram_bits": unigram, "bigram_bits": bigram,
        }  # fmt: skip


def ngram_bits(train: NDArray[np.int64], held_out: NDArray[np.int64]) -> tuple[float, float]:
    """Bits per held-out byte under the counts of single bytes and of pairs, both smoothed.

    p(b) = (n(b) + 1) / (N + 256), p(b | a) = (n(ab) + 5 p(b)) / (n(a) + 5): an interpolation with the shorter context.
    """
    single = (np.bincount(train, minlength=256) + 1) / (len(train) + 256)
    pairs = np.bincount(train[:-1] * 256 + train[1:], minlength=65_536).reshape(256, 256)
    after = (pairs + BACKING * single) / (pairs.sum(1, keepdims=True) + BACKING)
    bits = -np.log(single[held_out]).mean(), -np.log(after[held_out[:-1], held_out[1:]]).mean()
    return float(bits[0] / math.log(2)), float(bits[1] / math.log(2))


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RopewalkError(f"compare: {path} cannot be read: {error.strerror}") from error


def _tensor(text: bytes) -> Tensor:
    return torch.from_numpy(np.frombuffer(text, dtype=np.uint8).astype(np.int64))
