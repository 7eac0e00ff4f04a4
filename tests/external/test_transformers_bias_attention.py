"""Biases of the distance, and Shaw's keys, inside whole models of transformers."""

import pytest
import torch
import transformers as hf
from external_peers import (
    LEFT_PADDED,
    RIGHT_PADDED,
    TOKENS,
    assert_same,
    by_projections,
    joined,
    overhear,
    randomized,
    sample,
    split,
)
from external_peers import weights as of
from torch import Tensor, nn
from transformers.models.t5.modeling_t5 import T5Attention, T5Stack
from transformers.models.wav2vec2_bert.modeling_wav2vec2_bert import Wav2Vec2BertEncoder

from ropewalk import ALiBi, Shaw, T5Bias, attend, positions

TOKEN_IDS = torch.arange(2 * TOKENS).reshape(2, TOKENS) * 7 % 40
PADDED = {"input_ids": TOKEN_IDS, "attention_mask": LEFT_PADDED}
HEADS = pytest.mark.parametrize("heads", [8, 12])  # of 12, four slopes come from the series of 16
BACKENDS = pytest.mark.parametrize("backend", ["sdpa", "reference"])


def fused_qkv(module: nn.Module, x: Tensor) -> tuple[Tensor, ...]:
    """By head: its q, its k, its v."""
    return split(module.query_key_value(x), 3 * module.head_dim).chunk(3, dim=-1)


@HEADS
@BACKENDS
def test_bloom(heads, backend):
    """It adds slope x key position, a constant a row away from -slope x distance; its module adds the residual."""
    config = hf.BloomConfig(vocab_size=40, hidden_size=48, n_layer=1, n_head=heads, attn_implementation="eager")
    [heard] = overhear(randomized(hf.BloomModel(config)), "BloomAttention", **PADDED)
    q, k, v = fused_qkv(heard.module, heard.x)
    seen = attend(q, k, v, causal=True, encoding=ALiBi(heads), key_mask=LEFT_PADDED, backend=backend)
    ours = heard.module.dense(joined(seen)) + heard.args[1]
    assert_same(ours, heard.out, [heard.x, *of(heard.module)], real=LEFT_PADDED)


