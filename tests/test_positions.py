import itertools

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


@given(
    length=st.integers(0, 30), more=st.integers(0, 50), rows=st.sampled_from([None, 0, 1, 3]), seed=st.integers(0, 99)
)
def test_random_positions_are_distinct_and_in_order(length, more, rows, seed):
    def draw() -> torch.Tensor:
        return positions.randomized(length, length + more, rows=rows, generator=torch.Generator().manual_seed(seed))

    found = draw()
    assert torch.equal(found, draw())
    assert found.dtype == torch.int64
    assert found.shape == ((length,) if rows is None else (rows, length))
    assert (found.diff(dim=-1) > 0).all()
    assert ((found >= 0) & (found < length + more)).all()


def test_random_positions_reach_everywhere_alike():
    """Each of 12 positions is among 4 a third of the time; rows differ."""
    found = positions.randomized(4, 12, rows=6000, generator=torch.Generator().manual_seed(0))
    share = found.flatten().bincount(minlength=12) / 6000
    assert (share - 1 / 3).abs().max() < 5 * (1 / 3 * 2 / 3 / 6000) ** 0.5
    assert len(found.unique(dim=0)) > 400


def by_hand(parts: list, merge: int, after: str) -> list[list[int]]:
    """Cell by cell."""
    now, rows = 0, []
    for part in parts:
        if isinstance(part, int):
            rows += [[now + i] * 3 for i in range(part)]
            now += part
            continue
        t, h, w = part[0], part[1] // merge, part[2] // merge
        interval = part[3] if len(part) > 3 else 1
        cells = [[now + int(a * interval), now + b, now + c] for a in range(t) for b in range(h) for c in range(w)]
        rows += cells
        now = now + max(h, w) if after == "extent" else max(max(cell) for cell in cells) + 1
    return rows


picture = st.tuples(st.integers(1, 6), st.integers(1, 4), st.integers(1, 4), st.sampled_from([0.5, 1, 2.5, 10]))


@given(
    drawn=st.lists(st.one_of(st.integers(0, 4), picture), max_size=6),
    merge=st.sampled_from([1, 2]),
    after=st.sampled_from(["extent", "largest"]),
    offset=st.sampled_from([0, 3, 16_000_000]),
)
def test_multimodal_positions_cell_by_cell(drawn, merge, after, offset):
    parts = [part if isinstance(part, int) else (part[0], part[1] * merge, part[2] * merge, part[3]) for part in drawn]
    found = positions.mrope(parts, merge=merge, after=after, offset=offset)
    assert found.dtype == torch.int64
    assert (found.T - offset).tolist() == by_hand(parts, merge, after)


def test_text_overlaps_a_long_video_only_where_that_is_asked_for():
    """Eight frames of one token: transformers 5 goes on one position after the video began, the paper after its end."""
    assert positions.mrope([1, (8, 2, 2), 1])[:, -1].tolist() == [2, 2, 2]
    assert positions.mrope([1, (8, 2, 2), 1], after="largest")[:, -1].tolist() == [9, 9, 9]


@given(sizes=st.lists(st.integers(0, 4), min_size=1, max_size=4))
def test_a_grid_lists_its_cells(sizes):
    cells = list(itertools.product(*map(range, sizes)))
    assert positions.grid(*sizes).T.tolist() == [list(cell) for cell in cells]


@pytest.mark.parametrize(("call", "message"), [
    (lambda: positions.randomized(5, 4), "length=5 distinct positions of longest=4"),
    (lambda: positions.randomized(2, 4, rows=-1), "rows=-1"),
    (lambda: positions.grid(), "no sizes"),
    (lambda: positions.grid(2, -1), "sizes=-1"),
    (lambda: positions.mrope([(1, 3, 4)]), "3 x 4 patches are not whole squares of merge=2"),
    (lambda: positions.mrope([(2, 4)]), r"a part \(2, 4\); give tokens of text"),
    (lambda: positions.mrope(["text"]), "parts='text'"),
    (lambda: positions.mrope([(1, 2, 2, -1.0)]), "interval=-1.0"),
    (lambda: positions.mrope([1], after="end"), "after='end'"),
    (lambda: positions.mrope([1], merge=0), "merge=0"),
])  # fmt: skip
def test_more_refusals(call, message):
    with pytest.raises(RopewalkError, match=message):
        call()
