"""What `attend` refuses, which backend it takes, and what it says of it."""

import pytest
import torch

from ropewalk import ALiBi, Encoding, NoPE, RopewalkError, Rotary, Shaw, T5Bias, attend
from ropewalk.attention import Plan

Q, K = torch.randn(2, 4, 6, 16), torch.randn(2, 2, 6, 16)


class FarAway(Encoding):
    """A bias of both positions, which no table of distances holds."""

    def bias(self, q_positions, k_positions):
        return (q_positions[:, None] * k_positions).float()[None]


@pytest.mark.parametrize(("encoding", "options", "backend", "reason"), [
    (NoPE(), {}, "sdpa", "torch's kernels express all of it"),
    (Rotary(16), {"window": 3}, "sdpa", "torch's kernels"),
    (ALiBi(4), {}, "sdpa", "torch's kernels"),
    (T5Bias(4), {}, "sdpa", "torch's kernels"),
    (T5Bias(4), {"key_mask": torch.ones(2, 6).bool()}, "reference", "no gradient to a bias"),
    (T5Bias(4).requires_grad_(False), {"key_mask": torch.ones(2, 6).bool()}, "sdpa", "torch's kernels"),
    (Shaw(16, 3), {}, "sdpa", "torch's kernels"),
    (Shaw(16, 3), {"documents": torch.zeros(6).int()}, "reference", "cannot express the relation door"),
    (ALiBi(4), {"softcap": 30.0, "sinks": torch.zeros(4)}, "reference", "cannot express softcap, sinks"),
    (ALiBi(4), {"backend": "reference"}, "reference", "it was asked for"),
    (FarAway(), {}, "sdpa", "torch's kernels"),
])  # fmt: skip
def test_the_backend_and_why(encoding, options, backend, reason):
    plan = attend(Q, K, K, causal=True, encoding=encoding, explain=True, **options)
    assert isinstance(plan, Plan)
    assert (plan.backend, plan.doors) == (backend, encoding.doors)
    assert reason in plan.reason
    assert str(plan).startswith(f"{backend}, ")


def test_where_nothing_of_the_size_of_t_times_s_is_made_all_queries_run_at_once():
    long = torch.empty(1, 1, 500_000, 8)
    assert attend(long, long, long, causal=True, explain=True).rows == 500_000
    assert attend(long, long, long, causal=True, encoding=ALiBi(1), explain=True).rows == 500_000
    assert attend(long, long, long, causal=True, encoding=T5Bias(1), explain=True).rows == 500_000
    assert attend(long, long, long, causal=True, encoding=Shaw(8, 9), explain=True).rows == 500_000
    assert attend(long, long, long, causal=True, encoding=T5Bias(1), softcap=9.0, explain=True).rows == 64


@pytest.mark.parametrize("change", [{"dropout_p": 0.1}, {"v": torch.empty(1, 1, 9000, 12)}])
def test_queries_run_in_blocks_where_torch_would_fall_back_to_its_plain_formula(change):
    long = torch.empty(1, 1, 9000, 8)
    call = {"q": long, "k": long, "v": long, "causal": True, "explain": True}
    assert attend(**call).rows == 9000
    assert attend(**call | change).rows == 466


class ValuesOnly(Encoding):
    """Answers at the relation door for values and not for keys."""

    def relation_values(self, weights, q_positions, k_positions):
        return weights.sum(-1, keepdim=True).expand(*weights.shape[:-1], 16)


def test_a_relation_of_the_values_alone_is_heard():
    out = attend(Q, K, K, causal=True, encoding=ValuesOnly())
    torch.testing.assert_close(out, attend(Q, K, K, causal=True) + 1, rtol=0, atol=2e-6)


class Louder(ALiBi):
    """No longer what `by_distance` says."""

    def bias(self, q_positions, k_positions):
        return 2 * super().bias(q_positions, k_positions)


class Nearer(Shaw):
    """No longer what `vectors` say."""

    def relation(self, q, k, q_positions, k_positions, visible=None):
        return 2 * super().relation(q, k, q_positions, k_positions)


