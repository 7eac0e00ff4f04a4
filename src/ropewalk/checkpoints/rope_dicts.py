"""The rope keys of a config from whichever spelling it has: for all layers, or one set for each layer type."""

from collections.abc import Mapping
from typing import Any

from ropewalk._checks import number
from ropewalk.checkpoints.errors import ConfigError
from ropewalk.checkpoints.facts import Facts, impossible_if
from ropewalk.checkpoints.rope_keys import rope_type

SPELLINGS = ("rope_parameters", "rope_scaling")
ALL = ""  # the label of a model type whose layers share one set of keys
BASE, SHARE = "rope_theta", "partial_rotary_factor"


def rope_dicts(facts: Facts) -> dict[str, dict[str, Any] | None]:
    """Label -> the keys that transformers ends up with for it, base and share filled in; None: no rotation.

    Raises:
        ConfigError: spellings, bases or shares that contradict each other, or keys in a shape that is not read.
    """
    stated = spelled(facts)
    if not facts.rule.is_per_layer:
        return {ALL: _filled(facts, _for_all(facts, stated), facts.rule.rope, ALL)}
    found: dict[str, dict[str, Any] | None] = {}
    for label, default in facts.rule.rope.items():
        own = _for_label(facts, stated, label)
        if is_nested(stated) and not own and default is not None:
            facts.assume(label, dict(default))
        found[label] = _filled(facts, own, default or {}, label) if own or default is not None else None
    return found


def place(facts: Facts, label: str) -> str:
    """Where the rope keys of a label stand, for a refusal."""
    dicts = written(facts)
    nested = any(label in keys for keys in dicts.values())
    return f"{' and '.join(dicts)}{f'.{label}' if nested else ''}" if dicts else "config"


def spelled(facts: Facts) -> dict[str, Any]:
    """The content of rope_parameters and rope_scaling, one or both; two that disagree are an error."""
    dicts = written(facts)
    for name, keys in dicts.items():
        if not isinstance(keys, Mapping):
            raise ConfigError("key-unknown", f"config: {name}={keys!r} is not an object with a rope_type", "")
    if len(dicts) == 2:
        _refuse_clash(*dicts.values())
    return {key: value for keys in dicts.values() for key, value in keys.items()}


def written(facts: Facts) -> dict[str, Any]:
    """The spellings that the config has and its model type reads, as they stand."""
    read = [key for key in SPELLINGS if key not in facts.rule.unread]
    return {key: facts.config[key] for key in read if facts.config.get(key) not in (None, {})}


def is_nested(keys: Mapping[str, Any]) -> bool:
    """Whether there is one dict a label."""
    return any(isinstance(value, Mapping) for key, value in keys.items() if key not in ("rope_type", "type"))


def _for_all(facts: Facts, stated: dict[str, Any]) -> dict[str, Any]:
    if is_nested(stated):
        raise ConfigError(
            "rope-nested",
            f"config: {' and '.join(written(facts))} holds one set of keys for each of {', '.join(stated)}, but a "
            f"{facts.model_type!r} model reads one for all layers, not one for each layer type",
            "keep the set that holds for every layer",
        )
    return stated


def _for_label(facts: Facts, stated: dict[str, Any], label: str) -> dict[str, Any]:
    """What the config states for one label; empty where it is silent."""
    if not is_nested(stated):
        return stated if stated and label in reached(facts) else {}
    unknown = sorted(set(stated) - set(facts.rule.rope) - {"rope_type", "type"})
    if unknown:
        raise ConfigError(
            "key-unknown",
            f"config: unknown key {', '.join(map(repr, unknown))} beside the layer types",
            f"a {facts.model_type!r} model has {', '.join(facts.rule.rope)}",
        )
    own = stated.get(label)
    if own is not None and not isinstance(own, Mapping):
        raise ConfigError("key-unknown", f"config: {label}={own!r} is not an object with a rope_type", "")
    return dict(own or {})


def reached(facts: Facts) -> set[str]:
    """The labels that one set of keys for all layers reaches in transformers; it drops it for the rest."""
    labels = {"rope_scaling": facts.rule.flat_rope_scaling, "rope_parameters": facts.rule.flat_rope_parameters}
    found = {label for name in written(facts) for label in labels[name]}
    if "error" in found:
        raise ConfigError(
            "rope-flat",
            f"config: rope_parameters holds one set of keys, and a {facts.model_type!r} model stops without one for "
            "each layer type",
            f"write one for {' and '.join(facts.rule.rope)}",
        )
    return found


