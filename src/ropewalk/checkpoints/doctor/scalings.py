"""The keys of a scaling that are read otherwise than they look, or not at all."""

from ropewalk.checkpoints.doctor.common import Found, kind_of, rope_dict_sets
from ropewalk.checkpoints.errors import Finding
from ropewalk.checkpoints.facts import Facts
from ropewalk.checkpoints.rope_dicts import SPELLINGS, is_nested, reached, spelled, written
from ropewalk.checkpoints.rope_keys import ALIASES
from ropewalk.checkpoints.spec import ModelSpec


def temperature_cancelled(facts: Facts, spec: ModelSpec) -> Found:
    """DeepSeek's pair of mscales: equal ones cancel, and only its attention makes up for that."""
    for keys in rope_dict_sets(facts):
        if kind_of(keys) != "yarn" or keys.get("attention_factor") is not None:
            continue
        one, other = keys.get("mscale"), keys.get("mscale_all_dim")
        if one and one == other and not facts.rule.softmax and facts.model_type != "ministral3":
            yield Finding(
                "temperature-cancelled", "error",
                f"mscale = mscale_all_dim = {one} leaves the tables without YaRN's temperature, and a "
                f"{facts.model_type!r} model has no softmax factor to make up for it",
                "drop both keys",
            )  # fmt: skip
        elif one == 0 or other == 0 or (one is None) != (other is None):
            yield Finding(
                "mscale-ignored", "error",
                f"mscale = {one} and mscale_all_dim = {other}: transformers reads 0 or one alone as neither, and takes "
                "0.1 ln(factor) + 1; DeepSeek's own code does not",
                "state attention_factor",
            )  # fmt: skip


def beta_zero(facts: Facts, spec: ModelSpec) -> Found:
    """transformers takes a beta of 0 for its default."""
    for keys in rope_dict_sets(facts):
        for name, default in (("beta_fast", 32), ("beta_slow", 1)):
            if kind_of(keys) == "yarn" and keys.get(name) == 0:
                yield Finding(
                    "beta-ignored",
                    "error",
                    f"{name} = 0: transformers computes with {default}",
                    f"state {name} above 0",
                )


def truncate_ignored(facts: Facts, spec: ModelSpec) -> Found:
    """transformers looks for truncate beside the layer types, and not in their keys."""
    for keys in rope_dict_sets(facts):
        if facts.rule.is_per_layer and keys.get("truncate") is False:
            yield Finding(
                "truncate-ignored", "error",
                "truncate = false inside a layer type's keys is ignored by transformers, which rounds the band edges",
                "none is known: the key has no place that is read in such a model",
            )  # fmt: skip


def scaling_dropped(facts: Facts, spec: ModelSpec) -> Found:
    """One set of keys in a model that reads one for each layer type."""
    for name in facts.rule.unread:
        if facts.config.get(name):
            yield Finding(
                "scaling-dropped", "error", f"a {facts.model_type!r} model does not read {name}", f"use {_other(name)}"
            )
    stated = spelled(facts)
    if not facts.rule.is_per_layer or not stated or is_nested(stated):
        return
    dropped = sorted(set(facts.rule.rope) - reached(facts))
    if dropped and set(stated) - {"rope_type", "type"}:
        severity = "error" if len(dropped) == len(facts.rule.rope) else "note"
        yield Finding(
            "scaling-dropped", severity,
            f"{' and '.join(written(facts))} holds one set of rope keys ({kind_of(stated)}) in a model with one for "
            f"each layer type: transformers drops it for {', '.join(dropped)}",
            "write rope_parameters with a set of keys for each layer type",
        )  # fmt: skip


def _other(name: str) -> str:
    return next(one for one in SPELLINGS if one != name)


def type_alias(facts: Facts, spec: ModelSpec) -> Found:
    """An old or foreign name of a rope type, which transformers 5 does not look up."""
    for keys in rope_dict_sets(facts):
        written = kind_of(keys)
        at_home = facts.rule.axes is not None or facts.rule.alpha  # these types translate mrope and xdrope
        if written in ALIASES and not at_home:
            yield Finding(
                "rope-type-alias", "error",
                f"rope_type {written!r} is read here as {ALIASES[written]!r}; transformers 5 stops with a KeyError",
                f"write {ALIASES[written]!r}",
            )  # fmt: skip


def type_refused(facts: Facts, spec: ModelSpec) -> Found:
    """Phi-3 and its kin take LongRoPE and nothing else."""
    for keys in rope_dict_sets(facts):
        if facts.rule.longrope is not None and kind_of(keys) not in ("default", "longrope", "su"):
            yield Finding(
                "rope-type-refused", "error",
                f"transformers stops at rope_type {kind_of(keys)!r} in a {facts.model_type!r} model, which takes "
                "longrope alone",
                "write the scaling as longrope factors",
            )  # fmt: skip


def null_head_dim(facts: Facts, spec: ModelSpec) -> Found:
    """Three rope types of transformers do arithmetic with head_dim where it is null."""
    if not facts.rule.null_head_dim or facts.stated("head_dim") is not None:
        return
    for keys in rope_dict_sets(facts):
        if kind_of(keys) in ("dynamic", "yarn", "longrope"):
            yield Finding(
                "head-dim-null", "error",
                f"head_dim is not stated, and transformers' {kind_of(keys)} stops with a TypeError without it in a "
                f"{facts.model_type!r} model",
                f"state head_dim = {spec.main.head_dim}",
            )  # fmt: skip
