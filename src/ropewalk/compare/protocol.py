"""What is held equal for every encoding: sizes, data, budget."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from ropewalk._checks import number, whole
from ropewalk._errors import RopewalkError
from ropewalk.measure.verdict import TOLERANCE

TIMES = (1.0, 1.5, 2.0, 4.0, 8.0, 16.0)  # lengths at which bits are given, in training lengths


@dataclass(frozen=True)
class Protocol:
    """The model, the training and the measuring that all encodings share.

    The defaults are small enough for two cores and long enough that the order shows: a model that has not learnt to
    use position cannot fail on it.

    Attributes:
        length: training length, bytes.
        reach: how many training lengths are read.
        dim, layers, heads: of `rw.models.Decoder`.
        batch, steps, rate: rows a step, steps, AdamW's peak learning rate (warm-up 100 steps, then a cosine).
        copies: share of rows that are an unguessable string said over and over, so that copying can be measured.
        stretches: stretches of held-out text of reach x length bytes.

    Raises:
        RopewalkError: a size that is no whole number of its kind; heads that do not divide the width.
    """

    length: int = 64
    reach: int = 16
    dim: int = 64
    layers: int = 2
    heads: int = 4
    batch: int = 32
    steps: int = 2000
    rate: float = 4e-3
    copies: float = 0.25
    stretches: int = 64

    def __post_init__(self) -> None:
        for name, least in (("length", 16), ("reach", 2), ("dim", 8), ("layers", 1), ("heads", 1), ("batch", 1),
                            ("steps", 1), ("stretches", 1)):  # fmt: skip
            whole("Protocol", name, getattr(self, name), least=least)
        number("Protocol", "rate", self.rate, least=0, above=True)
        if not 0 <= number("Protocol", "copies", self.copies, least=0) < 1:
            raise RopewalkError(f"Protocol: copies={self.copies!r} is not a share from 0 to below 1")
        if self.dim % self.heads or self.head_dim % 2:
            raise RopewalkError(f"Protocol: {self.heads} heads do not divide dim={self.dim} into even widths")

    @property
    def head_dim(self) -> int:
        """Features of a head."""
        return self.dim // self.heads

    @property
    def longest(self) -> int:
        """Bytes in the longest text that is read."""
        return self.length * self.reach

    @property
    def lengths(self) -> dict[float, int]:
        """Times -> bytes, as far as the reach goes."""
        return {times: int(times * self.length) for times in TIMES if times <= self.reach}

    def to_dict(self) -> dict[str, Any]:
        """As the result holds it."""
        return {**asdict(self), "tolerance_bits": round(TOLERANCE / math.log(2), 4)}
