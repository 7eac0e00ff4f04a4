"""Windows, softcaps, sinks, and scales that are not head_dim^-0.5, inside whole models of transformers."""

import pytest
import torch
import transformers as hf
from external_peers import LEFT_PADDED, TOKENS, assert_same, by_projections, joined, overhear, randomized, split
from external_peers import weights as of
from torch import Tensor, nn

from ropewalk import Rotary, YaRN, attend, positions

SIZES = {
    "vocab_size": 40, "hidden_size": 48, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 6,
    "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 64, "attn_implementation": "eager",
}  # fmt: skip
TYPES = ["sliding_attention", "full_attention"]
TOKEN_IDS = torch.arange(2 * TOKENS).reshape(2, TOKENS) * 7 % 40
PADDED = {
    "input_ids": TOKEN_IDS, "attention_mask": LEFT_PADDED, "position_ids": (LEFT_PADDED.cumsum(-1) - 1).clamp(min=0),
}  # fmt: skip
WHERE = positions.from_attention_mask(LEFT_PADDED)
SEEN = {"key_mask": LEFT_PADDED, "q_positions": WHERE, "k_positions": WHERE}


@pytest.mark.parametrize("window", [1, 5])
def test_gemma2_caps_logits_and_alternates_windows(window):
    config = hf.Gemma2Config(
        **SIZES, layer_types=TYPES, sliding_window=window, query_pre_attn_scalar=40, attn_logit_softcapping=3.0,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0},
    )  # fmt: skip
    heard = overhear(randomized(hf.Gemma2Model(config)), "Gemma2Attention", **PADDED)
    for one, each in zip(heard, [window, None], strict=True):
        ours = by_projections(
            one.module, one.x, 16, one.module.o_proj, encoding=Rotary(16, base=500.0), causal=True, window=each,
            softcap=3.0, scale=40**-0.5, **SEEN,
        )  # fmt: skip
        if each == 1:  # a token that sees itself alone: q and k get no gradient on either side
            assert_same(ours, one.out, [one.x, one.module.v_proj.weight, one.module.o_proj.weight], real=LEFT_PADDED)
        else:
            assert_same(ours, one.out, [one.x, *of(one.module)], real=LEFT_PADDED)


def test_gemma3_norms_heads_and_has_a_base_for_each_kind_of_layer():
    bases = {"sliding_attention": 100.0, "full_attention": 5000.0}
    config = hf.Gemma3TextConfig(
        **SIZES, layer_types=TYPES, sliding_window=5, query_pre_attn_scalar=40,
        rope_parameters={kind: {"rope_type": "default", "rope_theta": base} for kind, base in bases.items()},
    )  # fmt: skip
    heard = overhear(randomized(hf.Gemma3TextModel(config)), "Gemma3Attention", **PADDED)
    for one, window, kind in zip(heard, [5, None], TYPES, strict=True):
        ours = by_projections(
            one.module, one.x, 16, one.module.o_proj, encoding=Rotary(16, base=bases[kind]), causal=True,
            window=window, scale=40**-0.5, **SEEN,
        )  # fmt: skip
        assert_same(ours, one.out, [one.x, *one.module.parameters()], real=LEFT_PADDED)


def test_gemma3_looking_both_ways():
    """EmbeddingGemma: of a window of 8, each side sees 4 and its own place, distances below 5."""
    config = hf.Gemma3TextConfig(
        **SIZES, layer_types=TYPES, sliding_window=8, query_pre_attn_scalar=40, use_bidirectional_attention=True
    )
    heard = overhear(randomized(hf.Gemma3TextModel(config)), "Gemma3Attention", **PADDED)
    for one, window, base in zip(heard, [5, None], [1e4, 1e6], strict=True):
        ours = by_projections(
            one.module, one.x, 16, one.module.o_proj, encoding=Rotary(16, base=base), causal=False, window=window,
            scale=40**-0.5, **SEEN,
        )  # fmt: skip
        assert_same(ours, one.out, [one.x, *one.module.parameters()], real=LEFT_PADDED)


