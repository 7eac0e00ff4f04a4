"""Positions in every integer dtype, at 2^24 and past, and none that are floats."""

import pytest
import torch
from every_encoding import (
    ADDED,
    DIM,
    ENCODINGS,
    HEADS,
    RELATIVE,
    SHIFTED,
    WIDTH,
    answers,
    attended,
    built,
    decoder,
    sample,
    tokens,
)

from ropewalk import RopewalkError, Rotary, Sinusoidal, attend, functional, positions

FAR = [2**24, 16_000_000]
PATTERN = torch.tensor([0, 4, 1, 2, 3, 3])
BOUNDLESS = [name for name in ENCODINGS if name != "learned"]
SMALL = {torch.int64: 0, torch.int32: 0, torch.int16: 0, torch.int8: 122, torch.uint8: 122}  # + 0 .. 5
LIMITS = {torch.uint8: 250, torch.int8: 122, torch.int16: 2**15 - 6, torch.int32: 2**31 - 6}  # + 0 .. 5, the last


@pytest.mark.parametrize("start", FAR)
@pytest.mark.parametrize("name", BOUNDLESS)
def test_int32_far_out(name, start):
    encoding, where = built(name), start + PATTERN
    for found, expected in zip(answers(encoding, where.int()), answers(encoding, where), strict=True):
        assert torch.equal(found, expected)
    assert torch.equal(attended(encoding, sample(2, 6, DIM), where.int()), attended(encoding, sample(2, 6, DIM), where))


@pytest.mark.parametrize("dtype", SMALL, ids=str)
@pytest.mark.parametrize("name", ENCODINGS)
def test_small_dtypes_where_they_are_small(name, dtype):
    encoding, where = built(name), SMALL[dtype] + torch.tensor([0, 5, 1, 2, 3, 4])
    for found, expected in zip(answers(encoding, where.to(dtype)), answers(encoding, where), strict=True):
        assert torch.equal(found, expected)
    for options in ({"causal": True}, {"causal": False, "window": 3}):
        found = attended(encoding, sample(2, 6, DIM), where.to(dtype), **options)
        assert torch.equal(found, attended(encoding, sample(2, 6, DIM), where, **options))


@pytest.mark.parametrize("dtype", LIMITS, ids=str)
@pytest.mark.parametrize("name", BOUNDLESS)
def test_small_dtypes_at_their_limit(name, dtype):
    """Where a length, one more than the last position, has no place in the dtype."""
    encoding, where = built(name), LIMITS[dtype] + torch.arange(6)
    for found, expected in zip(answers(encoding, where.to(dtype)), answers(encoding, where), strict=True):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("dtype", LIMITS, ids=str)
def test_a_rotary_module_called_at_the_limit(dtype):
    q, where = sample(1, HEADS, 6, WIDTH), LIMITS[dtype] + torch.arange(6)
    for name in (name for name in ENCODINGS if name.startswith("rotary")):
        rope = built(name)
        for places in ({"positions": 0}, {"q_positions": 0, "k_positions": 0}):
            found = rope(q, q, **dict.fromkeys(places, where.to(dtype)))
            expected = rope(q, q, **dict.fromkeys(places, where))
            assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True)), name


@pytest.mark.parametrize("name", RELATIVE)
def test_queries_and_keys_in_different_dtypes(name):
    """Distances that uint8 and int8 cannot hold: 200 - 3, and 3 - 200."""
    q, k, v = (sample(1, HEADS, 4, WIDTH, seed=seed) for seed in range(3))
    one, other = torch.tensor([3, 200, 7, 255]), torch.tensor([0, 3, 100, 127])
    for causal in (True, False):
        options = {"causal": causal, "encoding": built(name), "length": 256}
        expected = attend(q, k, v, q_positions=one, k_positions=other, **options)
        found = attend(q, k, v, q_positions=one.to(torch.uint8), k_positions=other.to(torch.int8), **options)
        assert torch.equal(found, expected)
        doors = [built(name).bias(one.to(torch.uint8), other.to(torch.int8)), built(name).bias(one, other)]
        assert doors[0] is doors[1] is None or torch.equal(*doors)


@pytest.mark.parametrize("start", [*FAR, 2**31 - 6])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", SHIFTED)
def test_relative_encodings_see_the_pattern_and_not_where_it_stands(name, causal, start):
    encoding, x, options = built(name), sample(2, 6, DIM), {"causal": causal, "length": 6}
    near, far = (attended(encoding, x, where, **options) for where in (PATTERN, start + PATTERN))
    torch.testing.assert_close(far, near, rtol=0, atol=2e-5)


