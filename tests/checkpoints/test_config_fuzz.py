"""Configs with one thing wrong: a spec or an error that names the key, never a traceback or a silent default."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from checkpoints_configs import CONFIGS

from ropewalk import from_config
from ropewalk._errors import RopewalkError

MISSING = object()
STRANGE: dict[str, Any] = {
    "missing": MISSING,
    "null": None,
    "zero": 0,
    "negative": -2,
    "text": "banana",
    "list": [1],
    "object": {"a": 1},
    "true": True,
    "not a number": float("nan"),
    "huge": 1e30,
    "fraction": 0.3,
}


def paths(config: dict[str, Any], before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every key of a config, those inside its dicts too."""
    for key, value in config.items():
        yield (*before, key)
        if isinstance(value, dict):
            yield from paths(value, (*before, key))


def put(config: dict[str, Any], path: tuple[str, ...], value: Any, key: str | None = None) -> dict[str, Any]:
    """A copy with another value at `path`, or the old one under another key."""
    changed = copy.deepcopy(config)
    inner = changed
    for step in path[:-1]:
        inner = inner[step]
    old = inner.pop(path[-1])
    if value is not MISSING:
        inner[key or path[-1]] = old if key else value
    return changed


def outcome(config: dict[str, Any]) -> Any:
    """A spec whose layers can be built and that survives its own config, or the error's words."""
    try:
        spec = from_config(config)
    except RopewalkError as error:
        return str(error)
    for layer in set(spec.layers):
        if layer.rotates:
            assert layer.rotary().inv_freq.numel()
    assert from_config(spec.to_config()).layers == spec.layers
    return spec


def cases() -> Iterator[Any]:
    for name, config in CONFIGS.items():
        for path in paths(config):
            yield pytest.param(config, path, id=f"{name}-{'.'.join(path)}")


@pytest.mark.parametrize(("config", "path"), cases())
def test_a_strange_value_is_read_or_named(config, path):
    good = from_config(config)
    for what, value in STRANGE.items():
        got = outcome(put(config, path, value))
        if isinstance(got, str):
            assert got  # a RopewalkError, whose words tests/checkpoints/test_config.py holds
            continue
        told = got.layers != good.layers or got.native_length != good.native_length
        if value is MISSING or value is None:  # a default took its place, or nobody needs the key
            named = any(path[-1] in finding.message for finding in got.findings)
            assert not told or named or (path[0] in OPTIONAL), (what, got.layers[0])


# Absent, these mean that there is no such thing: no scaling, no window, heads of hidden_size / num_attention_heads.
OPTIONAL = {
    *("rope_scaling", "rope_parameters", "sliding_window", "head_dim", "use_sliding_window", "layer_types", "alibi"),
    *("original_max_position_embeddings", "rotary_pct", "rotary_emb_base", "qk_rope_head_dim", "pad_token_id"),
    *("max_position_embeddings", "text_config", "model_type", "no_rope_layers", "max_window_layers"),
}


@pytest.mark.parametrize(("config", "path"), cases())
def test_a_misspelt_key_is_not_passed_over(config, path):
    good, key = from_config(config), path[-1]
    if key in ("no_rope_layers", "model_type", "full_attention", "sliding_attention"):
        return
    for wrong in (key[:2] + key[3:], key[:-2] + key[-1] + key[-2], key + "s"):
        if wrong == key:
            continue
        got = outcome(put(config, path, None, key=wrong))
        if isinstance(got, str):
            assert wrong in got or key in got
        elif got.layers != good.layers or got.native_length != good.native_length:
            named = [f for f in got.findings if wrong in f.message or key in f.message]
            assert named, (wrong, [f.code for f in got.findings])


@pytest.mark.parametrize("name", CONFIGS)
def test_two_spellings_that_differ_are_not_averaged(name):
    """The same fact stated twice: an error, or a finding, whichever reader is right."""
    config = CONFIGS[name]
    keys = config.get("rope_scaling") or config.get("rope_parameters")
    if not keys or any(isinstance(value, dict) for value in keys.values()):
        return
    both = {**config, "rope_scaling": {**keys, "factor": 3.0}, "rope_parameters": {**keys, "factor": 7.0}}
    got = outcome(both)
    assert isinstance(got, str) and ("factor" in got or "rope_theta" in got), got  # noqa: PT018


def test_every_config_here_is_a_good_one():
    for name, config in CONFIGS.items():
        assert json.loads(json.dumps(config)) == config
        assert not [f for f in from_config(config).findings if f.severity == "error"], name
