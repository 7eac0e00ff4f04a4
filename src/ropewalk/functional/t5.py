"""T5's buckets of distances."""

import math
from functools import lru_cache

import torch
from torch import Tensor

from ropewalk._checks import whole
from ropewalk._errors import RopewalkError
from ropewalk.functional.rotary import check_positions


def t5_bucket(relative: Tensor, *, buckets: int = 32, max_distance: int = 128, bidirectional: bool = False) -> Tensor:
    """The bucket of each distance: near ones have their own, far ones share in logarithmic steps.

    Args:
        relative: key position - query position, integers of any shape: the past is negative, as in T5.
        buckets: how many there are in all; half of them serve the future when bidirectional.
        max_distance: from here on all distances share the last bucket.
        bidirectional: tell the future from the past (encoders); otherwise the future counts as distance 0.

    Returns:
        int64, shaped like `relative`, in 0 .. buckets - 1.

    Raises:
        RopewalkError: too few buckets, an odd number of them when bidirectional, a max_distance that is not beyond
            the distances with buckets of their own.

    Example:
        >>> t5_bucket(torch.tensor([0, -1, -15, -16, -127, -1000])).tolist()
        [0, 1, 15, 16, 31, 31]

    Source: Raffel et al. 2019 (arXiv 1910.10683), section 2.1; mesh-tensorflow `_relative_position_bucket`. The borders
    are found once, by the reference's float32 logarithm, and looked up as integers: the same on every device.
    """
    check_positions(relative)
    relative = relative.long()  # the sign and the absolute value of a small dtype may have no place in it
    side = whole("t5_bucket", "buckets", buckets, least=4 if bidirectional else 2)
    if bidirectional:
        if side % 2:
            raise RopewalkError(
                f"t5_bucket: buckets={buckets} is odd; bidirectional buckets are half past, half future"
            )
        side //= 2
    own = side // 2
    whole("t5_bucket", "max_distance", max_distance, least=own + 1)
    distance = relative.abs() if bidirectional else (-relative).clamp(min=0)
    borders = _borders(side, own, max_distance).to(relative.device)
    bucket = torch.bucketize(distance, borders, right=True)
    return bucket + side * (relative > 0) if bidirectional else bucket


def _borders(side: int, own: int, max_distance: int) -> Tensor:
    """The first distance of each bucket but the first, int64 on the CPU; a constant to who compiles."""
    return torch.tensor(_found_borders(side, own, max_distance), dtype=torch.int64, device="cpu")


# What torch.compiler.assume_constant_result does; the decorator itself imports the compiler, most of a second.
_borders._dynamo_marked_constant = True  # type: ignore[attr-defined]


@lru_cache(maxsize=64)
def _found_borders(side: int, own: int, max_distance: int) -> tuple[int, ...]:
    """Ascending; empty buckets repeat the next one's."""
    distances = torch.arange(own, max_distance + 1, device="cpu")
    steps = torch.log(distances.float() / own) / math.log(max_distance / own)
    shared = (own + (steps * (side - own)).long()).clamp(max=side - 1)
    starts = torch.searchsorted(shared, torch.arange(own + 1, side, device="cpu")) + own
    return (*range(1, own + 1), *starts.tolist())