def test_modernbert_counts_its_window_to_each_side_without_the_middle():
    """local_attention=8 is distances up to 4, which is a window of 5 here; both ends are seen."""
    config = hf.ModernBertConfig(
        vocab_size=40, hidden_size=48, intermediate_size=32, num_hidden_layers=2, num_attention_heads=3, pad_token_id=0,
        layer_types=TYPES, local_attention=8, attn_implementation="eager",
        rope_parameters={kind: {"rope_type": "default", "rope_theta": 500.0} for kind in TYPES},
    )  # fmt: skip
    heard = overhear(randomized(hf.ModernBertModel(config)), "ModernBertAttention", **PADDED)
    for one, window in zip(heard, [5, None], strict=True):
        q, k, v = (split(part, 16) for part in one.module.Wqkv(one.x).chunk(3, dim=-1))
        seen = attend(q, k, v, causal=False, encoding=Rotary(16, base=500.0), window=window, **SEEN)
        assert_same(one.module.Wo(joined(seen)), one.out, [one.x, *of(one.module)], real=LEFT_PADDED)


def test_gpt_oss_has_sinks_and_yarn():
    yarn = {
        "rope_type": "yarn", "rope_theta": 500.0, "factor": 8.0, "original_max_position_embeddings": 8,
        "beta_fast": 2.0, "beta_slow": 1.0, "truncate": False,
    }  # fmt: skip
    config = hf.GptOssConfig(
        **SIZES, num_local_experts=2, num_experts_per_tok=1, layer_types=TYPES, sliding_window=5, rope_parameters=yarn
    )
    heard = overhear(randomized(hf.GptOssModel(config)), "GptOssAttention", **PADDED)
    rope = Rotary(
        16, base=500.0, scaling=YaRN(factor=8.0, original_length=8, beta_fast=2.0, beta_slow=1.0, truncate=False)
    )
    for one, window in zip(heard, [5, None], strict=True):
        ours = by_projections(
            one.module, one.x, 16, one.module.o_proj, encoding=rope, causal=True, window=window,
            sinks=one.module.sinks, **SEEN,
        )  # fmt: skip
        inputs = [one.x, one.module.sinks, *of(one.module)]
        assert_same(ours, one.out, inputs, real=LEFT_PADDED)


def test_deepseek_v4_turns_its_values_back():
    """One head of keys that are values too: rotated as keys, they leave the position of the query to undo."""
    config = hf.DeepseekV4Config(
        **{k: SIZES[k] for k in SIZES.keys() - {"intermediate_size", "num_key_value_heads", "num_hidden_layers"}},
        num_hidden_layers=1, layer_types=["sliding_attention"], mlp_layer_types=["moe"], qk_rope_head_dim=6,
        rope_theta=500.0, sliding_window=5, q_lora_rank=24, o_groups=2, o_lora_rank=8, moe_intermediate_size=16,
        n_routed_experts=2, num_experts_per_tok=1,
    )  # fmt: skip
    [one] = overhear(randomized(hf.DeepseekV4Model(config)), "DeepseekV4Attention", **PADDED)
    ours = deepseek_v4(one.module, one.x)
    assert_same(ours, one.out, [one.x, one.module.sinks, *of(one.module)], real=LEFT_PADDED)


def deepseek_v4(module: nn.Module, x: Tensor) -> Tensor:
    rope = Rotary(16, rotary_dim=6, base=500.0, block="trailing", layout="interleaved")
    back = Rotary(16, rotary_dim=6, base=500.0, block="trailing", layout="interleaved", reverse=True)
    q = module.q_b_norm(split(module.q_b_proj(module.q_a_norm(module.q_a_proj(x))), 16))
    k = split(module.kv_norm(module.kv_proj(x)), 16)
    v, _ = rope(k, k, WHERE)
    seen = attend(q, k, v, causal=True, encoding=rope, window=5, sinks=module.sinks, **SEEN)
    seen, _ = back(seen, seen, WHERE)
    grouped = joined(seen).unflatten(-1, (2, -1))
    return module.o_b_proj(module.o_a_proj(grouped).flatten(2))