@pytest.mark.parametrize(("encoding", "backend", "message"), [
    (Louder(4), "flex", "a bias that is not by distance alone"),
    (Nearer(16, 3), "sdpa", "'sdpa' cannot express the relation door"),
    (Shaw(16, 3), "flex", "'flex' cannot express the relation door"),
    (FarAway(), "flex", "a bias that is not by distance alone"),
    (T5Bias(4), "flex", "gradients on the CPU"),
    (NoPE(), "flash", "backend='flash' is not one of"),
])  # fmt: skip
def test_a_named_backend_does_it_or_says_why_not(encoding, backend, message):
    with pytest.raises(RopewalkError, match=message):
        attend(Q, K, K, causal=True, encoding=encoding, backend=backend)


@pytest.mark.parametrize("encoding", [NoPE(), ALiBi(4), T5Bias(4)], ids=lambda e: type(e).__name__)
def test_flex_equals_the_reference(encoding):
    options = {
        "causal": True, "window": 4, "key_mask": torch.tensor([[0, 0, 1, 1, 1, 1], [1] * 6]),
        "documents": torch.tensor([0, 0, 0, 0, 1, 1]), "softcap": 3.0,
    }  # fmt: skip
    torch.manual_seed(0)
    with torch.no_grad():
        found, expected = (
            attend(Q, K, K, encoding=encoding, backend=backend, **options) for backend in ("flex", "reference")
        )
    torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-5)


def test_attention_across_sequences_needs_no_positions():
    found = attend(Q, K[:, :, :2], K[:, :, :2], causal=False)
    backwards = attend(Q, K[:, :, :2].flip(2), K[:, :, :2].flip(2), causal=False)
    torch.testing.assert_close(found, backwards, rtol=0, atol=1e-6)
    with pytest.raises(RopewalkError, match="give both"):
        attend(Q, K[:, :, :2], K[:, :, :2], causal=False, encoding=ALiBi(4))


@pytest.mark.parametrize(("change", "message"), [
    ({"k": K[:, :, :5]}, r"q \(2, 4, 6, 16\), k \(2, 2, 5, 16\)"),
    ({"q": Q[:, :3]}, "heads a multiple of kv heads"),
    ({"q": Q[0]}, "do not fit"),
    ({"q": Q.double()}, "torch.float64, torch.float32"),
    ({"q": Q.int(), "k": K.int(), "v": K.int()}, "give one floating-point dtype"),
    ({"q_positions": torch.arange(6.0)}, "give a tensor of integers"),
    ({"q_positions": torch.arange(5)}, r"q_positions of shape \(5,\) does not fit 6 tokens"),
    ({"k_positions": torch.zeros(3, 6).long()}, r"k_positions of shape \(3, 6\)"),
    ({"q": Q[:, :, :4], "q_positions": torch.arange(4)}, "4 queries and 6 keys; give both"),
    ({"k": K[:, :, :4], "v": K[:, :, :4]}, "6 queries and 4 keys; give both"),
    ({"window": 0}, "window=0"),
    ({"softcap": 0.0}, "softcap=0.0"),
    ({"scale": float("nan")}, "scale=nan"),
    ({"scale": torch.tensor(0.3, requires_grad=True)}, "scale=tensor"),
    ({"encoding": "alibi"}, "encoding='alibi' is no encoding"),
    ({"encoding": ALiBi(16), "backend": "reference"}, r"bias of shape \(16, 6, 6\) for 4 heads"),
    ({"dropout_p": 1.0}, "dropout_p=1.0"),
    ({"sinks": torch.zeros(2)}, r"sinks of shape \(2,\)"),
    ({"key_mask": torch.zeros(2, 6)}, "bool or 0/1"),
    ({"key_mask": torch.ones(2, 5).bool()}, r"key_mask of shape \(2, 5\)"),
    ({"documents": torch.zeros(5).long()}, r"documents of shape \(5,\)"),
    ({"encoding": ALiBi(3)}, r"ALiBi gave a bias of shape \(3, .*\) for 4 heads"),
    ({"encoding": Rotary(32)}, "a head of width 16 was given to an encoding of 32"),
])  # fmt: skip
def test_refusals(change, message):
    with pytest.raises(RopewalkError, match=message):
        attend(**{"q": Q, "k": K, "v": K, "causal": True, **change})
