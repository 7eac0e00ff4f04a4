"""vLLM and SGLang: servers that read config.json, with keys of it overridden by a flag."""

import math
from shlex import quote

from ropewalk.checkpoints.readers import SAME
from ropewalk.checkpoints.recipes.recipe import (
    DOCUMENTED,
    ORIGINAL,
    REFUSED,
    Recipe,
    can_be_restated,
    overrides,
    refusal,
    to_json,
)
from ropewalk.checkpoints.rope_keys import MSCALES
from ropewalk.checkpoints.spec import ModelSpec
from ropewalk.scaling import LongRoPE

VLLM = (
    "vLLM's page 'Context Extension' (docs.vllm.ai/en/stable/features/context_extension), its code in "
    "vllm/model_executor/layers/rotary_embedding/ (__init__.py at 926c71f, phi3_long_rope_scaled_rope.py at 17d618b) "
    "and its pull requests 28006, 27431 and 48351, read in December 2026"
)
SGLANG = (
    "SGLang's code in python/sglang/srt/layers/rotary_embedding/ (factory.py at 108c36c, yarn.py and rope_variant.py "
    "at 0b1fd02) and Qwen's model cards, read in December 2026"
)
OLD_LONGROPE = (
    "# needs a vLLM with its pull request 27431 (October 2025): before, the token just past the native length could be "
    "turned as if it were the first\n"
)
GGUF = "of a GGUF it reads neither scaling nor base as llama.cpp does; give the checkpoint that it was converted from"


def vllm(spec: ModelSpec, name: str) -> Recipe:
    """`vllm serve`; its default length is derived from factor and maximum together, so the length is always stated."""
    reason = GGUF if name.endswith(".gguf") else refusal("vLLM", spec) or _unread_temperature(spec)
    if reason:
        return Recipe("vllm", REFUSED, "", VLLM, reason)
    length = _flag("--max-model-len", spec)
    text = f"vllm serve {quote(name)}{length}\n"
    if can_be_restated(spec):
        text += _from_original(f"vllm serve {ORIGINAL}{length} --hf-overrides", spec)
        text += OLD_LONGROPE if overrides(spec)["rope_parameters"]["rope_type"] == "longrope" else ""
    return Recipe("vllm", DOCUMENTED, text, VLLM)


def sglang(spec: ModelSpec, name: str) -> Recipe:
    """`sglang.launch_server`, likewise."""
    reason = GGUF if name.endswith(".gguf") else refusal("SGLang", spec)
    if reason:
        return Recipe("sglang", REFUSED, "", SGLANG, reason)
    serve, length = "python -m sglang.launch_server --model-path", _flag("--context-length", spec)
    text = f"{serve} {quote(name)}{length}\n"
    if can_be_restated(spec):
        text += _from_original(f"{serve} {ORIGINAL}{length} --json-model-override-args", spec)
    return Recipe("sglang", DOCUMENTED, text, SGLANG)


def _unread_temperature(spec: ModelSpec) -> str:
    """vLLM takes longrope's temperature from the two mscales, and without them from the lengths alone."""
    keys = spec.config.get("rope_parameters") or spec.config.get("rope_scaling") or {}
    if not isinstance(spec.scaling, LongRoPE) or set(MSCALES) <= set(keys):
        return ""
    assert spec.max_length is not None  # longrope has no factor without one
    original = spec.scaling.original_length
    own = math.sqrt(1 + math.log(max(1.0, spec.max_length / original)) / math.log(original))
    stated = spec.main.rotary().frequencies(spec.max_length).attention_factor
    if math.isclose(own, stated, rel_tol=SAME):
        return ""
    return f"it reads {' and '.join(MSCALES)}, not attention_factor, and computes {own:.6g} where {stated:.6g} is meant"


def _flag(name: str, spec: ModelSpec) -> str:
    return f" {name} {spec.max_length}" if spec.max_length is not None else ""


def _from_original(command: str, spec: ModelSpec) -> str:
    keys = overrides(spec)
    stated = to_json({key: keys[key] for key in ("max_position_embeddings", "rope_parameters")})
    return f"# or, without the written checkpoint, from the one that it was made from:\n{command} {quote(stated)}\n"
