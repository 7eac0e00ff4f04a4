"""Every finding: a config that triggers it, and one as near to it as can be that does not."""

import json
import re
from pathlib import Path

import pytest

from ropewalk import from_config
from ropewalk.checkpoints.config import examined
from ropewalk.checkpoints.errors import SEVERITIES, ConfigError, Finding
from ropewalk.checkpoints.presets import PRESETS

SOURCES = Path(__file__).parents[2] / "src/ropewalk/checkpoints"
SIZES = {"hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 2, "max_position_embeddings": 4096}
LLAMA = {"model_type": "llama", **SIZES, "rope_theta": 10_000.0}
LONG = {**LLAMA, "max_position_embeddings": 16_384}
ORIGINAL = {"original_max_position_embeddings": 4096}
YARN = {"rope_type": "yarn", "factor": 4.0, **ORIGINAL}
LLAMA3 = {"rope_type": "llama3", "factor": 4.0, **ORIGINAL, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
FACTORS = {"short_factor": [1.0] * 32, "long_factor": [2.0] * 32}
LONGROPE = {"rope_type": "longrope", **ORIGINAL, **FACTORS}
DYNAMIC = {"rope_type": "dynamic", "factor": 2.0}
GEMMA3 = {"model_type": "gemma3_text", **SIZES, "head_dim": 64, "layer_types": ["sliding_attention", "full_attention"]}
OLMO3 = {**GEMMA3, "model_type": "olmo3"}
NESTED = {"sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
          "full_attention": {**YARN, "rope_theta": 1e6}}  # fmt: skip
BERT = {"model_type": "bert", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2,
        "max_position_embeddings": 512}  # fmt: skip
BLOOM = {"model_type": "bloom", "hidden_size": 64, "n_head": 4, "n_layer": 2}
MPT = {"model_type": "mpt", "d_model": 64, "n_heads": 4, "n_layers": 2, "max_seq_len": 2048}
PHI3 = {**LONG, "model_type": "phi3", **ORIGINAL}
NEOX = {"model_type": "gpt_neox", **SIZES, "rotary_pct": 0.25, "rotary_emb_base": 10_000}
VL = {"model_type": "qwen2_vl_text", **SIZES, "rope_theta": 1e6}
FITTING = {**VL, "rope_scaling": {"type": "mrope", "mrope_section": [8, 12, 12]}}
DEEPSEEK = {**LONG, "model_type": "deepseek_v3", "qk_rope_head_dim": 64, "rope_interleave": True}
MIXTRAL = {**LONG, "model_type": "mixtral"}
DBRX = {"model_type": "dbrx", "d_model": 256, "n_heads": 4, "n_layers": 2, "max_seq_len": 4096, "rope_theta": 10_000.0}


def without(config: dict, *keys: str) -> dict:
    return {key: value for key, value in config.items() if key not in keys}


# code -> trigger, near miss, and the length that is asked for
CASES: dict[str, tuple] = {
    "original-length-missing": ({**LONG, "rope_scaling": without(YARN, *ORIGINAL)}, {**LONG, "rope_scaling": YARN}),
    "original-length-overwritten": (
        {**LONG, "rope_scaling": YARN, "original_max_position_embeddings": 8192},
        {**LONG, "rope_scaling": YARN, **ORIGINAL},
    ),
    "factor-disagrees": ({**LONG, "rope_scaling": {**YARN, "factor": 8.0}}, {**LONG, "rope_scaling": YARN}),
    "native-length-guessed": (
        {**LONG, "rope_scaling": {"rope_type": "linear", "factor": 4.0}},
        {**LONG, "rope_scaling": {"rope_type": "linear", "factor": 4.0}, **ORIGINAL},
    ),
    "dynamic-no-op": (
        {**LONG, "rope_scaling": {**DYNAMIC, **ORIGINAL}},
        {**LLAMA, "rope_scaling": {**DYNAMIC, **ORIGINAL}},
    ),
    "dynamic-with-cache": (
        {**LLAMA, "rope_scaling": DYNAMIC},
        {**LLAMA, "rope_scaling": {**DYNAMIC, "rope_type": "linear"}},
    ),
    "longrope-with-cache": (
        {**LONG, "rope_scaling": LONGROPE},
        {**LONG, "rope_scaling": {**LONGROPE, "long_factor": [1.0] * 32}},
    ),
    "long-factor-unused": (
        {**PHI3, "model_type": "phimoe", "rope_scaling": {**LONGROPE, "short_mscale": 1.2, "long_mscale": 1.2}},
        {**PHI3, "rope_scaling": {**LONGROPE, "short_mscale": 1.2, "long_mscale": 1.2}},
    ),
    "temperature-cancelled": (
        {**DEEPSEEK, "model_type": "llama", "rope_scaling": {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}},
        {**DEEPSEEK, "rope_scaling": {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}},
    ),
    "mscale-ignored": (
        {**LONG, "rope_scaling": {**YARN, "mscale": 0.7}},
        {**LONG, "rope_scaling": {**YARN, "mscale": 0.7, "mscale_all_dim": 0.5}},
    ),
    "beta-ignored": (
        {**LONG, "rope_scaling": {**YARN, "beta_slow": 0}},
        {**LONG, "rope_scaling": {**YARN, "beta_slow": 0.5}},
    ),
    "truncate-ignored": (
        {**GEMMA3, "rope_parameters": {**NESTED, "full_attention": {**NESTED["full_attention"], "truncate": False}}},
        {**GEMMA3, "rope_parameters": {**NESTED, "full_attention": {**NESTED["full_attention"], "truncate": True}}},
    ),
    "mscale-unread": (
        {**LONG, "rope_scaling": {**LONGROPE, "short_mscale": 1.2}},
        {**LONG, "rope_scaling": {**LONGROPE, "short_mscale": 1.2, "attention_factor": 1.2}},
    ),
    "attention-factor-contradicted": (
        {**LONG, "rope_scaling": {**LONGROPE, "attention_factor": 1.1, "short_mscale": 1.2}},
        {**LONG, "rope_scaling": {**LONGROPE, "attention_factor": 1.1, "short_mscale": 1.1}},
    ),
    "scaling-dropped": (
        {**OLMO3, "rope_parameters": {**YARN, "rope_theta": 1e4}},
        {**OLMO3, "rope_parameters": {**NESTED, "full_attention": {**YARN, "rope_theta": 1e4}}},
    ),
    "unread-by-transformers-4": (
        {**without(LONG, "rope_theta"), "rope_parameters": {**YARN, "rope_theta": 5e5}},
        {**LONG, "rope_theta": 5e5, "rope_scaling": YARN, "rope_parameters": {**YARN, "rope_theta": 5e5}},
    ),
    "spellings-contradict": (
        {**LONG, "rope_scaling": YARN, "rope_parameters": {**YARN, "factor": 2.0, "rope_theta": 1e4}},
        {**LONG, "rope_scaling": YARN, "rope_parameters": {**YARN, "rope_theta": 1e4}},
    ),
    "base-contradicted": (
        {**LLAMA, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}},
        {**LLAMA, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}},
    ),
    "share-contradicted": (
        {
            **LLAMA,
            "model_type": "stablelm",
            "partial_rotary_factor": 0.5,
            "rope_scaling": {"partial_rotary_factor": 0.25},
        },
        {
            **LLAMA,
            "model_type": "stablelm",
            "partial_rotary_factor": 0.25,
            "rope_scaling": {"partial_rotary_factor": 0.25},
        },
    ),
    "base-lost": (
        {**without(LONG, "rope_theta"), "rope_scaling": YARN, "rope_parameters": {**YARN, "rope_theta": 5e5}},
        {**LONG, "rope_theta": 5e5, "rope_scaling": YARN, "rope_parameters": {**YARN, "rope_theta": 5e5}},
    ),
    "base-ignored": ({**NEOX, "rope_theta": 5e5}, {**NEOX, "rope_theta": 1e4}),
    "share-ignored": (
        {**LLAMA, "partial_rotary_factor": 0.5},
        {**LLAMA, "model_type": "glm", "partial_rotary_factor": 0.5},
    ),
    "share-by-scaling": (
        {**LONG, "partial_rotary_factor": 0.5, "rope_scaling": YARN},
        {**LONG, "model_type": "glm", "partial_rotary_factor": 0.5, "rope_scaling": YARN},
    ),
    "rope-type-unknown": ({**LONG, "rope_scaling": {**YARN, "rope_type": "yarm"}}, {**LONG, "rope_scaling": YARN}),
    "rope-type-contradicted": (
        {**LONG, "rope_scaling": {**YARN, "type": "linear"}},
        {**LONG, "rope_scaling": {**YARN, "type": "yarn"}},
    ),
    "rope-type-alias": ({**PHI3, "rope_scaling": {**LONGROPE, "rope_type": "su"}}, {**PHI3, "rope_scaling": LONGROPE}),
    "rope-type-refused": (
        {**PHI3, "rope_scaling": {"rope_type": "linear", "factor": 4.0}},
        {**PHI3, "rope_scaling": LONGROPE},
    ),
    "rope-nested": ({**LONG, "rope_parameters": {"full_attention": YARN}}, {**LONG, "rope_parameters": YARN}),
    "rope-flat": (
        {**GEMMA3, "model_type": "modernbert", "rope_parameters": {"rope_type": "linear", "factor": 2.0}},
        {**GEMMA3, "model_type": "modernbert", "rope_scaling": {"rope_type": "linear", "factor": 2.0}},
    ),
    "head-dim-null": ({**MIXTRAL, "rope_scaling": YARN}, {**MIXTRAL, "rope_scaling": YARN, "head_dim": 64}),
    "layer-type-unknown": ({**GEMMA3, "layer_types": ["sliding_atention", "full_attention"]}, GEMMA3),
    "layer-types-length": ({**GEMMA3, "layer_types": ["full_attention"]}, GEMMA3),
    "factors-do-not-fit": (
        {**LONG, "head_dim": 32, "rope_scaling": LONGROPE},
        {**LONG, "head_dim": 64, "rope_scaling": LONGROPE},
    ),
    "key-unread": ({**LLAMA, "sliding_window": 1024}, {**LLAMA, "sliding_window": None}),
    "key-overruled": ({**GEMMA3, "sliding_window_pattern": 1}, {**GEMMA3, "sliding_window_pattern": 2}),
    "null-stated": ({**LLAMA, "rope_theta": None}, without(LLAMA, "rope_theta")),
    "window-missing": ({**GEMMA3, "sliding_window": None}, {**GEMMA3, "sliding_window": 512}),
    "sections-do-not-fit": ({**VL, "rope_scaling": {"type": "mrope", "mrope_section": [8, 8, 8]}}, FITTING),
    "alibi-in-bf16": ({**BLOOM, "torch_dtype": "bfloat16"}, {**BLOOM, "torch_dtype": "float32"}),
    "alibi-key-ignored": ({**MPT, "attn_config": {"alibi": False}}, {**MPT, "attn_config": {"alibi": True}}),
    "window-short": (
        {**LLAMA, "model_type": "mistral", "sliding_window": 1024},
        {**LLAMA, "model_type": "mistral", "sliding_window": 4096},
    ),
    "frequencies-in-weights": (
        {**BERT, "model_type": "esm", "position_embedding_type": "rotary", "pad_token_id": 1},
        {**BERT, "model_type": "esm", "position_embedding_type": "absolute", "pad_token_id": 1},
    ),
    "table-short": (BERT, BERT, 513, 512),
    "beyond-the-claim": (LLAMA, LLAMA, 4097, 4096),
    "key-misspelt": ({**without(LLAMA, "rope_theta"), "rope_thet": 5e5}, LLAMA),
    "key-missing": (without(LLAMA, "num_hidden_layers"), LLAMA),
    "key-unknown": (
        {**LONG, "rope_scaling": {**YARN, "attn_factor": 1.0}},
        {**LONG, "rope_scaling": {**YARN, "attention_factor": 1.0}},
    ),
    "key-contradicted": ({**DBRX, "hidden_size": 128}, {**DBRX, "hidden_size": 256}),
    "value-impossible": ({**LONG, "rope_scaling": {**YARN, "factor": 0.5}}, {**LONG, "rope_scaling": YARN}),
    "model-type-unknown": ({**LLAMA, "model_type": "chatglm"}, LLAMA),
    "model-type-without-rule": ({**BERT, "model_type": "vit"}, BERT),
    "part-unknown": ({**VL, "model_type": "qwen2_vl"}, {"model_type": "qwen2_vl", "vision_config": {"depth": 1}}),
    "pairing-unread": ({**LLAMA, "rope_interleave": True}, {**LLAMA, "rope_interleave": False}),
    "part-read": ({"model_type": "qwen2_vl", "text_config": FITTING}, FITTING),
    "assumed": (without(LLAMA, "rope_theta"), LLAMA),
}
PARTS = {"part-unknown": ("audio_config", "vision_config")}


