"""Small transformers models whose attention is far from even, so that a wrong position shows."""

from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

if transformers.__version__.startswith("4."):
    pytest.skip("scalings and encodings go into models of transformers 5", allow_module_level=True)

NATIVE = 32
SIZES = {"vocab_size": 64, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": NATIVE, "initializer_range": 0.3, "pad_token_id": 0,
         "bos_token_id": 1, "eos_token_id": 2}  # fmt: skip
OWN: dict[str, dict[str, Any]] = {
    "gpt_neox": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}},
    "phi": {"num_key_value_heads": 4},
    "phi3": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}},
    "gemma": {"head_dim": 16},
    "gemma2": {"head_dim": 16, "sliding_window": 12, "query_pre_attn_scalar": 16, "attn_logit_softcapping": 5.0},
    "gemma3_text": {"head_dim": 16, "sliding_window": 12, "query_pre_attn_scalar": 16,
                    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
    "qwen3": {"head_dim": 16},
    "mistral": {"sliding_window": 12},
    "glm": {"head_dim": 16},
}  # fmt: skip
KINDS = ("llama", "gpt_neox", "phi", "phi3", "gemma", "gemma2", "gemma3_text", "qwen2", "qwen3", "mistral", "glm")


def made(kind: str, **more: Any) -> Any:
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **{**SIZES, **OWN.get(kind, {}), **more})
    return AutoModelForCausalLM.from_config(config).eval()


def text(length: int, rows: int = 1) -> Tensor:
    return torch.randint(3, 64, (rows, length), generator=torch.Generator().manual_seed(length))


def logits(model: Any, tokens: Tensor, **given: Any) -> Tensor:
    with torch.no_grad():
        return model(tokens, use_cache=False, **given).logits


def in_parts(model: Any, tokens: Tensor, parts: list[int], mask: Tensor | None = None) -> Tensor:
    """The logits of tokens given a few at a time, with a cache."""
    cache, found, first = None, [], 0
    for count in parts:
        last = first + count
        seen = {} if mask is None else {"attention_mask": mask[:, :last]}
        with torch.no_grad():
            out = model(tokens[:, first:last], past_key_values=cache, use_cache=True, **seen)
        cache, first = out.past_key_values, last
        found.append(out.logits)
    return torch.cat(found, dim=1)


def written(model: Any, tokens: Tensor, new: int, **given: Any) -> tuple[Tensor, Tensor]:
    """A greedy text and the logits by which its tokens were chosen, [B, new, vocab]."""
    given = {"attention_mask": torch.ones_like(tokens), "use_cache": True} | given
    out = model.generate(
        tokens, max_new_tokens=new, min_new_tokens=new, do_sample=False, return_dict_in_generate=True,
        output_logits=True, **given,
    )  # fmt: skip
    return out.sequences, torch.stack(out.logits, dim=1)
