"""Checks of the encodings at the bias door: ALiBi and T5."""

from bisect import bisect_right

import torch

from ropewalk.functional import alibi_slopes, t5_bucket
from ropewalk.modules import ALiBi
from ropewalk.verify.check import Check
from ropewalk.verify.samples import apart, worst

# The first distance of each bucket, of 32 up to 128: one direction, and the past of two.
ONE_WAY = (*range(16), 16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113)
TWO_WAY = (*range(8), 8, 12, 16, 23, 32, 46, 64, 91)


def slopes() -> float:
    """Of 8 heads, against powers of one half."""
    halves = torch.tensor([1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256])
    return apart(alibi_slopes(8), halves)


def linear() -> float:
    """The bias of near and far keys against slope x distance, head by head."""
    distances = torch.tensor([0, 1, 2, 3, 100, 255, 256, 257, 511, 2049, 65_537, 1_000_001])
    query = torch.tensor([3_000_000])
    bias = ALiBi(8).bias(query, query - distances)[:, 0]
    return worst(apart(bias[h], -(2.0 ** -(h + 1)) * distances.double()) for h in range(8))


def bucket(relative: int, *, both: bool = False) -> int:
    """T5's bucket of key position - query position, looked up in the borders above."""
    if not both:
        return bisect_right(ONE_WAY, max(0, -relative)) - 1
    return bisect_right(TWO_WAY, abs(relative)) - 1 + 16 * (relative > 0)


def borders() -> float:
    """How many distances fall into another bucket."""
    where = torch.arange(-300, 301)
    wrong = 0
    for both in (False, True):
        expected = torch.tensor([bucket(distance, both=both) for distance in where.tolist()])
        wrong += int((t5_bucket(where, bidirectional=both) != expected).sum())
    return wrong


CHECKS = (
    Check("alibi: slopes", "8 heads have the slopes 1/2, 1/4 .. 1/256 of the paper.", "identity", 0.0, slopes),
    Check(
        "alibi: linear",
        "A key's penalty is slope times distance, even a million tokens away.",
        "identity",
        0.0,
        linear,
    ),
    Check(
        "t5: borders",
        "Distances 0 to 15 have a bucket each, then buckets begin at 16, 19, 21 .. 113; wrong buckets are counted.",
        "identity",
        0.0,
        borders,
    ),
)