def findings(config: dict, to: int | None = None, part: str | None = None) -> tuple[Finding, ...]:
    try:
        return examined(json.loads(json.dumps(config)), part=part, to=to).findings
    except ConfigError as error:
        return (error.finding,)


def test_every_code_has_a_case():
    text = "".join(file.read_text() for file in SOURCES.rglob("*.py"))
    codes = set(re.findall(r'(?:Finding|ConfigError)\(\s*"([a-z0-9-]+)"', text))
    codes |= set(re.findall(r'"((?:base|share)-contradicted|original-length-missing)"', text))
    assert codes == set(CASES)


@pytest.mark.parametrize("code", CASES)
def test_a_trap_is_found_and_its_near_miss_is_not(code):
    trigger, miss, *lengths = CASES[code]
    at, near = lengths or (None, None)
    part, other = PARTS.get(code, (None, None))
    found = [finding for finding in findings(trigger, at, part) if finding.code == code]
    assert len(found) >= 1
    for finding in found:
        assert finding.severity in SEVERITIES
        assert finding.message
        assert finding.fix or finding.code == "value-impossible"
    assert code not in {finding.code for finding in findings(miss, near, other)}


@pytest.mark.parametrize("key", ["no_rope_layers", "layer_types"])
def test_a_null_list_is_laid_out_by_the_rule(key):
    config = {**LLAMA, "model_type": "smollm3", "use_sliding_window": False, "no_rope_layer_interval": 4, key: None}
    assert "null-stated" not in {finding.code for finding in findings(config)}


