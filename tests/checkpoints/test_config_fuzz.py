"""Spoilt configs: each is read, or refused by a message that names the key; nothing is assumed without a word."""

import copy
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from typing import Any

import pytest

from ropewalk import from_config
from ropewalk._errors import RopewalkError
from ropewalk.checkpoints.spec import ModelSpec

# No value is a default of its model type, so that a default taken shows.
HEADS = {"hidden_size": 512, "num_attention_heads": 4, "num_hidden_layers": 6, "max_position_embeddings": 16_384}
SIZES, BASE, ORIGINAL = {**HEADS, "head_dim": 64}, {"rope_theta": 5e5}, {"original_max_position_embeddings": 4096}
YARN = {"factor": 4.0, **ORIGINAL, "beta_fast": 16.0, "beta_slow": 2.0, "attention_factor": 1.2, "truncate": False}
BANDS = {"factor": 8.0, "original_max_position_embeddings": 2048, "low_freq_factor": 1.5, "high_freq_factor": 5.0}
FACTORS = {"short_factor": [1.0 + i / 99 for i in range(32)], "long_factor": [2.0 + i for i in range(32)]}
MSCALES = {"mscale": 0.8, "mscale_all_dim": 0.7}
WINDOWS = {"sliding_window": 512, "use_sliding_window": True, "max_window_layers": 2}
NESTED = {"sliding_attention": {"rope_type": "default", "rope_theta": 20_000.0},
          "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 2e6}}  # fmt: skip
LLAMA = {"model_type": "llama", **SIZES, **BASE}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": LLAMA,
    "yarn-4": {**LLAMA, "rope_scaling": {"type": "yarn", **YARN}},
    "yarn-5": {"model_type": "llama", **SIZES, "rope_parameters": {"rope_type": "yarn", **BASE, **YARN}},
    "yarn-both": {**LLAMA, **ORIGINAL, "rope_scaling": {"rope_type": "yarn", **YARN},
                  "rope_parameters": {"rope_type": "yarn", **BASE, **YARN}},
    "llama3": {**LLAMA, "rope_scaling": {"rope_type": "llama3", **BANDS}},
    "linear": {**LLAMA, "rope_scaling": {"rope_type": "linear", "factor": 4.0}},
    "dynamic": {**LLAMA, "rope_scaling": {"rope_type": "dynamic", "factor": 4.0}},
    "phi3": {"model_type": "phi3", **HEADS, **BASE, "original_max_position_embeddings": 2048, "sliding_window": 1024,
             "partial_rotary_factor": 0.5, "rope_scaling": {"type": "longrope", **FACTORS}},
    "gemma3": {"model_type": "gemma3_text", **SIZES, "sliding_window": 512, "rope_parameters": NESTED,
               "layer_types": (["sliding_attention"] * 2 + ["full_attention"]) * 2},
    "gemma3-4": {"model_type": "gemma3_text", **SIZES, "sliding_window": 512, "sliding_window_pattern": 3,
                 "rope_theta": 2e6, "rope_local_base_freq": 20_000.0,
                 "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
    "gemma2": {"model_type": "gemma2", **SIZES, **BASE, "sliding_window": 512},
    "qwen2": {"model_type": "qwen2", **HEADS, **BASE, **WINDOWS},
    "deepseek": {"model_type": "deepseek_v3", **HEADS, **BASE, "qk_rope_head_dim": 32, "rope_interleave": False,
                 "rope_scaling": {"type": "yarn", "factor": 4.0, **ORIGINAL, **MSCALES}},
    "qwen2_vl": {"model_type": "qwen2_vl", "text_config": {
        "model_type": "qwen2_vl_text", **HEADS, **BASE, **WINDOWS,
        "rope_scaling": {"type": "mrope", "mrope_section": [20, 22, 22]}}},
    "gpt_neox": {"model_type": "gpt_neox", **HEADS, "rotary_pct": 0.5, "rotary_emb_base": 5e5},
    "bert": {"model_type": "bert", **HEADS},
    "bloom": {"model_type": "bloom", "hidden_size": 512, "n_head": 4, "n_layer": 6},
    "falcon": {"model_type": "falcon", **HEADS, "alibi": False, **BASE},
    "falcon-alibi": {"model_type": "falcon", **HEADS, "alibi": True},
    "smollm3": {"model_type": "smollm3", **HEADS, **BASE, "no_rope_layers": [1, 1, 0, 1, 1, 0]},
    "llama4": {"model_type": "llama4_text", **SIZES, **BASE, "no_rope_layers": [1, 1, 0, 1, 1, 0]},
    "modernbert": {"model_type": "modernbert", **HEADS, "global_rope_theta": 2e5, "local_rope_theta": 2e4,
                   "local_attention": 256, "global_attn_every_n_layers": 2},
    "granite_swa": {"model_type": "granite_swa", **HEADS, "sliding_window": 512, "layer_rope_theta": [0, 1e4] * 3,
                    "layer_types": (["full_attention"] + ["sliding_attention"] * 2) * 2},
}  # fmt: skip
# Left out or null, these mean that there is no such thing, or a rule of the encoding's paper: nothing needs to be said.
OPTIONAL = ["*rope_scaling", "yarn-5:rope_parameters", "gemma3:rope_parameters", "*:head_dim", "*.beta_*",
            "*.attention_factor", "*.truncate", "*.mscale*", "gemma3:layer_types", "granite_swa:layer_types",
            "phi3:sliding_window", "qwen2*sliding_window"]  # fmt: skip


def without_middle(key: str) -> str:
    return key[: len(key) // 2] + key[len(key) // 2 + 1 :]


def swapped(key: str) -> str:
    at = next(i for i in range(len(key) // 2, -1, -1) if key[i] != key[i + 1] and "_" not in key[i : i + 2])
    return key[:at] + key[at + 1] + key[at] + key[at + 2 :]


def to(value: Any) -> Callable[[dict[str, Any], str], None]:
    return lambda keys, key: keys.__setitem__(key, value)


def renamed(rename: Callable[[str], str]) -> Callable[[dict[str, Any], str], None]:
    return lambda keys, key: keys.__setitem__(rename(key), keys.pop(key))


SILENT: dict[str, Callable[[dict[str, Any], str], Any]] = {
    "missing": lambda keys, key: keys.pop(key), "null": to(None),
    "a letter short": renamed(without_middle), "letters swapped": renamed(swapped),
}  # fmt: skip
STRANGE: dict[str, Callable[[dict[str, Any], str], Any]] = {
    "text": to("x"), "list": to([1]), "dict": to({"a": 1}), "true": to(True), "nan": to(float("nan")),
    "empty": to(""), "empty list": to([]), "empty dict": to({}), "false": to(False),
}  # fmt: skip
NUMBERS: dict[str, Callable[[dict[str, Any], str], Any]] = {
    "zero": to(0), "negative": to(-1), "huge": to(1e30), "huge and whole": to(10**30), "beyond floats": to(10**400),
}  # fmt: skip
SPOILS = {**SILENT, **STRANGE, **NUMBERS}


def paths(config: dict[str, Any], before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in config.items():
        yield (*before, key)
        if isinstance(value, dict):
            yield from paths(value, (*before, key))


def read(config: dict[str, Any]) -> ModelSpec | str:
    """The spec, its layers built and read back from its own config; or the words of the refusal."""
    try:
        spec = from_config(config)
        for layer in set(spec.layers):
            if layer.rotates:
                layer.rotary()
    except RopewalkError as error:
        return str(error)
    assert from_config(spec.to_config()).layers == spec.layers
    return spec


def facts(spec: ModelSpec) -> Any:
    return spec.layers, spec.native_length, spec.max_length


def names(spec: ModelSpec, keys: list[str]) -> bool:
    return any(key in found.message + found.fix for found in spec.findings for key in keys)


def params() -> Iterator[Any]:
    for name, config in CONFIGS.items():
        for path in paths(config):
            for spoil in SPOILS:
                yield pytest.param(name, path, spoil, id=f"{name}:{'.'.join(path)} {spoil}")


@pytest.mark.parametrize(("name", "path", "spoil"), params())
def test_a_spoilt_key_is_read_or_named(name, path, spoil):
    good, config, key = from_config(CONFIGS[name]), copy.deepcopy(CONFIGS[name]), path[-1]
    inner = config
    for step in path[:-1]:
        inner = inner[step]
    SPOILS[spoil](inner, key)
    keys = [key, *(new for new in (without_middle(key), swapped(key)) if new in inner)]
    got = read(config)
    if isinstance(got, str):
        assert any(one in got for one in keys), got
        return
    if facts(got) == facts(good) or names(got, keys):
        return
    if spoil in SILENT:
        case = f"{name}:{'.'.join(path)}"
        assert any(fnmatch(case, one) for one in OPTIONAL), f"{key} was {spoil}, and a default took its place"
        assert spoil in ("missing", "null")
    assert spoil not in STRANGE or is_of_its_kind(name, path, inner[key])


def is_of_its_kind(name: str, path: tuple[str, ...], value: Any) -> bool:
    """Whether a value that was taken is one of those that the key takes."""
    was: Any = CONFIGS[name]
    for step in path:
        was = was[step]
    same = type(value) is type(was) or {type(value), type(was)} == {int, float}
    return same and value == value and value not in ("x", [1], {"a": 1})


CONFLICTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "base above and in rope_parameters": ("llama", {"rope_parameters": {"rope_theta": 7.0}}, "rope_theta"),
    "base above and in rope_scaling": ("linear", {"rope_scaling": {"type": "linear", "factor": 2.0, "rope_theta": 7.0}},
                                       "rope_theta"),
    "type": ("yarn-4", {"rope_scaling": {"type": "yarn", "rope_type": "linear", **YARN}}, "type"),
    "original length": ("yarn-4", {"original_max_position_embeddings": 2048}, "original_max_position_embeddings"),
    "share above and in rope_parameters": ("phi3", {"rope_scaling": {
        "type": "longrope", **FACTORS, "partial_rotary_factor": 1.0}}, "partial_rotary_factor"),
    "share by two names": ("gpt_neox", {"rope_parameters": {"partial_rotary_factor": 0.25}}, "partial_rotary_factor"),
    "share by an unread name": ("gpt_neox", {"partial_rotary_factor": 0.25}, "partial_rotary_factor"),
    "base by two names": ("gpt_neox", {"rope_parameters": {"rope_theta": 7.0}}, "rope_theta"),
    "base by an unread name": ("gpt_neox", {"rope_theta": 7.0}, "rope_theta"),
    "layers by two names": ("bloom", {"num_hidden_layers": 5}, "num_hidden_layers"),
    "heads by two names": ("bloom", {"num_attention_heads": 8}, "num_attention_heads"),
    "window by two names": ("modernbert", {"sliding_window": 77}, "sliding_window"),
    "pattern and types": ("gemma3", {"sliding_window_pattern": 2}, "sliding_window_pattern"),
    "interval and list": ("smollm3", {"no_rope_layer_interval": 2}, "no_rope_layer_interval"),
    "local base and its dict": ("gemma3", {"rope_local_base_freq": 7.0}, "rope_theta"),
    "global base and its dict": ("gemma3", {"rope_theta": 7.0}, "rope_theta"),
    **{f"{key} in two dicts": ("yarn-both", {"rope_scaling": {"rope_type": "yarn", **YARN, key: value}}, key)
       for key, value in {"factor": 2.0, "beta_fast": 8.0, "beta_slow": 0.5, "attention_factor": 1.0, "truncate": True,
                          "original_max_position_embeddings": 2048, "rope_theta": 7.0}.items()},
}  # fmt: skip


@pytest.mark.parametrize("conflict", CONFLICTS)
def test_a_fact_stated_twice(conflict):
    name, more, key = CONFLICTS[conflict]
    got = read({**copy.deepcopy(CONFIGS[name]), **more})
    assert key in got if isinstance(got, str) else names(got, [key])


@pytest.mark.parametrize("name", CONFIGS)
def test_the_good_ones_are_good(name):
    spec = read(CONFIGS[name])
    assert isinstance(spec, ModelSpec)
    assert [found for found in spec.findings if found.severity == "error"] == []
