"""`from_config`: what a checkpoint states about position, from its config."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ropewalk._checks import number, whole
from ropewalk._errors import RopewalkError
from ropewalk.checkpoints.gguf import read_gguf_config
from ropewalk.checkpoints.rope_keys import from_keys, rope_type
from ropewalk.checkpoints.spec import LayerSpec, ModelSpec
from ropewalk.scaling import Linear, Proportional, Scaling


class Defaults(NamedTuple):
    """What transformers takes where a config is silent."""

    base: float = 10_000.0
    window: int | None = None
    head_dim: int | None = None  # None: hidden_size / num_attention_heads


# Model types that rotate as Llama does: whole heads in the half layout, one base and one scaling for all layers.
LLAMA_LIKE = {
    "llama": Defaults(),
    "mistral": Defaults(window=4096),
    "mixtral": Defaults(base=1_000_000.0),
    "olmo2": Defaults(),
    "qwen2": Defaults(window=4096),
    "qwen3": Defaults(window=4096, head_dim=128),
}
NOT_ROTARY = {
    "gpt2": "a learned table",
    "gpt_neo": "a learned table",
    "opt": "a learned table",
    "bert": "a learned table",
    "roberta": "a learned table",
    "bart": "a learned table",
    "bloom": "ALiBi",
    "mpt": "ALiBi",
    "t5": "T5's bias",
}


def from_config(source: Any) -> ModelSpec:
    """The position encoding of a checkpoint, as transformers computes it.

    Args:
        source: a dict, a transformers config object, a config.json, a model directory, or a .gguf file.

    Returns:
        ModelSpec, whose `layers[i].rotary()` is the encoding of layer i.

    Raises:
        RopewalkError: not a rotary model, an unknown model type, or a key that is missing, unknown or impossible;
            the message names it.

    Example:
        >>> spec = from_config({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 2,
        ...                     "num_hidden_layers": 1, "max_position_embeddings": 2048, "rope_theta": 10000.0})
        >>> spec.native_length, spec.layers[0].head_dim
        (2048, 32)
    """
    config = read_config(source)
    model_type = str(_required(config, "model_type"))
    if model_type in NOT_ROTARY:
        raise RopewalkError(
            f"model_type {model_type!r} uses {NOT_ROTARY[model_type]} and has no rotary encoding; "
            "only rotary models can be extended by a scaling"
        )
    if model_type not in LLAMA_LIKE:
        raise RopewalkError(
            f"model_type {model_type!r} is not among those whose rotary facts are known "
            f"({', '.join(sorted(LLAMA_LIKE))}): its layout, rotary width and per-layer rules would be a guess"
        )
    max_length = _count(config, "max_position_embeddings")
    keys, base = _rope_keys(config), _base(config, LLAMA_LIKE[model_type].base)
    original = config.get("original_max_position_embeddings")
    if original is not None:
        original = whole("config", "original_max_position_embeddings", original, least=1)
    scaling = from_keys(keys, max_length=max_length, original_length=original)
    layer, windows = _layer(config, model_type, keys, base, scaling), _windows(config, model_type)
    layers = tuple(replace(layer, window=window) for window in windows)
    native_length = _native_length(scaling, max_length, original)
    return ModelSpec(model_type, native_length, max_length, layers, dict(config))


def read_config(source: Any) -> dict[str, Any]:
    """The config behind `source`, as a plain dict."""
    if isinstance(source, Mapping):
        return dict(source)
    if hasattr(source, "to_dict"):
        return source.to_dict()
    path = Path(source)
    if path.is_dir():
        path = path / "config.json"
    if not path.is_file():
        raise RopewalkError(f"{path}: no such file; give a model directory with a config.json, or a .gguf file")
    if path.suffix == ".gguf":
        return read_gguf_config(path)
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise RopewalkError(f"{path}: not JSON ({error})") from error
    if not isinstance(config, dict):
        raise RopewalkError(f"{path}: holds {type(config).__name__}, not the object that a config is")
    return config


def _required(config: Mapping[str, Any], key: str) -> Any:
    if config.get(key) is None:
        raise RopewalkError(f"config: the key {key!r} is missing")
    return config[key]


def _count(config: Mapping[str, Any], key: str) -> int:
    return whole("config", key, _required(config, key), least=1)


def _rope_keys(config: Mapping[str, Any]) -> dict[str, Any]:
    """The rope dict, from whichever spelling the config has; two that disagree are an error."""
    dicts = {key: config[key] for key in ("rope_parameters", "rope_scaling") if config.get(key)}
    for name, keys in dicts.items():
        if not isinstance(keys, Mapping):
            raise RopewalkError(f"config: {name}={keys!r} is not an object with a rope_type")
        if any(isinstance(value, Mapping) for value in keys.values()):
            raise RopewalkError(f"config: {name} holds one set of keys for each layer type, which is not read yet")
    if len(dicts) == 2:
        _refuse_clash(*dicts.values())
    return {key: value for keys in dicts.values() for key, value in keys.items()}


def _refuse_clash(new: Mapping[str, Any], old: Mapping[str, Any]) -> None:
    """A key in one dict only is a clash too: each reader takes one dict whole."""
    left, right = ({**keys, "rope_type": rope_type(keys)} for keys in (new, old))
    missing = object()
    names = (set(left) | set(right)) - {"type", "rope_theta"}  # the base is compared wherever it stands
    clash = sorted(name for name in names if left.get(name, missing) != right.get(name, missing))
    if clash:
        raise RopewalkError(f"config: rope_parameters and rope_scaling disagree on {', '.join(map(repr, clash))}")


def _base(config: Mapping[str, Any], default: float) -> float:
    """The base, wherever it is stated; two that disagree are an error."""
    places = [config, *(config.get(k) or {} for k in ("rope_parameters", "rope_scaling"))]
    stated = [None if p.get("rope_theta") is None else p["rope_theta"] for p in places]
    bases = {number("config", "rope_theta", base, least=1, above=True) for base in stated if base is not None}
    if len(bases) > 1:
        raise RopewalkError(f"config: rope_theta is stated as {' and as '.join(f'{b:g}' for b in sorted(bases))}")
    if config.get("rope_scaling") and stated[1] is not None and stated[0] is stated[2] is None:
        raise RopewalkError(
            "config: rope_theta stands in rope_parameters alone, and readers that take rope_scaling would miss it; "
            "write it at the top level too"
        )
    return bases.pop() if bases else default


def _layer(
    config: Mapping[str, Any], model_type: str, keys: Mapping[str, Any], base: float, scaling: Scaling | None
) -> LayerSpec:
    head_dim = config.get("head_dim", LLAMA_LIKE[model_type].head_dim)
    if head_dim is None:
        head_dim = _count(config, "hidden_size") // _count(config, "num_attention_heads")
    if whole("config", "head_dim", head_dim, least=2) % 2:
        raise RopewalkError(f"config: head_dim={head_dim} is odd; a rotation turns pairs")
    share = keys.get("partial_rotary_factor", config.get("partial_rotary_factor"))
    if share not in (None, 1) and not isinstance(scaling, Proportional):
        raise RopewalkError(
            f"config: partial_rotary_factor={share!r} in a {model_type!r} model, which rotates whole heads: "
            "transformers reads the key for some rope types and ignores it for others"
        )
    return LayerSpec(head_dim, head_dim, base, scaling)


def _windows(config: Mapping[str, Any], model_type: str) -> list[int | None]:
    """Each layer's window: all of Mistral's, Qwen's from `max_window_layers` on and only when switched on."""
    layers = _count(config, "num_hidden_layers")
    if model_type not in ("mistral", "mixtral", "qwen2", "qwen3"):
        return [None] * layers
    window = config.get("sliding_window", LLAMA_LIKE[model_type].window)
    if window is not None:
        window = whole("config", "sliding_window", window, least=1)
    if not model_type.startswith("qwen"):
        return [window] * layers
    if not config.get("use_sliding_window"):
        return [None] * layers
    first = whole("config", "max_window_layers", config.get("max_window_layers", 28), least=0)
    kinds = config.get("layer_types") or ["full_attention"] * first + ["sliding_attention"] * (layers - first)
    return [window if kind == "sliding_attention" else None for kind in kinds[:layers]]


def _native_length(scaling: Scaling | None, max_length: int, original: int | None) -> int:
    """Tokens before any scaling: stated by most; PI alone states only its factor."""
    if original is not None:
        return original
    if isinstance(scaling, Linear):
        return round(max_length / scaling.factor)
    return getattr(scaling, "original_length", max_length)
