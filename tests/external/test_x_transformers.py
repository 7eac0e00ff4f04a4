"""Encodings, and attention around them, against x-transformers."""

import pytest
import torch
from external_peers import LEFT_PADDED, TOKENS, assert_same, gradients, joined, randomized, sample, split
from external_peers import weights as of
from torch import Tensor
from x_transformers.x_transformers import (
    AbsolutePositionalEmbedding,
    AlibiPositionalBias,
    Attention,
    RelativePositionBias,
    RotaryEmbedding,
    ScaledSinusoidalEmbedding,
)

from ropewalk import ALiBi, CoPE, Kerple, Learned, Rotary, Sandwich, Sinusoidal, T5Bias, attend, positions

DIM, WIDTH = 48, 16
CAUSAL = pytest.mark.parametrize("causal", [True, False])
REAL = LEFT_PADDED.bool()


def peer_attention(heads: int = 3, **options: object) -> Attention:
    peer = randomized(Attention(DIM, dim_head=WIDTH, heads=heads, **options))
    assert isinstance(peer, Attention)
    return peer


def ours(peer: Attention, x: Tensor, **how: object) -> Tensor:
    q, k, v = (split(projection(x), WIDTH) for projection in (peer.to_q, peer.to_k, peer.to_v))
    return peer.to_out(joined(attend(q, k, v, **how)))


@CAUSAL
@pytest.mark.parametrize("heads", [8, 12])
def test_alibi(causal, heads):
    """Where the future is seen, it is penalised like the past."""
    peer, x = peer_attention(heads, causal=causal), sample(2, TOKENS, DIM)
    theirs = peer(x, rel_pos=AlibiPositionalBias(heads))
    assert_same(ours(peer, x, causal=causal, encoding=ALiBi(heads)), theirs, [x, *of(peer)])


@CAUSAL
def test_kerple_of_power_one_is_alibi(causal):
    peer, x, kernel = peer_attention(8, causal=causal), sample(2, TOKENS, DIM), Kerple(8, "power")
    linear = AlibiPositionalBias(8)
    linear.slopes.clamp_(min=0.01)  # the least that a kernel's number is
    kernel.load_state_dict({"p": torch.ones(8), "a": linear.slopes.flatten()})
    theirs = peer(x, rel_pos=linear)
    assert_same(ours(peer, x, causal=causal, encoding=kernel), theirs, [x, *of(peer)])


def test_sandwich_is_the_products_of_their_sinusoids():
    rows = ScaledSinusoidalEmbedding(128)(torch.zeros(1, TOKENS, 1)).double() * 128**0.5
    ratios = torch.arange(1, 4).double() * 8 / 3
    where = torch.arange(TOKENS)
    expected = (rows @ rows.T).detach() / ratios[:, None, None]
    torch.testing.assert_close(Sandwich(3).bias(where, where).double(), expected, rtol=2e-6, atol=0)


@CAUSAL
def test_alibi_at_given_positions(causal):
    """Their mask goes by the order of tokens and ours by positions; here positions rise."""
    peer, x = peer_attention(8, causal=causal), sample(2, TOKENS, DIM)
    where = torch.stack((torch.arange(TOKENS) * 3, torch.arange(TOKENS) ** 2))
    theirs = peer(x, rel_pos=AlibiPositionalBias(8), pos=where)
    result = ours(peer, x, causal=causal, encoding=ALiBi(8), q_positions=where, k_positions=where)
    assert_same(result, theirs, [x, *of(peer)])


@CAUSAL
@pytest.mark.parametrize(("tokens", "buckets", "max_distance"), [(160, 32, 128), (TOKENS, 8, 20)])
def test_t5_bias(causal, tokens, buckets, max_distance):
    """They multiply the table by a scale, sqrt(width) in their models; that is a factor of the gradient too."""
    scale = WIDTH**0.5
    peer, x = peer_attention(causal=causal), sample(1, tokens, DIM)
    bias = randomized(RelativePositionBias(scale, causal, buckets, max_distance, heads=3))
    table = bias.relative_attention_bias.weight
    encoding = T5Bias(3, buckets, max_distance, bidirectional=not causal)
    encoding.weight.data = table.data * scale
    result, theirs = ours(peer, x, causal=causal, encoding=encoding), peer(x, rel_pos=bias)
    assert_same(result, theirs, [x, *of(peer)])
    [got], [want] = gradients(result, x.detach(), [encoding.weight]), gradients(theirs, x.detach(), [table])
    torch.testing.assert_close(got * scale, want, rtol=0, atol=2e-5 * want.abs().max().item())