@pytest.mark.parametrize("name", [name for name in RELATIVE if name not in ("nope", "alibi halves", "cope")])
def test_and_the_pattern_is_seen(name):
    """Else the test above holds for what ignores positions. (CoPE asks them for the order alone.)"""
    encoding, x = built(name), sample(2, 6, DIM)
    one, other = (attended(encoding, x, where, causal=False, length=6) for where in (PATTERN, PATTERN * 2))
    assert (one - other).abs().max() > 1e-2


@pytest.mark.parametrize("start", FAR)
@pytest.mark.parametrize("name", [name for name in ADDED if name != "learned"])
def test_neighbours_far_out_are_told_apart(name, start):
    """float32 has no 2^24 + 1: a table made from it would give the row of 2^24 twice."""
    rows = built(name).embed(torch.zeros(1, 5, DIM), start + torch.arange(5))[0].double()
    near = built(name).embed(torch.zeros(1, 5, DIM), torch.arange(5))[0].double()
    torch.testing.assert_close(rows @ rows.T, near @ near.T, rtol=0, atol=2e-5)


@pytest.mark.parametrize("start", FAR)
def test_tables_far_out_against_whole_numbers(start):
    """sin and cos by Python's own float64, an angle at a time."""
    import math

    where = start + torch.arange(5)
    cos, sin = Rotary(4, base=100.0).tables(where)
    rows = Sinusoidal(4, base=100.0).rows(where)
    for i, position in enumerate(where.tolist()):
        expected = [math.sin(position), math.cos(position), math.sin(position / 10), math.cos(position / 10)]
        torch.testing.assert_close(rows[i].tolist(), expected, rtol=0, atol=1e-7)
        found = [sin[i, 0].item(), cos[i, 0].item(), sin[i, 1].item(), cos[i, 1].item()]
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-7)


FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.bool]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ENCODINGS)
def test_positions_are_no_floats(name, dtype):
    encoding, where, good = built(name), torch.arange(4).to(dtype), torch.arange(4)
    x, q, k = sample(1, 4, DIM), sample(1, HEADS, 4, WIDTH), sample(1, HEADS, 4, WIDTH)
    calls = {
        "embed": [lambda: encoding.embed(x, where)],
        "rotate": [lambda: encoding.rotate(q, k, where, where), lambda: encoding.rotate(q, k, good, where)],
        "bias": [lambda: encoding.bias(where, good), lambda: encoding.bias(good, where)],
        "relation": [lambda: encoding.relation(q, k, where, good), lambda: encoding.relation(q, k, good, where)],
    }
    for door in encoding.doors:
        for call in calls[door]:
            with pytest.raises(RopewalkError, match="integers"):
                call()
    for places in ({"q_positions": where}, {"k_positions": where}, {"q_positions": good, "k_positions": where}):
        with pytest.raises(RopewalkError, match="integers"):
            attend(q, k, k, causal=True, encoding=encoding, **places)
    with pytest.raises(RopewalkError, match="integers"):
        decoder(encoding)(tokens(1, 4), where)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32], ids=str)
def test_buckets_of_small_dtypes(dtype, bidirectional):
    bounds = torch.iinfo(dtype)
    relative = torch.arange(max(bounds.min, -300), min(bounds.max, 300) + 1)
    found = functional.t5_bucket(relative.to(dtype), bidirectional=bidirectional)
    assert torch.equal(found, functional.t5_bucket(relative, bidirectional=bidirectional))


FUNCTIONS = {
    "cos_sin": lambda where: functional.cos_sin(where, functional.inv_freq(8, 100.0)),
    "sinusoidal": lambda where: functional.sinusoidal(where, 8),
    "t5_bucket": functional.t5_bucket,
    "tables": Rotary(8).tables,
    "rows": Sinusoidal(8).rows,
}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_take_no_floats_either(function):
    FUNCTIONS[function](torch.arange(4))
    for dtype in FLOATS:
        with pytest.raises(RopewalkError):
            FUNCTIONS[function](torch.arange(4).to(dtype))


@pytest.mark.parametrize("name", RELATIVE)
def test_positions_drawn_at_random(name):
    """Each row has a draw of its own; the tokens in another order, with their positions, say the same."""
    encoding, x = built(name), sample(2, 12, DIM)
    where = positions.randomized(12, 500, rows=2, generator=torch.Generator().manual_seed(0))
    found = attended(encoding, x, where)
    order = torch.tensor([5, 3, 11, 0, 8, 1, 2, 10, 4, 9, 7, 6])
    shuffled = attended(encoding, x[:, order], where[:, order])
    if name not in ("nope", "cope"):  # which count the tokens between, wherever these stand
        assert (found - attended(encoding, x)).abs().max() > 1e-3
    for row in range(2):
        alone = attended(encoding, x[row : row + 1], where[row], backend="reference")
        torch.testing.assert_close(found[row : row + 1], alone, rtol=0, atol=1e-5)
        torch.testing.assert_close(shuffled[row], found[row][:, order], rtol=0, atol=1e-5)
