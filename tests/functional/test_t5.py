import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.models.t5.modeling_t5 import T5Attention

from ropewalk import RopewalkError
from ropewalk.functional import t5_bucket


def by_hand(relative: int, buckets: int, furthest: int, bidirectional: bool) -> int:
    """Raffel et al. 2019, section 2.1, in Python's own arithmetic."""
    first, distance = 0, max(-relative, 0)
    if bidirectional:
        buckets //= 2
        first, distance = (buckets if relative > 0 else 0), abs(relative)
    own = buckets // 2
    if distance < own:
        return first + distance
    return first + min(buckets - 1, own + int(math.log(distance / own) / math.log(furthest / own) * (buckets - own)))


@given(
    side=st.integers(2, 200), beyond=st.integers(1, 3000), bidirectional=st.booleans(),
    relative=st.lists(st.integers(-5000, 5000), min_size=1),
)  # fmt: skip
def test_equals_transformers(side, beyond, bidirectional, relative):
    buckets, where = 2 * side if bidirectional else side, torch.tensor(relative)
    furthest = side // 2 + beyond
    theirs = T5Attention._relative_position_bucket(where, bidirectional, buckets, furthest)
    ours = t5_bucket(where, buckets=buckets, max_distance=furthest, bidirectional=bidirectional)
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(("buckets", "furthest"), [(32, 128), (64, 256), (32, 512), (128, 1024), (32, 64)])
def test_equals_the_formula_in_float64(buckets, furthest, bidirectional):
    where = range(-2 * furthest, 2 * furthest)
    ours = t5_bucket(torch.tensor(where), buckets=buckets, max_distance=furthest, bidirectional=bidirectional)
    assert ours.tolist() == [by_hand(relative, buckets, furthest, bidirectional) for relative in where]


def test_borders_of_the_published_setting():
    ours = t5_bucket(-torch.arange(200))
    starts = [ours.tolist().index(bucket) for bucket in range(32)]
    assert starts == [*range(16), 16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113]
    both_ways = t5_bucket(torch.tensor([1, 8, 91, 1000, 0, -7, -8, -91]), bidirectional=True)
    assert both_ways.tolist() == [17, 24, 31, 31, 0, 7, 8, 15]


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32])
def test_small_integers(dtype):
    where = torch.arange(-100, 100).to(dtype)
    assert torch.equal(t5_bucket(where), t5_bucket(where.long()))


def test_far_beyond_any_table():
    assert t5_bucket(torch.tensor([-(2**40), 2**40]), bidirectional=True).tolist() == [15, 31]


@pytest.mark.parametrize(("change", "message"), [
    ({"buckets": 1}, "buckets=1"), ({"buckets": 2, "bidirectional": True}, "buckets=2"),
    ({"buckets": 7, "bidirectional": True}, "buckets=7 is odd"), ({"max_distance": 16}, "max_distance=16"),
    ({"max_distance": 128.5}, "max_distance=128.5"),
])  # fmt: skip
def test_refusals(change, message):
    with pytest.raises(RopewalkError, match=message):
        t5_bucket(torch.tensor([0]), **change)
