"""Which part of a composite model is read."""

from collections.abc import Mapping
from typing import Any

from ropewalk._errors import RopewalkError
from ropewalk.checkpoints.errors import ConfigError
from ropewalk.checkpoints.facts import Facts
from ropewalk.checkpoints.rules import Rule, rule_for
from ropewalk.checkpoints.typos import is_typo


def chosen(config: Mapping[str, Any], part: str | None) -> tuple[Facts, str]:
    """The facts of the part asked for, or of the one that reads text, and its path ("text_config")."""
    if part is not None and not isinstance(part, str):
        raise RopewalkError(f"from_config: part={part!r} is not the key of a sub-config, such as 'vision_config'")
    return _descend(config, part.split(".") if part else None, "", str(_model_type(config, "")))


def _descend(config: Mapping[str, Any], asked: list[str] | None, path: str, model_type: str) -> tuple[Facts, str]:
    rule = rule_for(model_type)
    if asked:
        key, asked = asked[0], asked[1:]
    elif not rule.encoding and rule.main:  # also where the part that was asked for is a composite
        key = rule.main
    else:
        return Facts(config, model_type, rule, is_part=bool(path)), path
    if key not in rule.parts:
        raise ConfigError(
            "part-unknown",
            f"a {model_type!r} model has no part {key!r}",
            f"it has {', '.join(rule.parts) or 'none'}",
        )
    slip = next((one for one in config if key not in config and is_typo(one, key)), None)
    if slip:
        raise ConfigError("key-misspelt", f"config: the key {slip!r} is read by nobody", f"did you mean {key!r}?")
    inner = config.get(key) or _flat(config, key, rule)
    if not isinstance(inner, Mapping):
        raise ConfigError("value-impossible", f"config: {key}={inner!r} is not an object", "")
    inner_type = str(_model_type(inner, rule.parts[key]))
    if inner_type == model_type:  # older files give a part the name of the whole
        inner_type = rule.parts[key]
    return _descend(inner, asked, f"{path}.{key}".lstrip("."), inner_type)


def _flat(config: Mapping[str, Any], key: str, rule: Rule) -> dict[str, Any]:
    """The keys of the main part where a config has them beside the other parts, as Qwen2-VL was published."""
    if key != rule.main or not set(config) & {"hidden_size", "num_hidden_layers", "rope_theta", "rope_scaling"}:
        return {}
    if not rule.flat:
        raise ConfigError(
            "key-missing", f"config: the key {key!r} is missing beside keys of its own", "put them into it"
        )
    return {name: value for name, value in config.items() if name != "model_type" and name not in rule.parts}


def _model_type(config: Mapping[str, Any], default: str) -> Any:
    """A part that does not state its type has the one that transformers takes for it."""
    stated = config.get("model_type") or default
    if not stated:
        raise ConfigError(
            "key-missing", "config: the key 'model_type' is missing", "copy it from the model's config.json"
        )
    return stated