@HEADS
def test_mpt(heads):
    config = hf.MptConfig(
        vocab_size=40, d_model=48, n_heads=heads, n_layers=1, max_seq_len=64, attn_implementation="eager"
    )
    [heard] = overhear(randomized(hf.MptModel(config)), "MptAttention", **PADDED)
    q, k, v = (split(part, 48 // heads) for part in heard.module.Wqkv(heard.x).chunk(3, dim=-1))
    seen = attend(q, k, v, causal=True, encoding=ALiBi(heads), key_mask=LEFT_PADDED)
    assert_same(heard.module.out_proj(joined(seen)), heard.out, [heard.x, *of(heard.module)], real=LEFT_PADDED)


def falcon(heads: int, implementation: str) -> hf.FalconModel:
    config = hf.FalconConfig(
        vocab_size=40, hidden_size=48, num_hidden_layers=1, num_attention_heads=heads, alibi=True, multi_query=False,
        max_position_embeddings=64, attn_implementation=implementation,
    )  # fmt: skip
    return randomized(hf.FalconModel(config))


def as_falcon(heads: int, times: float = 1.0) -> ALiBi:
    """Falcon divides the bias by sqrt(head_dim) along with q . k, so its slopes are smaller than the paper's."""
    encoding = ALiBi(heads)
    encoding.slopes = encoding.slopes * times * (48 // heads) ** -0.5
    return encoding


# sdpa has the bias once. Under "eager" hf.FalconModel puts it into the mask, and FalconAttention adds it to the logits
# once more: the same checkpoint then has slopes of twice the size.
@pytest.mark.parametrize(("implementation", "times"), [("sdpa", 1.0), ("eager", 2.0)])
def test_falcon(implementation, times):
    [heard] = overhear(falcon(8, implementation), "FalconAttention", **PADDED)
    q, k, v = fused_qkv(heard.module, heard.x)
    seen = attend(q, k, v, causal=True, encoding=as_falcon(8, times), key_mask=LEFT_PADDED)
    assert_same(heard.module.dense(joined(seen)), heard.out, [heard.x, *of(heard.module)], real=LEFT_PADDED)


def test_falcon_rounds_slopes_that_are_no_powers_of_two():
    """It makes them, and their products with positions, in bfloat16 in a float32 model too: off by up to 1 in 256."""
    [heard] = overhear(falcon(12, "sdpa"), "FalconAttention", **PADDED)
    q, k, v = fused_qkv(heard.module, heard.x)
    exact = as_falcon(12)
    seen = heard.module.dense(joined(attend(q, k, v, causal=True, encoding=exact, key_mask=LEFT_PADDED)))
    with pytest.raises(AssertionError):
        assert_same(seen, heard.out, [heard.x], real=LEFT_PADDED, tolerance=1e-4)
    assert_same(seen, heard.out, [heard.x, *of(heard.module)], real=LEFT_PADDED, tolerance=0.01)


def t5(**sizes: int) -> hf.T5Config:
    return hf.T5Config(
        vocab_size=40, d_model=32, d_kv=8, d_ff=16, num_layers=2, num_heads=3, attn_implementation="eager", **sizes
    )


def spread(stack: nn.Module) -> nn.Module:
    """T5 does not divide by sqrt(head_dim): smaller projections, and a bias that weighs as much as they."""
    stack = randomized(stack, 0.2)
    for module in stack.modules():
        if getattr(module, "has_relative_attention_bias", False):
            module.relative_attention_bias.weight.data.mul_(5)
    return stack


def check_t5(heard: list, causal: bool, buckets: int, max_distance: int, mask: Tensor | None) -> None:
    """The table of layer 0 serves both layers."""
    table = heard[0].module.relative_attention_bias.weight
    encoding = T5Bias(3, buckets, max_distance, bidirectional=not causal)
    encoding.weight.data = table.data.clone()
    for one in heard:
        ours = by_projections(
            one.module, one.x, 8, one.module.o, "qkv", causal=causal, encoding=encoding, scale=1.0, key_mask=mask
        )
        inputs = [one.x, *(p for p in of(one.module) if p is not table)]
        assert_same(ours, one.out, inputs, pairs=[(encoding.weight, table)], real=mask)


# 160 tokens reach past the last bucket of 32 / 128, and 24 past that of 8 / 20.
T5_SIZES = pytest.mark.parametrize(("tokens", "buckets", "max_distance"), [(160, 32, 128), (TOKENS, 8, 20)])


@T5_SIZES
def test_t5_encoder_looks_both_ways(tokens, buckets, max_distance):
    config = t5(relative_attention_num_buckets=buckets, relative_attention_max_distance=max_distance)
    mask = torch.ones(2, tokens, dtype=torch.int64)
    mask[0, -5:] = 0
    ids = torch.arange(2 * tokens).reshape(2, tokens) % 40
    heard = overhear(spread(hf.T5EncoderModel(config)), "T5Attention", input_ids=ids, attention_mask=mask)
    check_t5(heard, False, buckets, max_distance, mask)


@T5_SIZES
def test_t5_decoder(tokens, buckets, max_distance):
    config = t5(relative_attention_num_buckets=buckets, relative_attention_max_distance=max_distance)
    config.is_decoder, config.use_cache = True, False
    ids = torch.arange(tokens)[None] % 40
    heard = overhear(spread(T5Stack(config)), "T5Attention", input_ids=ids)
    check_t5([one for one in heard if one.module.is_causal], True, buckets, max_distance, None)


@pytest.mark.parametrize("scale", [1.0, 8**-0.5])
def test_t5_bias_alone(scale):
    """Its `compute_bias` over a cache, against the bias door."""
    peer = spread(T5Attention(t5(), has_relative_attention_bias=True, layer_idx=0))
    encoding = T5Bias(3, bidirectional=True)
    encoding.weight.data = peer.relative_attention_bias.weight.data * scale
    ours = encoding.bias(positions.arange(20, 280), positions.arange(300))
    theirs = peer.compute_bias(20, 300, past_seen_tokens=280)[0] * scale
    assert torch.equal(ours, theirs)
    weight = sample(3, 20, 300).detach()
    [got] = torch.autograd.grad((ours * weight).sum(), encoding.weight)
    [want] = torch.autograd.grad((theirs * weight).sum(), peer.relative_attention_bias.weight)
    torch.testing.assert_close(got * scale, want, rtol=0, atol=1e-4)  # sums of some 1000 terms


@pytest.mark.parametrize(("left", "right"), [(7, 3), (0, 4), (30, 30)])
def test_wav2vec2_bert_has_shaws_keys(left, right):
    config = hf.Wav2Vec2BertConfig(
        hidden_size=48, num_hidden_layers=1, num_attention_heads=3, intermediate_size=32, layerdrop=0.0,
        position_embeddings_type="relative_key", left_max_position_embeddings=left, right_max_position_embeddings=right,
        attn_implementation="eager",
    )  # fmt: skip
    encoder, x = randomized(Wav2Vec2BertEncoder(config)), sample(2, TOKENS, 48)
    [heard] = overhear(encoder, "Wav2Vec2BertSelfAttention", hidden_states=x, attention_mask=RIGHT_PADDED)
    table = heard.module.distance_embedding.weight
    encoding = Shaw(16, max_distance=left, max_future=right, values=False)
    encoding.keys.data = table.data.clone()
    ours = by_projections(
        heard.module, heard.x, 16, heard.module.linear_out, ("linear_q", "linear_k", "linear_v"), causal=False,
        encoding=encoding, key_mask=RIGHT_PADDED,
    )  # fmt: skip
    inputs = [heard.x, *(p for p in of(heard.module) if p is not table)]
    assert_same(ours, heard.out, inputs, pairs=[(encoding.keys, table)], real=RIGHT_PADDED)
