"""The head of one layer: how wide it is, which of its features rotate, and how they pair."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ropewalk.checkpoints.axes import axial_pairs, section_axes
from ropewalk.checkpoints.errors import ConfigError
from ropewalk.checkpoints.facts import Facts
from ropewalk.checkpoints.rope_dicts import ALL, SHARE, top_level
from ropewalk.checkpoints.rope_keys import rope_type
from ropewalk.checkpoints.spec import INTERLEAVE, LayerSpec
from ropewalk.scaling import YaRN
from ropewalk.scaling._base import mscale

WIDEST = 65_536  # features of a head; a config that states more has a slip in it


def head_dim(facts: Facts, kind: str) -> int:
    """The width of what is rotated."""
    rule = facts.rule
    if kind in rule.widths and "per_layer_config" not in facts.config:
        key, default = rule.widths[kind]
        return facts.count(key) or facts.assume(key, default)
    if rule.width != "head_dim":
        return facts.needed(rule.width)
    stated = facts.count("head_dim", least=2)
    if stated is not None:
        return stated
    if "head_dim" in rule.needs:
        return facts.needed("head_dim")
    if "memory_attention_hidden_size" in rule.defaults:
        return facts.needed("memory_attention_hidden_size") // (
            facts.needed("memory_attention_downsample_rate") * facts.needed("memory_attention_num_attention_heads")
        )
    wide = facts.needed("embed_dim") if "embed_dim" in rule.defaults else facts.needed("hidden_size")
    return wide // facts.needed("num_attention_heads")


def checked_width(facts: Facts, width: int) -> int:
    """`width`, if a head can be as wide."""
    if not 0 < width <= WIDEST:
        stated = ", ".join(
            f"{facts.key(k)}={facts.stated(k)}" for k in ("head_dim", "hidden_size", "num_attention_heads")
        )
        raise ConfigError("value-impossible", f"config: heads of {width} features ({stated})", "1 to 65,536 are read")
    return width


def placed(facts: Facts, keys: Mapping[str, Any], spec: LayerSpec) -> LayerSpec:
    """`spec` with which features rotate, how they pair, and which coordinate each pair looks at."""
    rule, width = facts.rule, spec.head_dim
    assert width is not None
    if rule.encoding == "axial":
        axes, slots, grid = axial_pairs(rule.axes or "blocks", width)
        spec = replace(spec, encoding="axial", rotary_dim=2 * len(axes), groups=rule.groups)
        return replace(spec, axes=axes, slots=slots, grid=grid)
    rotary_dim = _rotary_dim(facts, keys, width)
    spec = replace(spec, rotary_dim=rotary_dim, block=rule.block, reverse=rule.reverse, output=rule.output)
    if rule.switch and not _is_on(facts, rule.switch):
        spec = replace(spec, layout="half", output=None)
    elif not rule.switch and (layout := _stated_layout(facts)) not in (None, rule.layout):
        spec = replace(spec, layout=layout, output=None)
    if rule.axes:
        spec = replace(spec, axes=section_axes(rule.axes, _sections(facts, keys), rotary_dim // 2))
    if rule.softmax and isinstance(spec.scaling, YaRN) and keys.get("mscale_all_dim"):
        spec = replace(spec, softmax_factor=mscale(spec.scaling.factor, keys["mscale_all_dim"]) ** 2)
    return spec


def _stated_layout(facts: Facts) -> str | None:
    """The pairing of a checkpoint that was converted from that of its model type; None where the config is silent."""
    stated = facts.switch(INTERLEAVE)
    return None if stated is None else "interleaved" if stated else "half"


def _sections(facts: Facts, keys: Mapping[str, Any]) -> Any:
    stated = keys.get("mrope_section")
    if stated is None and facts.rule.sections is not None:
        return facts.assume("mrope_section", facts.rule.sections)
    return stated


def _is_on(facts: Facts, switch: str) -> bool:
    """A null counts as false, and an absent key as what transformers takes."""
    stated_null = switch in facts.config and facts.config[switch] is None
    return not stated_null and bool(facts.switch(switch))


def _rotary_dim(facts: Facts, keys: Mapping[str, Any], width: int) -> int:
    """How many features rotate: the plain type ignores the share in most of transformers' models, the scaled never."""
    rule = facts.rule
    if rule.turning and facts.get(rule.turning) is not None:
        rotary_dim = facts.needed(rule.turning)
    elif rule.width != "head_dim" or rope_type(keys) == "proportional":
        rotary_dim = width
    elif rule.share or rope_type(keys) != "default":
        rotary_dim = int(width * keys[SHARE])
    else:
        rotary_dim = width
    if rotary_dim % 2 or not 0 < rotary_dim <= width:
        key, share = facts.key("head_dim"), next((k for k in top_level(facts, ALL, SHARE) if k in facts.config), SHARE)
        raise ConfigError(
            "value-impossible",
            f"config: {rotary_dim} of the head's features would rotate ({key}={width}, "
            f"{share}={keys[SHARE]:g}); a rotation turns pairs",
            "give an even number of at most the head's width",
        )
    return rotary_dim