RIGHT = {
    "plain": LLAMA,
    "yarn, old spelling": {**LONG, "rope_scaling": YARN},
    "yarn, new spelling": {**without(LONG, "rope_theta"), "rope_parameters": {**YARN, "rope_theta": 5e5}},
    "yarn, both": {**LONG, "rope_scaling": YARN, "rope_parameters": {**YARN, "rope_theta": 1e4}, **ORIGINAL},
    "llama3": {**LONG, "rope_theta": 5e5, "rope_scaling": LLAMA3},
    "a dict for each layer type": {**GEMMA3, "max_position_embeddings": 16_384, "rope_parameters": NESTED},
    "deepseek": {**DEEPSEEK, "rope_scaling": {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}},
    **{name: preset.config for name, preset in PRESETS.items() if preset.config is not None},
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_config_gives_no_more_than_notes(name):
    assert [finding for finding in findings(dict(RIGHT[name])) if finding.severity != "note"] == []


def test_an_error_of_transformers_4_is_one_only_where_the_config_names_it():
    config, _ = CASES["unread-by-transformers-4"]
    for version, severity in (("4.57.1", "error"), ("5.2.0", "note"), (None, "note")):
        found = {f.code: f.severity for f in findings({**config, "transformers_version": version})}
        assert found["unread-by-transformers-4"] == severity


def test_an_error_holds_its_finding_and_names_the_key():
    with pytest.raises(ConfigError, match="'original_max_position_embeddings' is missing; write it") as caught:
        from_config(CASES["original-length-missing"][0])
    assert caught.value.finding.to_dict()["severity"] == "error"
