"""Rotary attention inside whole models of transformers, each with its own layout, width and sign."""

import pytest
import torch
import transformers as hf
from external_peers import LEFT_PADDED, TOKENS, assert_same, by_projections, joined, overhear, randomized, sample, split
from external_peers import weights as of
from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4RotaryEmbedding
from transformers.models.deepseek_v4.modeling_deepseek_v4 import apply_rotary_pos_emb as deepseek_rotary
from transformers.models.nanochat.modeling_nanochat import NanoChatRotaryEmbedding
from transformers.models.nanochat.modeling_nanochat import apply_rotary_pos_emb as nanochat_rotary

from ropewalk import Rotary, attend, positions

GROUPED = {
    "vocab_size": 40, "hidden_size": 48, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 6,
    "num_key_value_heads": 2, "max_position_embeddings": 6000, "attn_implementation": "eager",
}  # fmt: skip
TOKEN_IDS = torch.arange(2 * TOKENS).reshape(2, TOKENS) * 7 % 40
# Positions of a left-padded batch as `generate` makes them, from 0 and from far on.
COUNTED = (LEFT_PADDED.cumsum(-1) - 1).clamp(min=0)
PLACES = pytest.mark.parametrize(("start", "numerics"), [(0, "float64"), (5000, "float32")])
BACKENDS = pytest.mark.parametrize("backend", ["sdpa", "reference"])


def padded(start: int) -> dict:
    return {"input_ids": TOKEN_IDS, "attention_mask": LEFT_PADDED, "position_ids": COUNTED + start}


def ours_padded(start: int) -> dict:
    where = positions.from_attention_mask(LEFT_PADDED) + start
    return {"causal": True, "key_mask": LEFT_PADDED, "q_positions": where, "k_positions": where}


@PLACES
@BACKENDS
def test_llama_with_grouped_keys(start, numerics, backend):
    config = hf.LlamaConfig(**GROUPED, head_dim=16, rope_parameters={"rope_type": "default", "rope_theta": 500.0})
    [heard] = overhear(randomized(hf.LlamaModel(config)), "LlamaAttention", **padded(start))
    rope, how = Rotary(16, base=500.0, numerics=numerics), {**ours_padded(start), "backend": backend}
    ours = by_projections(heard.module, heard.x, 16, heard.module.o_proj, encoding=rope, **how)
    assert_same(ours, heard.out, [heard.x, *of(heard.module)], real=LEFT_PADDED)


def test_llama_with_packed_documents():
    """transformers reads the borders off positions that start again."""
    config = hf.LlamaConfig(**GROUPED, head_dim=16, rope_parameters={"rope_type": "default", "rope_theta": 500.0})
    where = torch.tensor([[*range(7), *range(2), *range(15)]])
    inputs = {"input_ids": TOKEN_IDS[:1], "position_ids": where, "use_cache": False}
    [heard] = overhear(randomized(hf.LlamaModel(config)), "LlamaAttention", **inputs)
    borders = torch.tensor([0, 7, 9, 24])
    packed = positions.from_cu_seqlens(borders)
    ours = by_projections(
        heard.module, heard.x, 16, heard.module.o_proj, encoding=Rotary(16, base=500.0), causal=True,
        q_positions=packed, k_positions=packed, documents=positions.documents(borders),
    )  # fmt: skip
    assert_same(ours, heard.out, [heard.x, *of(heard.module)])


def test_llama_last_queries_against_all_keys():
    config = hf.LlamaConfig(**GROUPED, head_dim=16, rope_parameters={"rope_type": "default", "rope_theta": 500.0})
    [heard] = overhear(randomized(hf.LlamaModel(config)), "LlamaAttention", input_ids=TOKEN_IDS)
    q, k, v = (split(getattr(heard.module, f"{letter}_proj")(heard.x), 16) for letter in "qkv")
    seen = attend(q[:, :, -5:], k, v, causal=True, encoding=Rotary(16, base=500.0))
    assert_same(heard.module.o_proj(joined(seen)), heard.out[:, -5:], [heard.x, *of(heard.module)])


