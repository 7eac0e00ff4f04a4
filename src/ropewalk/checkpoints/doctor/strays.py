"""Keys that state something about position and are read by nobody, and nulls where a value is needed."""

from typing import Any

from ropewalk.checkpoints.doctor.common import Found, rope_dict_sets
from ropewalk.checkpoints.errors import Finding
from ropewalk.checkpoints.facts import Facts
from ropewalk.checkpoints.rope_dicts import BASE, SPELLINGS
from ropewalk.checkpoints.spec import ROTATING, ModelSpec

# Names that some model type reads, and by which a writer states a fact about position. base_ignored and share_ignored
# speak of rope_theta and partial_rotary_factor.
FAMILIAR = (*SPELLINGS, "sliding_window", "rotary_base", "rope_base", "rotary_emb_base", "rotary_pct", "rotary_dim",
            "no_rope_layers", "local_attention", "attention_chunk_size", "alibi")  # fmt: skip
# Where a list may be null: transformers lays it out by its rule.
LAID_OUT = ("no_rope_layers", "layer_types", "mrope_section", "cross_attention_layers", "layer_rope_theta")
NOTHING: tuple[Any, ...] = (None, False, 0, {}, [], "")


def foreign(facts: Facts, spec: ModelSpec) -> Found:
    """A key of other model types."""
    known = {*facts.asked, *facts.rule.keys, *facts.rule.defaults, *facts.rule.unread}
    can_rotate = facts.rule.encoding in ROTATING and spec.main.encoding in (*ROTATING, "none")
    known |= set(SPELLINGS) if can_rotate else set()
    for key in FAMILIAR:
        value = facts.config.get(key)
        is_whole = key == "rotary_pct" and value == 1
        if key not in known and value not in NOTHING and not is_whole:
            yield Finding(
                "key-unread", "error",
                f"{key} = {str(value)[:60]} is not read by transformers' {facts.model_type!r}, and may be by others",
                "drop it, or check what the model was trained with",
            )  # fmt: skip


def outside(facts: Facts, spec: ModelSpec) -> Found:
    """Rope keys of a composite beside its parts, where they stand for none of them."""
    if not spec.part:
        return
    for key in (*SPELLINGS, BASE):
        if spec.config.get(key) not in NOTHING and key not in facts.config:
            yield Finding(
                "key-unread", "error",
                f"{key} stands beside {spec.part} and not in it: transformers does not hand it on",
                f"put it into {spec.part}",
            )  # fmt: skip


def overruled(facts: Facts, spec: ModelSpec) -> Found:
    """One fact by two keys that differ, of which transformers takes one without a word."""
    for key, winner in facts.overruled.items():
        yield Finding(
            "key-overruled", "error",
            f"{key} = {facts.config[key]} is not used: {winner} states the same thing otherwise, and wins",
            "keep one of them",
        )  # fmt: skip


def null_stated(facts: Facts, spec: ModelSpec) -> Found:
    """A null is no silence: transformers takes its default for an absent key alone."""
    dicts = rope_dict_sets(facts)
    nulls = {key for keys in (facts.config, *dicts) for key, value in keys.items() if value is None}
    bare = any("rope_type" in keys and keys["rope_type"] is None and keys.get("type") is None for keys in dicts)
    found = sorted(nulls & set(facts.assumed) - set(LAID_OUT)) + ["rope_type"] * bare
    if found:
        yield Finding(
            "null-stated", "error",
            f"{' and '.join(found)}: null. transformers 5 stops at it, or computes without; the default is for a key "
            "that is left out",
            "leave the key out, or state its value",
        )  # fmt: skip


def window_missing(facts: Facts, spec: ModelSpec) -> Found:
    """Layers that slide, and no width of their window."""
    if any(layer.kind == "sliding_attention" and layer.window is None for layer in spec.layers):
        yield Finding(
            "window-missing", "error",
            f"layers are of a sliding type, and {facts.key('sliding_window')} states no width: transformers stops",
            "state it, or make the layers full_attention",
        )  # fmt: skip
