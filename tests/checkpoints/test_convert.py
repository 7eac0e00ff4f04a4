"""Checkpoints laid out for the other pairing: bits kept, nothing computed otherwise, and whoever reads them knows."""

import json
import shutil

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import nn

from ropewalk import RopewalkError, convert, detect_layout, from_config, models
from ropewalk._errors import VerificationError
from ropewalk.checkpoints.convert import proof, rewrite
from ropewalk.checkpoints.convert.families import FAMILIES
from ropewalk.checkpoints.convert.order import order
from ropewalk.checkpoints.load import SHIPPED, load

SMALL = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1,
         "eos_token_id": 2}  # fmt: skip
EIGHT = {"head_dim": 8}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
MLA = {"q_lora_rank": 12, "kv_lora_rank": 8, "qk_nope_head_dim": 6, "qk_rope_head_dim": 8, "v_head_dim": 8,
       "n_routed_experts": 4, "n_group": 2, "topk_group": 1, "num_experts_per_tok": 2, "first_k_dense_replace": 2,
       "moe_intermediate_size": 16, "num_key_value_heads": 4, "num_local_experts": 4}  # fmt: skip
VARIANTS = {
    "llama": {"attention_bias": True, "tie_word_embeddings": True}, "mistral": {"head_dim": 12}, "mixtral": {"num_local_experts": 2},
    "ministral": EIGHT, "qwen2_moe": {**EXPERTS, "shared_expert_intermediate_size": 16}, "qwen3": EIGHT,
    "qwen3_moe": {**EIGHT, **EXPERTS}, "gemma": EIGHT, "gemma2": EIGHT, "gemma3_text": EIGHT, "helium": EIGHT,
    "ernie4_5": EIGHT, "glm": {**EIGHT, "attention_bias": True}, "glm4": EIGHT, "cohere": {"use_qk_norm": True},
    "phi": {"qk_layernorm": True}, "stablelm": {"qk_layernorm": True, "partial_rotary_factor": 0.5}, "phi3": {"partial_rotary_factor": 0.5},
    "gpt_neox": {"rotary_pct": 0.5}, "deepseek_v3": MLA, "youtu": {**MLA, "rope_interleave": True}, "glm4_moe_lite": MLA, "olmo": {"clip_qkv": 0.5},
}  # fmt: skip


def made(folder, kind, **more):
    """A model of `kind` whose every number is random, norms and biases too, saved in `folder`."""
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **{**SMALL, **VARIANTS.get(kind, {}), **more})
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    return folder


def other(layout):
    return {"half": "interleaved", "interleaved": "half"}[layout]


def weights(folder):
    return {name: tensor for file in sorted(folder.glob("*.safetensors")) for name, tensor in load_file(file).items()}


def config(folder):
    return json.loads((folder / "config.json").read_text())


def same_bits(a, b):
    assert a.keys() == b.keys()
    return all(a[name].dtype == b[name].dtype and torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("kind", FAMILIES)
def test_every_family_goes_there_with_the_same_logits_and_comes_back_bit_for_bit(kind, tmp_path):
    start = made(tmp_path / "start", kind)
    native = from_config(start).main.layout
    done = convert(start, layout=other(native), out=tmp_path / "there")
    assert done.scores_error < 1e-5
    assert done.logits_error < 1e-5, done.not_run
    assert done.misread_error > 1e-3
    there = from_config(tmp_path / "there")
    assert {layer.layout for layer in there.layers if layer.rotates} == {other(native)} == {there.turned}
    assert not same_bits(weights(tmp_path / "there"), weights(start))
    convert(tmp_path / "there", layout=native, out=tmp_path / "back")
    assert same_bits(weights(tmp_path / "back"), weights(start))
    assert config(tmp_path / "back") == config(start)
