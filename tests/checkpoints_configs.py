"""Good configs of many kinds, of position keys only, for tests that spoil them."""

from typing import Any

SIZES = {"hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 4, "max_position_embeddings": 16_384}
ORIGINAL = {"original_max_position_embeddings": 4096}
YARN = {"rope_type": "yarn", "factor": 4.0, **ORIGINAL, "beta_fast": 32.0, "beta_slow": 1.0}
BANDS = {"rope_type": "llama3", "factor": 4.0, **ORIGINAL, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
FACTORS = {"short_factor": [1.0] * 32, "long_factor": [2.0] * 32}
TYPES = ["sliding_attention", "full_attention"] * 2

CONFIGS: dict[str, dict[str, Any]] = {
    "plain": {"model_type": "llama", **SIZES, "rope_theta": 5e5, "head_dim": 64},
    "yarn": {"model_type": "llama", **SIZES, "rope_theta": 5e5, "rope_scaling": YARN},
    "yarn, new spelling": {"model_type": "llama", **SIZES, "rope_parameters": {**YARN, "rope_theta": 5e5}},
    "llama3": {"model_type": "llama", **SIZES, "rope_theta": 5e5, "rope_scaling": BANDS},
    "linear": {"model_type": "llama", **SIZES, "rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 4.0}},
    "dynamic": {"model_type": "llama", **SIZES, "rope_theta": 5e5, "rope_scaling": {"type": "dynamic", "factor": 4.0}},
    "longrope": {"model_type": "phi3", **SIZES, "rope_theta": 5e5, **ORIGINAL,
                 "rope_scaling": {"type": "longrope", **FACTORS}},
    "nested": {"model_type": "gemma3_text", **SIZES, "head_dim": 64, "sliding_window": 512, "layer_types": TYPES,
               "rope_parameters": {"full_attention": {**YARN, "rope_theta": 1e6},
                                   "sliding_attention": {"rope_type": "default", "rope_theta": 12_345.0}}},
    "alternating": {"model_type": "gemma2", **SIZES, "head_dim": 64, "rope_theta": 20_000.0, "sliding_window": 512},
    "switched": {"model_type": "qwen2", **SIZES, "rope_theta": 1e6, "sliding_window": 512, "use_sliding_window": True,
                 "max_window_layers": 2},
    "latent": {"model_type": "deepseek_v3", **SIZES, "rope_theta": 20_000.0, "qk_rope_head_dim": 32,
               "rope_scaling": {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}},
    "composite": {"model_type": "qwen2_vl", "text_config": {
        "model_type": "qwen2_vl_text", **SIZES, "rope_theta": 1e6,
        "rope_scaling": {"type": "mrope", "mrope_section": [8, 12, 12]}}},
    "partial": {"model_type": "gpt_neox", **SIZES, "rotary_pct": 0.5, "rotary_emb_base": 20_000},
    "table": {"model_type": "bert", **SIZES},
    "padded table": {"model_type": "roberta", **SIZES, "pad_token_id": 3},
    "alibi": {"model_type": "bloom", "hidden_size": 64, "n_head": 4, "n_layer": 2},
    "alibi or not": {"model_type": "falcon", **SIZES, "alibi": False, "rope_theta": 20_000.0},
    "unrotated": {"model_type": "smollm3", **SIZES, "rope_theta": 1e6, "no_rope_layers": [1, 0, 1, 1]},
    "chunked": {"model_type": "llama4_text", **SIZES, "head_dim": 64, "rope_theta": 1e6,
                "no_rope_layers": [1, 1, 1, 0]},
}  # fmt: skip
