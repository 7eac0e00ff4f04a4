"""Models for the tests: the one that ships, and a tiny one whose weights are random."""

import json
from pathlib import Path

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)  # the tests run in parallel processes
# A slow machine is no fault, and a failure must be the same one when it is looked into.
settings.register_profile("ropewalk", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("ropewalk")

TINY = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 259, "hidden_size": 32,
    "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16,
    "max_position_embeddings": 64, "rope_theta": 100.0, "rms_norm_eps": 1e-6, "tie_word_embeddings": False,
    "bos_token_id": 256, "eos_token_id": 257, "pad_token_id": 258,
}  # fmt: skip


@pytest.fixture(scope="session")
def tiny(tmp_path_factory) -> Path:
    """A Llama of 2 layers with random weights, 64 native tokens, with the shipped byte tokenizer."""
    from transformers import LlamaConfig, LlamaForCausalLM

    from ropewalk.checkpoints.load import SHIPPED

    folder = tmp_path_factory.mktemp("models") / "tiny"
    torch.manual_seed(0)
    config = LlamaConfig(**{k: v for k, v in TINY.items() if k not in ("model_type", "rope_theta")})
    LlamaForCausalLM(config).save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(TINY))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((SHIPPED / name).read_bytes())
    return folder


@pytest.fixture(scope="session")
def prose(tmp_path_factory) -> Path:
    """A text of some thousand bytes."""
    file = tmp_path_factory.mktemp("texts") / "prose.txt"
    file.write_text("".join(f"Line {i}: the rope is laid along the walk, {i * i} strands of it.\n" for i in range(60)))
    return file
