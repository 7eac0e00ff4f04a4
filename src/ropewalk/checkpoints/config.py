"""`from_config`: what a checkpoint states about position, from its config."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ropewalk.checkpoints.doctor import examine
from ropewalk.checkpoints.errors import ConfigError, placed_at
from ropewalk.checkpoints.facts import Facts
from ropewalk.checkpoints.heads import checked_width, head_dim, placed
from ropewalk.checkpoints.layers import chunk, has_its_rotation, layer_base, layer_count, layer_types, rotates, window
from ropewalk.checkpoints.parts import chosen
from ropewalk.checkpoints.rope_dicts import ALL, BASE, SHARE, place, rope_dicts, top_level
from ropewalk.checkpoints.rope_keys import from_keys
from ropewalk.checkpoints.source import read_config
from ropewalk.checkpoints.spec import ROTATING, LayerSpec, ModelSpec
from ropewalk.scaling import Linear, LongRoPE, Scaling


def from_config(source: Any, *, part: str | None = None) -> ModelSpec:
    """The position encoding of a checkpoint, as transformers computes it.

    Args:
        source: a dict, a transformers config object, a config.json, a model directory, a .gguf file, a preset's name,
            or a model id in the local Hugging Face cache.
        part: of a composite model, the key of the sub-config to read ("vision_config"); left out, its text part.

    Returns:
        ModelSpec, whose `layers[i].rotary()` is the encoding of layer i, and whose `findings` say where the config and
        what is computed from it part ways.

    Raises:
        RopewalkError: no such config, an unknown model type, or a key that is missing, unknown or impossible;
            the message names it.

    Example:
        >>> spec = from_config({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 2,
        ...                     "num_hidden_layers": 1, "max_position_embeddings": 2048, "rope_theta": 10000.0})
        >>> spec.native_length, spec.layers[0].head_dim
        (2048, 32)
        >>> from_config("llama-3.1-8b").scaling
        Llama3(factor=8.0, original_length=8192, low_freq_factor=1.0, high_freq_factor=4.0)
    """
    return examined(source, part=part, to=None)


def examined(source: Any, *, part: str | None, to: int | None) -> ModelSpec:
    """`from_config`, with the findings about reading `to` tokens among the others."""
    whole = read_config(source)
    facts, where = chosen(whole, part)
    spec = replace(_spec(facts), config=whole, part=where)
    return replace(spec, findings=examine(facts, spec, to))


def _spec(facts: Facts) -> ModelSpec:
    encoding = facts.rule.encoding if has_its_rotation(facts) else facts.rule.otherwise
    if encoding not in ROTATING:
        return _without_rotation(facts, encoding)
    max_length = facts.count("max_position_embeddings")
    original = facts.count("original_max_position_embeddings") if _has_original(facts) else None
    dicts = rope_dicts(facts)
    kinds = layer_types(facts)
    layers = tuple(_layer(facts, dicts, kind, index, max_length, original) for index, kind in enumerate(kinds))
    spec = ModelSpec(facts.model_type, None, max_length, layers, dict(facts.config), rule=facts.rule)
    return replace(spec, native_length=_native_length(spec, original))


def _has_original(facts: Facts) -> bool:
    """Whether a top-level original length counts: transformers ignores it in types with a dict for each layer type."""
    return not facts.rule.is_per_layer


def _without_rotation(facts: Facts, encoding: str) -> ModelSpec:
    rule = facts.rule
    if not encoding:
        raise ConfigError(
            "model-type-without-rule",
            f"model_type {facts.model_type!r} is known to transformers, but not among those whose position encoding is "
            "in the table: which tables or biases it holds would be a guess",
            "read one of its parts with part=..., if it has any",
        )
    if encoding == "alibi":
        facts.count("num_attention_heads")  # its slopes follow from it
    length = table_length(facts) if encoding in ("learned", "sinusoidal", "alibi") else None
    layer = LayerSpec(None, None, None, encoding=encoding)
    return ModelSpec(facts.model_type, length, length, (layer,) * layer_count(facts), dict(facts.config), rule=rule)


def table_length(facts: Facts) -> int | None:
    """How many positions a table has for tokens; None where it states none."""
    table = facts.rule.table
    if "length" not in table:
        return None
    first = table.get("first_row", 0)
    if first == "pad_token_id+1":
        first = (facts.count("pad_token_id", least=0) or 0) + 1
    extra = table.get("extra_rows", 0)
    usable = facts.needed(table["length"]) + (first if extra == "pad_token_id+1" else extra) - first
    if usable < 1:
        raise ConfigError(
            "value-impossible", f"config: {facts.key(table['length'])} leaves no row of the table for a token", ""
        )
    return usable


def _layer(
    facts: Facts,
    dicts: Mapping[str, dict[str, Any] | None],
    kind: str,
    index: int,
    max_length: int | None,
    original: int | None,
) -> LayerSpec:
    facts = facts.under(_own_values(facts, index))
    label = facts.rule.labels.get(kind, kind) if facts.rule.is_per_layer else ALL
    keys = dicts.get(label)
    width = checked_width(facts, head_dim(facts, kind))
    seen = window(facts, kind)
    if keys is None or not rotates(facts, kind, index):
        return LayerSpec(width, None, None, window=seen, encoding="none", kind=kind, chunk=chunk(facts, kind))
    with placed_at(place(facts, label)):
        scaling = from_keys(_known(facts, keys), max_length=max_length, original_length=original, rule=facts.rule)
    base = layer_base(facts, index) or keys[BASE]
    spec = LayerSpec(width, width, base, scaling, facts.rule.layout, seen, kind=kind, chunk=chunk(facts, kind))
    spec = placed(facts, keys, spec)
    if isinstance(scaling, LongRoPE):
        _fits(facts, spec, len(scaling.long_factor))
    return spec


def _fits(facts: Facts, spec: LayerSpec, listed: int) -> None:
    """LongRoPE states one divisor a pair."""
    assert spec.rotary_dim is not None
    if listed != spec.rotary_dim // 2:
        keys = [key for key in ("head_dim", "hidden_size", "num_attention_heads") if facts.stated(key) is not None]
        shares = [key for key in top_level(facts, ALL, SHARE) if key in facts.config] or [SHARE]
        raise ConfigError(
            "factors-do-not-fit",
            f"config: short_factor and long_factor hold {listed} numbers, and {spec.rotary_dim // 2} pairs of features "
            "rotate",
            f"give one for each pair, or check {', '.join([*map(facts.key, keys), *shares])}",
        )


def _own_values(facts: Facts, index: int) -> Mapping[str, Any]:
    """What per_layer_config states for one layer; transformers writes its keys as "05" and reads 5 too."""
    listed = facts.config.get("per_layer_config") or {}
    if not isinstance(listed, Mapping) or not all(isinstance(values, Mapping) for values in listed.values()):
        raise ConfigError("value-impossible", f"config: per_layer_config={listed!r} is not an object of objects", "")
    return next((values for key, values in listed.items() if str(key).isdigit() and int(key) == index), {})


def _known(facts: Facts, keys: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of the frequencies; nested dicts do not honour truncate in transformers, which reads it elsewhere."""
    dropped = {"truncate"} if facts.rule.is_per_layer else set()
    return {key: value for key, value in keys.items() if key not in dropped}


def _native_length(spec: ModelSpec, original: int | None) -> int | None:
    """Tokens before any scaling: stated by most; PI alone states only its factor."""
    scaling: Scaling | None = spec.scaling
    if original is not None:
        return original
    if spec.max_length is None:
        return None
    if isinstance(scaling, Linear):
        extended = spec.config.get("max_sequence_length")  # Vicuna states the native length, and the extended one here
        if extended == scaling.factor * spec.max_length:
            return spec.max_length
        return round(spec.max_length / scaling.factor)
    return getattr(scaling, "original_length", spec.max_length)
