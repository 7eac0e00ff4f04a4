"""Two processes that share heads, or a sequence, compute what one does."""

from pathlib import Path

import pytest
import torch
from every_encoding import HEADS, vivid
from parallel_ranks import ALL, CALLS, TOKENS, WORLD, Results, alone, differentiated, given, joined, work

from ropewalk import ALiBi, DistanceBias, RopewalkError, Rotary, T5Bias, attend, attend_sharded, for_heads, positions

BOUNDS = {torch.bfloat16: 2e-2, torch.float32: 1e-5, torch.float64: 1e-10}
SHAPES = [("causal", torch.float32, HEADS), ("causal", torch.float64, 2), ("window", torch.float32, 2)]
BY_HEAD = [
    (name, *shape)
    for name in (
        "rotary",
        "alibi",
        "alibi halves",
        "t5",
        "t5 bidirectional",
        "shaw",
        "transformer-xl",
        "cope",
        "by head",
        "gates",
    )
    for shape in (*SHAPES, ("both ways", torch.float64, 2))
    if (name, shape[0]) != ("gates", "both ways")
]
BY_TOKEN = [
    (name, *shape, zigzag)
    for name in ("rotary", "rotary dynamic ntk", "alibi", "t5", "shaw", "cope", "by head")
    for shape in (*SHAPES, *((call, torch.float64, 2) for call in CALLS if call not in ("causal", "window")))
    for zigzag in (True, False)
] + [("rotary", "causal", torch.bfloat16, 2, True)]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory) -> list[dict[tuple, Results]]:
    folder: Path = tmp_path_factory.mktemp("parallel")
    torch.multiprocessing.spawn(work, args=(str(folder), BY_HEAD, BY_TOKEN), nprocs=WORLD)
    return [torch.load(folder / f"rank{rank}.pt", weights_only=True) for rank in range(WORLD)]


def same(found: Results, expected: Results, bound: float) -> None:
    assert set(found) == set(expected)
    for key, value in expected.items():
        assert value.abs().max() > 0, key
        scale = max(1.0, value.abs().max().item())
        torch.testing.assert_close(found[key], value, rtol=0, atol=bound * scale, msg=lambda m, key=key: f"{key}: {m}")


@pytest.mark.parametrize("case", BY_HEAD, ids=str)
def test_heads_on_two_ranks(case, ranks):
    name, call, dtype, kv_heads = case
    found = joined([rank[("heads", *case)] for rank in ranks], axis=1)
    same(found, alone(name, call, dtype, kv_heads), BOUNDS[dtype])


@pytest.mark.parametrize("rows", [64, 3])
@pytest.mark.parametrize("case", BY_TOKEN, ids=str)
def test_a_sequence_on_two_ranks(case, rows, ranks):
    name, call, dtype, kv_heads, zigzag = case
    order = torch.cat([positions.context_parallel(TOKENS, rank, WORLD, zigzag=zigzag) for rank in range(WORLD)])
    found = joined([rank[("tokens", *case, rows)] for rank in ranks], axis=2, order=order)
    same(found, alone(name, call, dtype, kv_heads), BOUNDS[dtype])


@pytest.mark.parametrize("cut", [(0, 1), (1, 3), (0, 4), (3, 4)])
@pytest.mark.parametrize("name", ALL)
def test_any_slice_of_the_heads(name, cut):
    """Output and gradients are the slice of the whole's; what is learned gets all of its gradient from all slices."""
    mine, dtype = slice(*cut), torch.float64
    expected = alone(name, "causal", dtype)
    *qkv, upstream = (x[:, mine] for x in given(dtype))
    leaves, whole = [x.contiguous().requires_grad_() for x in qkv], vivid(ALL[name]()).to(dtype)
    encoding = for_heads(whole, *cut, of=HEADS)
    assert set(encoding.parameters()) == set(whole.parameters())
    found = differentiated(encoding, attend(*leaves, encoding=encoding, **CALLS["causal"]), leaves, upstream)
    same({key: found[key] for key in ("out", *"qkv")}, {key: expected[key][:, mine] for key in ("out", *"qkv")}, 1e-10)


@pytest.mark.parametrize("name", ALL)
def test_a_slice_goes_the_way_of_the_whole(name):
    """By distance stays by distance: no mask is made where the whole needs none."""
    whole, (q, k, v, _) = vivid(ALL[name]()), given(torch.float32)
    encoding = for_heads(whole, 1, 3, of=HEADS)
    ways = [
        attend(*(x[:, heads] for x in (q, k, v)), causal=True, encoding=each, explain=True)
        for each, heads in ((whole, slice(None)), (encoding, slice(1, 3)))
    ]
    assert ways[0] == ways[1]
    assert isinstance(encoding, DistanceBias) == isinstance(whole, DistanceBias)
    assert encoding.doors == whole.doors


def test_a_device_holds_a_slope_of_the_whole_model():
    where = torch.arange(5)
    assert torch.equal(for_heads(ALiBi(12), 8, 12, of=12).bias(where, where), ALiBi(12).bias(where, where)[8:])
    assert not torch.equal(for_heads(ALiBi(12), 0, 4, of=12).bias(where, where), ALiBi(4).bias(where, where))


@pytest.mark.parametrize(("call", "message"), [
    (lambda: for_heads(ALiBi(8), 2, 2, of=8), "heads 2 to 2 of 8"),
    (lambda: for_heads(ALiBi(8), 4, 9, of=8), "heads 4 to 9 of 8"),
    (lambda: for_heads(ALiBi(8), -1, 3, of=8), "start=-1"),
    (lambda: for_heads("alibi", 0, 3, of=8), "is no encoding"),
    (lambda: for_heads(ALiBi(8), 0, 2, of=4).bias(torch.arange(3), torch.arange(3)),
     "ALiBi answers for 8 heads, and of=4 was given"),
    (lambda: for_heads(T5Bias(4), 0, 2, of=1), "heads 0 to 2 of 1"),
    (lambda: attend_sharded(*given(torch.float32)[:3], causal=True, encoding=Rotary(16)), "no process group"),
])  # fmt: skip
def test_bad_input(call, message):
    with pytest.raises(RopewalkError, match=message):
        call()


@pytest.mark.parametrize(("tokens", "options", "message"), [
    (23, {}, "23 queries and 23 keys; give those of the same tokens, an even number for zigzag"),
    (22, {"q_positions": torch.arange(22), "explain": True}, "explain, q_positions is not taken"),
])  # fmt: skip
def test_bad_input_of_a_rank(tokens, options, message, monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    q, k, v = (x[:, :, :tokens] for x in given(torch.float32)[:3])
    with pytest.raises(RopewalkError, match=message):
        attend_sharded(q, k, v, causal=True, encoding=Rotary(16), **options)
