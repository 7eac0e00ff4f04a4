import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ropewalk import RopewalkError, positions


@given(real=st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=3))
def test_a_mask_counts_the_real_tokens(real):
    found = positions.from_attention_mask(torch.tensor(real))
    for row, places in zip(real, found.tolist(), strict=True):
        assert [p for p, is_real in zip(places, row, strict=True) if is_real] == list(range(sum(row)))
        assert all(p == 0 for p, is_real in zip(places, row, strict=True) if not is_real)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.int32, torch.uint8])
def test_masks_of_any_integer_dtype(dtype):
    mask = torch.tensor([[0, 1, 1]]).to(dtype)
    assert positions.from_attention_mask(mask).tolist() == [[0, 0, 1]]


@given(sizes=st.lists(st.integers(0, 5), min_size=1, max_size=5))
def test_packed_documents_count_from_zero(sizes):
    cu = torch.tensor([0, *sizes]).cumsum(0)
    assert positions.from_cu_seqlens(cu).tolist() == [p for size in sizes for p in range(size)]
    assert positions.documents(cu).tolist() == [n for n, size in enumerate(sizes) for _ in range(size)]
    assert torch.equal(positions.from_cu_seqlens(cu.int()), positions.from_cu_seqlens(cu))


@given(world=st.integers(1, 5), size=st.integers(0, 4), zigzag=st.booleans())
def test_shards_are_a_partition(world, size, zigzag):
    length = 2 * world * size
    shards = [positions.context_parallel(length, rank, world, zigzag=zigzag) for rank in range(world)]
    assert torch.equal(torch.cat(shards).sort().values, torch.arange(length))
    assert len({len(shard) for shard in shards}) == 1
    if zigzag:  # even causal work: rank r's two chunks mirror each other
        assert all(torch.equal(shard, length - 1 - shard.flip(0)) for shard in shards)


def test_packed_documents_cut_over_devices():
    """Two documents of four, each cut in the zigzag of two devices: tokens 0, 3 and 4, 7 for the first."""
    cu = torch.tensor([0, 4, 8])
    tokens = torch.cat([start + positions.context_parallel(4, rank=0, world=2) for start in (0, 4)])
    assert tokens.tolist() == [0, 3, 4, 7]
    assert positions.from_cu_seqlens(cu)[tokens].tolist() == [0, 3, 0, 3]


@pytest.mark.parametrize(("call", "message"), [
    (lambda: positions.from_attention_mask(torch.ones(1, 3)), "torch.float32"),
    (lambda: positions.from_attention_mask(torch.ones(3, dtype=torch.bool)), r"\(3,\)"),
    (lambda: positions.from_cu_seqlens(torch.tensor([1, 3])), "cu_seqlens"),
    (lambda: positions.from_cu_seqlens(torch.tensor([0, 3, 2])), "cu_seqlens"),
    (lambda: positions.from_cu_seqlens(torch.tensor([0, 3, 2], dtype=torch.uint8)), "cu_seqlens"),
    (lambda: positions.documents(torch.tensor([0.0, 3.0])), "cu_seqlens"),
    (lambda: positions.context_parallel(6, 0, 2), "length=6 does not divide into 4 chunks"),
    (lambda: positions.context_parallel(8, 2, 2), "rank=2"),
    (lambda: positions.arange(-1), "length=-1"),
])  # fmt: skip
def test_refusals(call, message):
    with pytest.raises(RopewalkError, match=message):
        call()
