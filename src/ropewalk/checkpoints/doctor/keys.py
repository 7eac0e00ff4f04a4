"""Keys at the wrong place, under the wrong name, or left out."""

from collections.abc import Mapping
from typing import Any

from ropewalk.checkpoints.doctor.common import ORIGINAL, Found, kind_of, rope_dict_sets
from ropewalk.checkpoints.errors import Finding
from ropewalk.checkpoints.facts import Facts
from ropewalk.checkpoints.rope_dicts import BASE, SHARE
from ropewalk.checkpoints.rules import rule_for
from ropewalk.checkpoints.spec import ModelSpec
from ropewalk.checkpoints.typos import meant

# Keys that a writer may have meant; the names of model_types.json count as well.
MEANT = ("rope_theta", "rope_scaling", "rope_parameters", "partial_rotary_factor", "max_position_embeddings", ORIGINAL,
         "sliding_window", "layer_types", "head_dim")  # fmt: skip
NANOTRON = "rope_interleaved"  # how it trained: what it exports is laid out for transformers all the same


def misspelt(facts: Facts, spec: ModelSpec) -> Found:
    """A key that nobody reads and that looks like one that is read."""
    known = {*MEANT, NANOTRON, *facts.rule.names.values(), *facts.rule.keys, *facts.rule.defaults, *facts.asked}
    for key in {key for key in facts.config if not key.startswith("_")} - known:  # transformers saves a few with _
        name = meant(key, known - set(facts.config))
        if name:
            yield Finding("key-misspelt", "error", f"the key {key!r} is read by nobody", f"did you mean {name!r}?")


def dialects(facts: Facts, spec: ModelSpec) -> Found:
    """transformers 4 does not know rope_parameters, and falls to its defaults without a word."""
    config = facts.config
    if not config.get("rope_parameters") or config.get("rope_scaling"):
        return
    lost = [name for keys in rope_dict_sets(facts) for name in _lost(facts, keys)]
    if lost:
        old = str(config.get("transformers_version", "")).startswith("4.")
        yield Finding(
            "unread-by-transformers-4", "error" if old else "note",
            f"{' and '.join(dict.fromkeys(lost))} stand in rope_parameters alone: transformers 4"
            + (", which this config names," if old else "") + " and readers like it ignore them without a word",
            "state rope_theta and rope_scaling at the top level too",
        )  # fmt: skip


def _lost(facts: Facts, keys: Mapping[str, Any]) -> list[str]:
    lost = ["the scaling"] if kind_of(keys) not in ("default", "axial") else []
    has_base = keys.get(BASE) not in (None, 10_000.0) and facts.config.get(BASE) is None
    return [*lost, BASE] if has_base else lost


def base_ignored(facts: Facts, spec: ModelSpec) -> Found:
    """rope_theta in a model type that does not read it."""
    stated, used = facts.config.get(BASE), {layer.base for layer in spec.layers if layer.rotates}
    if stated is not None and used and stated not in used and stated != facts.rule.defaults.get(BASE):
        names = [name for name, where in facts.rule.keys.items() if any(BASE in path for path in where)]
        yield Finding(
            "base-ignored", "error",
            f"rope_theta = {stated:g} is not read by a {facts.model_type!r} model, which rotates with base "
            f"{', '.join(f'{base:g}' for base in sorted(b for b in used if b is not None))}",
            f"state it as {' or '.join(names)}" if names else "put it into rope_parameters",
        )  # fmt: skip


def share_ignored(facts: Facts, spec: ModelSpec) -> Found:
    """partial_rotary_factor in a model type whose plain rope type rotates the whole head."""
    shares = [keys.get(SHARE) for keys in rope_dict_sets(facts)] + [facts.config.get(SHARE)]
    stated = next((share for share in shares if share is not None), None)
    main = spec.main
    cut_off = facts.rule.width != "head_dim"  # latent attention rotates a part that stands by itself
    if cut_off or stated in (None, 1) or main.partial in (None, "proportional") or main.head_dim is None:
        return
    if main.rotary_dim != int(main.head_dim * float(stated)):
        yield Finding(
            "share-ignored", "error",
            f"partial_rotary_factor = {stated} is ignored: this {facts.model_type!r} model rotates {main.rotary_dim} "
            f"of {main.head_dim} features",
            "drop the key, or check what the model was trained with",
        )  # fmt: skip
    elif not facts.rule.share and main.scaling is not None:
        yield Finding(
            "share-by-scaling", "warning",
            f"partial_rotary_factor = {stated} counts only because of the scaling: without one a {facts.model_type!r} "
            "model rotates whole heads",
            "check what the model was trained with",
        )  # fmt: skip


def part_read(facts: Facts, spec: ModelSpec) -> Found:
    """A composite model has other parts."""
    if spec.part:
        parts = ", ".join(rule_for(str(spec.config["model_type"])).parts)
        yield Finding("part-read", "note", f"this is {spec.part}, of {parts}", "for another: part=, or inspect --part")


def assumed(facts: Facts, spec: ModelSpec) -> Found:
    """Keys that the config leaves to transformers."""
    if facts.assumed:
        listed = ", ".join(f"{key} = {value:g}" if isinstance(value, float) else f"{key} = {value}"
                           for key, value in sorted(facts.assumed.items()))  # fmt: skip
        yield Finding("assumed", "note", f"the config is silent about {listed}", "transformers takes these; state them")