@PLACES
def test_gpt_neox_turns_the_leading_quarter(start, numerics):
    parameters = {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.25}
    config = hf.GPTNeoXConfig(
        **{k: v for k, v in GROUPED.items() if k != "num_key_value_heads"}, rope_parameters=parameters
    )
    config.hidden_size = 96  # heads of 16, of which 4 turn
    [heard] = overhear(randomized(hf.GPTNeoXModel(config), 0.2), "GPTNeoXAttention", **padded(start))
    rope = Rotary(16, rotary_dim=4, base=500.0, numerics=numerics)
    q, k, v = split(heard.module.query_key_value(heard.x), 48).chunk(3, dim=-1)  # by head: its q, its k, its v
    ours = heard.module.dense(joined(attend(q, k, v, encoding=rope, **ours_padded(start))))
    assert_same(ours, heard.out, [heard.x, *of(heard.module)], real=LEFT_PADDED)


@PLACES
def test_gpt_j_turns_neighbours_of_the_leading_part(start, numerics):
    config = hf.GPTJConfig(
        vocab_size=40, n_embd=48, n_layer=1, n_head=3, rotary_dim=6, n_positions=6000, n_inner=32,
        attn_implementation="eager",
    )  # fmt: skip
    [heard] = overhear(randomized(hf.GPTJModel(config)), "GPTJAttention", **padded(start))
    rope = Rotary(16, rotary_dim=6, layout="interleaved", numerics=numerics)
    ours = by_projections(heard.module, heard.x, 16, heard.module.out_proj, encoding=rope, **ours_padded(start))
    assert_same(ours, heard.out, [heard.x, *of(heard.module)], real=LEFT_PADDED)


@PLACES
def test_glm_turns_neighbours_of_the_leading_half(start, numerics):
    parameters = {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5}
    config = hf.GlmConfig(**GROUPED, head_dim=16, pad_token_id=0, rope_parameters=parameters)
    [heard] = overhear(randomized(hf.GlmModel(config)), "GlmAttention", **padded(start))
    rope = Rotary(16, rotary_dim=8, base=500.0, layout="interleaved", numerics=numerics)
    ours = by_projections(heard.module, heard.x, 16, heard.module.o_proj, encoding=rope, **ours_padded(start))
    assert_same(ours, heard.out, [heard.x, *of(heard.module)], real=LEFT_PADDED)


@PLACES
def test_nanochat_turns_backwards(start, numerics):
    """It norms after it turns; its norm has no weights, so that the two commute."""
    config = hf.NanoChatConfig(**GROUPED, rope_parameters={"rope_type": "default", "rope_theta": 500.0})
    [heard] = overhear(randomized(hf.NanoChatModel(config)), "NanoChatAttention", **padded(start))
    rope = Rotary(8, base=500.0, reverse=True, numerics=numerics)
    ours = by_projections(heard.module, heard.x, 8, heard.module.o_proj, encoding=rope, **ours_padded(start))
    assert_same(ours, heard.out, [heard.x, *of(heard.module)], real=LEFT_PADDED)


@PLACES
def test_nanochat_rotation_alone(start, numerics):
    config = hf.NanoChatConfig(**GROUPED, rope_parameters={"rope_type": "default", "rope_theta": 500.0})
    q, k, where = sample(2, 6, TOKENS, 8), sample(2, 2, TOKENS, 8, seed=2), positions.arange(TOKENS, start)
    theirs = nanochat_rotary(q, k, *NanoChatRotaryEmbedding(config)(q, where[None]))
    ours = Rotary(8, base=500.0, reverse=True, numerics=numerics)(q, k, where)
    assert_same(ours[0], theirs[0], [q])
    assert_same(ours[1], theirs[1], [k])


@PLACES
@pytest.mark.parametrize("back", [False, True])
def test_deepseek_v4_rotation_alone(start, numerics, back):
    """Neighbours of the trailing part turn. Values are keys there, so that outputs are turned back."""
    config = hf.DeepseekV4Config(
        num_hidden_layers=1, layer_types=["sliding_attention"], head_dim=16, qk_rope_head_dim=6
    )
    x, where = sample(2, 4, TOKENS, 16), positions.arange(TOKENS, start)
    cos, sin = DeepseekV4RotaryEmbedding(config)(x, where[None], layer_type="main")
    theirs = deepseek_rotary(x, cos, -sin if back else sin)
    rope = Rotary(16, rotary_dim=6, block="trailing", layout="interleaved", reverse=back, numerics=numerics)
    assert_same(rope(x, x, where)[0], theirs, [x])