def _filled(facts: Facts, own: dict[str, Any], default: Mapping[str, Any], label: str) -> dict[str, Any]:
    """The keys that the config states, or the model type's own where it states none, with base and share."""
    keys = own or {key: value for key, value in default.items() if key not in (BASE, SHARE)}
    base = _one(facts, keys, label, BASE, default.get(BASE, 10_000.0))
    share = _one(facts, keys, label, SHARE, facts.rule.share_default if own else default.get(SHARE, 1.0))
    forced = facts.rule.forced.get(label, {}) if rope_type(keys) == "yarn" else {}
    return {**forced, **keys, BASE: base, SHARE: share}


def _one(facts: Facts, keys: Mapping[str, Any], label: str, field: str, default: float) -> float:
    """A number that stands in the dict, or at the top level under one of its names; two that disagree are an error."""
    places = {f"{label}.{field}".lstrip("."): keys.get(field)}
    places |= {f"{name}.{field}": value for name, value in _elsewhere(facts, field).items()}
    untouched = label == ALL and field in facts.rule.defaults  # such types save the top level as it was
    own_counts = untouched and keys.get(field) is not None
    if not own_counts and not (facts.rule.own_whole and not spelled(facts)):
        places |= {name: facts.config.get(name) for name in top_level(facts, label, field)}
    stated = {
        name: impossible_if(lambda n=name, v=value: number("config", n, v, least=1 if field == BASE else 0, above=True))
        for name, value in places.items()
        if value is not None
    }
    if len(set(stated.values())) > 1:
        shown = " and as ".join(f"{value:g}" for value in sorted(set(stated.values())))
        code = "base-contradicted" if field == BASE else "share-contradicted"
        raise ConfigError(code, f"config: {field} is stated as {shown}", "readers take one or the other: keep one")
    if field == BASE and label == ALL:
        _refuse_lost_base(facts)
    names = [*top_level(facts, label, field), *([f"{label}.{field}"] if label else [])]
    whole_head = field == SHARE and default == 1.0
    if not stated and names and not whole_head:  # without a name the base is fixed in the model's code
        facts.assume(names[-1] if field == SHARE else names[0], default)
    return next(iter(stated.values()), default)


def top_level(facts: Facts, label: str, field: str) -> list[str]:
    """The top-level keys that transformers puts into `field` of `label`."""
    where = field if label == ALL else f"{label}.{field}"
    names = [name for name, paths in facts.rule.keys.items() if where in paths]
    read_by_default = field not in facts.rule.keys and label == ALL
    return [field, *names] if read_by_default else names


def _elsewhere(facts: Facts, field: str) -> dict[str, Any]:
    """The same field in either spelling: an entry in one alone counts."""
    if facts.rule.is_per_layer:
        return {}
    return {name: keys[field] for name, keys in written(facts).items() if keys.get(field) is not None}


def _refuse_lost_base(facts: Facts) -> None:
    new, old = (facts.config.get(name) or {} for name in SPELLINGS)
    if old and new.get(BASE) is not None and old.get(BASE) is None and facts.config.get(BASE) is None:
        raise ConfigError(
            "base-lost",
            "config: rope_theta stands in rope_parameters alone, and readers that take rope_scaling would miss it",
            "write it at the top level too",
        )


def _refuse_clash(new: Mapping[str, Any], old: Mapping[str, Any]) -> None:
    """A key in one dict only is a clash too: each reader takes one dict whole."""
    left, right = ({**keys, "rope_type": rope_type(keys)} for keys in (new, old))
    missing = object()
    names = (set(left) | set(right)) - {"type", BASE}  # the base is compared wherever it stands
    clash = sorted(name for name in names if left.get(name, missing) != right.get(name, missing))
    if clash:
        raise ConfigError(
            "spellings-contradict",
            f"config: rope_parameters and rope_scaling disagree on {', '.join(map(repr, clash))}",
            "transformers 5 takes rope_scaling where both stand, and 4 knows no other: write them alike",
        )
