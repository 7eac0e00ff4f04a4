"""GGUF metadata as the config that a Hugging Face directory would hold."""

import math
from pathlib import Path
from typing import Any

from ropewalk._errors import RopewalkError
from ropewalk.checkpoints.loader import quietly, transformers, where

ROPE, SCALING, OLD_FACTOR = ".rope.", "scaling.", "scale_linear"
# What llama.cpp's loader leaves at these values whatever the file says, or multiplies by: other values mean a file that
# it reads otherwise than its writer meant.
FIXED = {"attn_factor": 1.0, "yarn_ext_factor": 1.0, "yarn_beta_fast": 32.0, "yarn_beta_slow": 1.0,
         "yarn_log_multiplier": 0.0}  # fmt: skip
READ = {"type", "factor", "original_context_length", "finetuned", "yarn_attn_factor", *FIXED}


def read_gguf_config(path: Path) -> dict[str, Any]:
    """The config in a GGUF file's metadata, as transformers reads it; weights are not touched.

    A linear or yarn scaling, which transformers drops, is put back with the meaning that llama.cpp gives it.

    Raises:
        RopewalkError: not a GGUF, a damaged one, or one whose scaling no key of a config says exactly.
    """
    with path.open("rb") as file:
        magic = file.read(4)
    if magic != b"GGUF":
        raise RopewalkError(f"{path}: not a GGUF file")
    folder, safe = where(path)
    with quietly(path):
        config = transformers().AutoConfig.from_pretrained(folder, **safe).to_dict()
        stated, tensors = _rope_facts(path)
    if tensors:
        raise RopewalkError(
            f"{path}: it scales by factors of its own ({', '.join(tensors)}), which transformers drops from a GGUF; "
            "use the checkpoint that it was converted from"
        )
    try:
        return _with_scaling(config, _scaling_keys(stated))
    except RopewalkError as error:
        raise RopewalkError(f"{path}: {error}; use the checkpoint that it was converted from") from error


def _rope_facts(path: Path) -> tuple[dict[str, Any], list[str]]:
    """The metadata by which a GGUF scales its rotary frequencies, without the architecture's name, and such tensors."""
    from gguf import GGUFReader

    reader = GGUFReader(path)
    keys = {key.partition(ROPE)[2]: field.contents() for key, field in reader.fields.items() if ROPE in key}
    stated = {key: value for key, value in keys.items() if key.startswith((SCALING, OLD_FACTOR))}
    return stated, [tensor.name for tensor in reader.tensors if tensor.name.startswith("rope_")]


def _scaling_keys(stated: dict[str, Any]) -> dict[str, Any]:
    """The keys of `rope_scaling` that say what llama.cpp's loader makes of these; empty where nothing is scaled.

    A file without a type is linear, one without a factor unscaled. Of YaRN the Llama architecture and most others
    take factor and original length alone: the betas stay at 32 and 1, and the temperature at 0.1 ln(factor) + 1.
    Source: llama.cpp, src/llama-model.cpp and src/llama-context.cpp after pull request 17945; ggml's rope_yarn.
    """
    given = {key.removeprefix(SCALING): value for key, value in stated.items() if key != OLD_FACTOR}
    kind = given.get("type", "linear")
    factor = float(given.get("factor", stated.get(OLD_FACTOR, 0.0))) or 1.0
    if kind == "none" or (kind == "linear" and factor == 1):
        return {}
    _refuse_others(given, kind, factor)
    if kind == "linear":
        return {"rope_type": "linear", "factor": factor}
    if "original_context_length" not in given:
        raise RopewalkError(
            "it states a yarn scaling without its original length, for which llama.cpp takes the new one"
        )
    original = int(given["original_context_length"])
    return {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original}


def _refuse_others(given: dict[str, Any], kind: str, factor: float) -> None:
    """Whatever cannot be said exactly, or is said in vain."""
    names = ", ".join(f"{SCALING}{name}" for name in sorted(given))
    if kind not in ("linear", "yarn") or set(given) - READ:
        raise RopewalkError(f"it states a scaling ({names}) that no key of a config says")
    expected = {**FIXED, "yarn_attn_factor": 0.1 * math.log(factor) + 1}
    for name in expected.keys() & given.keys():
        if not math.isclose(given[name], expected[name], rel_tol=1e-6):
            raise RopewalkError(
                f"{SCALING}{name} = {given[name]:g} is not what llama.cpp computes with ({expected[name]:g}), "
                "so that its writer meant another scaling than the file has"
            )


def _with_scaling(config: dict[str, Any], keys: dict[str, Any]) -> dict[str, Any]:
    """`config` with the keys in the spelling that this transformers has."""
    own = config.get("rope_parameters")
    if not keys:
        return config
    if not own:  # transformers 4
        return {**config, "rope_scaling": keys}
    if "rope_theta" not in own:
        raise RopewalkError("it states one scaling for layers that have frequencies of their own kind each")
    return {**config, "rope_parameters": {**keys, "rope_theta": own["rope_theta"]}}
