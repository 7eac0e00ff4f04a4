import pytest
import torch

from ropewalk import Linear, Llama3, LongRoPE, MrRoPE, NTKCritical, Proportional, RopewalkError, Rotary, YaRN, positions
from ropewalk.functional import apply_rotary

Q = torch.zeros(2, 4, 6, 64)


@pytest.mark.parametrize(("build", "message"), [
    (lambda: Rotary(63), "dim=63 is odd"),
    (lambda: Rotary(64, rotary_dim=80), "rotary_dim=80 is wider"),
    (lambda: Rotary(64, layout="neox"), "layout='neox' is not one of 'half', 'interleaved'"),
    (lambda: Rotary(64, numerics="bf16"), "numerics='bf16'"),
    (lambda: Rotary(64, base=0.0), "base=0.0"),
    (lambda: Rotary(float("inf")), "head_dim=inf"),
    (lambda: Rotary(64, scaling="yarn"), "scaling='yarn' is no scaling"),
    (lambda: Linear(0.5), "Linear: factor=0.5 is not a number of at least 1"),
    (lambda: Linear(float("nan")), "factor=nan"),
    (lambda: YaRN("4", 4096), "factor='4'"),
    (lambda: YaRN(4, 4096.5), "original_length=4096.5 is not a whole number"),
    (lambda: YaRN(4, 4096, beta_fast=1, beta_slow=1), "beta_fast=1"),
    (lambda: YaRN(4, 4096, ramp="linear"), "ramp='linear'"),
    (lambda: YaRN(4, 4096, attention_factor=1.0, mscale=1.0), "give one of them"),
    (lambda: Llama3(4, 4096, 4.0, 1.0), "high_freq_factor=1.0"),
    (lambda: MrRoPE(4, 0), "original_length=0"),
    (lambda: NTKCritical(4, 6), "original_length=6"),
    (lambda: Proportional(1.5), "fraction=1.5"),
    (lambda: LongRoPE([1.0], [1.0, 1.0], 4096), "short_factor has 1 numbers and long_factor 2"),
    (lambda: LongRoPE([0.0], [1.0], 4096), "short_factor=0.0"),
    (lambda: LongRoPE("11", [1.0], 4096), "not a list of numbers"),
    (lambda: Rotary(64, scaling=LongRoPE([1.0], [1.0], 4096)), "long_factor has 1 numbers for 32 pairs"),
])  # fmt: skip
def test_parameters_out_of_range(build, message):
    with pytest.raises(RopewalkError, match=message):
        build()


@pytest.mark.parametrize(("arguments", "message"), [
    ({"positions": torch.arange(6.0)}, "give a tensor of integers"),
    ({"positions": torch.ones(6, dtype=torch.bool)}, "give a tensor of integers"),
    ({"positions": torch.arange(5)}, "does not fit a table"),
    ({"positions": torch.zeros(3, 6, dtype=torch.int64)}, "does not fit a table"),
    ({"positions": [0, 1, 2, 3, 4, 5]}, "give a tensor of integers"),
    ({"tables": Rotary(32).tables(torch.arange(6))}, "tables of 16 pairs, not 32"),
    ({"q_positions": torch.arange(6)}, "together"),
    ({"positions": torch.arange(6), "tables": Rotary(64).tables(torch.arange(6))}, "give positions, or"),
])  # fmt: skip
def test_calls_that_cannot_be_meant(arguments, message):
    with pytest.raises(RopewalkError, match=message):
        Rotary(64)(Q, Q, **arguments)


def test_a_head_of_another_width():
    with pytest.raises(RopewalkError, match="width 32 was given to an encoding of 64"):
        Rotary(64)(Q[..., :32], Q[..., :32])
    with pytest.raises(RopewalkError, match="give a floating-point tensor"):
        Rotary(64)(Q.int(), Q.int())


def test_every_way_to_give_positions_agrees():
    rope, where = Rotary(64, scaling=YaRN(4, 4096)), positions.arange(6, 100)
    q = torch.randn(2, 4, 6, 64, generator=torch.Generator().manual_seed(0))
    want = rope(q, q, where)
    for other in (
        rope(q, q, where[None].expand(2, -1)),
        rope(q, q, q_positions=where, k_positions=where),
        rope(q, q, tables=rope.tables(where)),
        (apply_rotary(q, *rope.tables(where)),) * 2,
    ):
        assert all(torch.equal(a, b) for a, b in zip(want, other, strict=True))


def test_no_tokens_and_no_positions():
    q, k = Rotary(64)(Q[:, :, :0], Q[:, :, :0])
    assert q.shape == k.shape == (2, 4, 0, 64)
    with pytest.raises(RopewalkError, match="length=-1"):
        positions.arange(-1)


def test_compiles_in_one_graph():
    rope = Rotary(64, scaling=YaRN(4, 4096))
    q = torch.randn(1, 2, 6, 64, generator=torch.Generator().manual_seed(0))
    compiled = torch.compile(rope, fullgraph=True, backend="eager")
    assert all(torch.equal(a, b) for a, b in zip(rope(q, q), compiled(q, q), strict=True))