@CAUSAL
@pytest.mark.parametrize("rotary_dim", [WIDTH, WIDTH // 2])
def test_rotary(causal, rotary_dim):
    peer, x, where = peer_attention(causal=causal), sample(2, TOKENS, DIM), positions.arange(TOKENS, 500)
    theirs = peer(x, rotary_pos_emb=RotaryEmbedding(rotary_dim)(where))
    rope = Rotary(WIDTH, rotary_dim=rotary_dim, layout="interleaved", numerics="float32")
    result = ours(peer, x, causal=causal, encoding=rope, q_positions=where, k_positions=where)
    assert_same(result, theirs, [x, *of(peer)])


def test_rotary_with_grouped_keys_in_another_order():
    """Of 6 heads and 2 of keys, their head h reads keys h % 2, and ours, like everyone else's, keys h // 3."""
    peer, x = peer_attention(6, causal=True, kv_heads=2), sample(2, TOKENS, DIM)
    theirs = peer(x, rotary_pos_emb=RotaryEmbedding(WIDTH)(positions.arange(TOKENS)))
    q, k, v = (split(projection(x), WIDTH) for projection in (peer.to_q, peer.to_k, peer.to_v))
    order = torch.tensor([0, 2, 4, 1, 3, 5])
    seen = attend(q[:, order], k, v, causal=True, encoding=Rotary(WIDTH, layout="interleaved"))
    assert_same(peer.to_out(joined(seen[:, order.argsort()])), theirs, [x, *of(peer)])


def test_sinks_softcap_and_window():
    """`max_attend_past` leaves out the token itself. Their cap comes after a bias, ours before it: here is none."""
    options = {"head_learned_sink": True, "softclamp_logits": True, "logit_softclamp_value": 3.0, "max_attend_past": 6}
    peer, x = peer_attention(causal=True, **options), sample(2, TOKENS, DIM)
    theirs = peer(x, rotary_pos_emb=RotaryEmbedding(WIDTH)(positions.arange(TOKENS)))
    sinks = peer.attend.head_attn_sink
    rope = Rotary(WIDTH, layout="interleaved")
    result = ours(peer, x, causal=True, encoding=rope, window=7, softcap=3.0, sinks=sinks)
    assert_same(result, theirs, [x, sinks, *of(peer)])


def test_softcap_and_bias_come_in_the_other_order():
    peer, x = peer_attention(8, causal=True, softclamp_logits=True, logit_softclamp_value=3.0), sample(2, TOKENS, DIM)
    theirs = peer(x, rel_pos=AlibiPositionalBias(8))
    result = ours(peer, x, causal=True, encoding=ALiBi(8), softcap=3.0)
    assert (result - theirs).abs().max() > 0.05 * theirs.abs().max()


@pytest.mark.parametrize("max_position", [1, 4, 16, 100])
def test_cope(max_position):
    """Gates of scaled logits over what the mask leaves, and q . e that is not scaled; here in a padded batch."""
    peer = peer_attention(causal=True, use_cope=True, cope_max_pos=max_position)
    x, table = sample(2, TOKENS, DIM), peer.attend.cope.pos_emb
    encoding = CoPE(WIDTH, max_position)
    encoding.weight.data = table.data.clone()
    result = ours(peer, x, causal=True, encoding=encoding, key_mask=REAL)
    inputs = [x, *(weight for weight in of(peer) if weight is not table)]
    assert_same(result, peer(x, mask=REAL), inputs, pairs=[(encoding.weight, table)], real=REAL)


@pytest.mark.parametrize("offset", [0, 6])
def test_scaled_sinusoidal(offset):
    """Sines first on Vaswani's grid, times a learned scale, which is the caller's to keep here."""
    peer, x = randomized(ScaledSinusoidalEmbedding(DIM)), sample(2, TOKENS, DIM)
    scale = peer.scale.detach().clone().requires_grad_()
    rows = Sinusoidal(DIM, "sin_cos").rows(positions.arange(TOKENS, offset))
    assert_same(x + scale * rows, x + peer(x, offset=offset), [x], pairs=[(scale, peer.scale)])


@pytest.mark.parametrize("offset", [0, 6])
def test_absolute(offset):
    """Their table is multiplied by dim^-0.5."""
    peer, x = randomized(AbsolutePositionalEmbedding(DIM, 30), std=1.0), sample(2, TOKENS, DIM)
    encoding = Learned(30, DIM)
    encoding.weight.data = peer.emb.weight.data * DIM**-0.5
    result, theirs = encoding(x, positions.arange(TOKENS, offset)), x + peer(x, offset=offset)
    assert_same(result, theirs, [x])
    [got], [want] = gradients(result, x.detach(), [encoding.weight]), gradients(theirs, x.detach(), [peer.emb.weight])
    torch.testing.assert_close(got * DIM**-0.5, want, rtol=0, atol=2e-5 * want.abs().max().item())


def test_absolute_of_a_padded_batch():
    """Padding before the start reads position 0, on both sides."""
    peer, x = randomized(AbsolutePositionalEmbedding(DIM, 30), std=1.0), sample(2, TOKENS, DIM)
    encoding = Learned(30, DIM)
    encoding.weight.data = peer.emb.weight.data * DIM**-0.5
    theirs = x + peer(x, seq_start_pos=torch.tensor([5, 0]))
    assert_same(encoding(x, positions.from_attention_mask(LEFT_PADDED)), theirs, [x])


@CAUSAL
def test_padded_batch(causal):
    """Theirs zeroes the output of padding; here its queries see what real ones do, and the caller drops them."""
    peer, x = peer_attention(8, causal=causal), sample(2, TOKENS, DIM)
    theirs = peer(x, mask=REAL, rel_pos=AlibiPositionalBias(8))
    result = ours(peer, x, causal=causal, encoding=ALiBi(8), key_mask=REAL)
    assert_same(result, theirs, [x, *of(peer)], real=REAL)
