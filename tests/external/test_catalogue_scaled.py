"""Every rotary class of transformers under every scaling, in the old spelling and the new, against ours."""

import functools
from copy import deepcopy
from typing import Any

import pytest
import torch
from external.rotary_classes import Peer, code_of, labels_of, package_of, walk
from huggingface_hub.errors import StrictDataclassError
from transformers.models.phimoe.modeling_phimoe import PhimoeConfig, PhimoeRotaryEmbedding

from ropewalk import from_config
from ropewalk.checkpoints.errors import ConfigError

ORIGINAL = {"original_max_position_embeddings": 64}
KEYS: dict[str, dict[str, Any]] = {
    "linear": {"factor": 3.0},
    "yarn": {"factor": 4.0, **ORIGINAL, "beta_fast": 8.0, "beta_slow": 0.5},
    "llama3": {"factor": 4.0, **ORIGINAL, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "longrope": {"factor": 4.0, **ORIGINAL},
}
# transformers then builds a table wider than the part of the head that it rotates, and stops in attention.
TOO_WIDE = {("mistral4", "rope_scaling")}
LEAST = {"linear": 140, "yarn": 134, "llama3": 140, "longrope": 133}  # classes compared; may grow and not fall
BASE = 54_321.0
SIZES = {"hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 2, "max_position_embeddings": 16_384,
         "rope_theta": 10_000.0}  # fmt: skip


def stated(peer: Peer, kind: str, spelling: str) -> dict[str, Any]:
    """The peer's config with a scaling in place of whatever it had."""
    config = peer.config.to_dict()
    for key in (
        "rope_parameters",
        "rope_scaling",
        "rope_theta",
        "layer_rope_theta",
        "partial_rotary_factor",
        "per_layer_config",
        *ORIGINAL,
    ):
        config.pop(key, None)
    keys = {"rope_type": kind, "rope_theta": BASE, **KEYS[kind]}
    if kind == "longrope":
        pairs = peer.inv_freq.shape[-1]
        keys |= {"short_factor": [1.0 + i / 50 for i in range(pairs)], "long_factor": [2.0] * pairs}
    sections = (getattr(peer.config, "rope_parameters", None) or {}).get("mrope_section")
    return {**config, spelling: keys | ({"mrope_section": sections} if sections else {})}


def theirs(peer: Peer, config: dict[str, Any]) -> dict[str | None, tuple[torch.Tensor, float]] | None:
    """Frequencies and factor of each label, as transformers' class computes them; None where it stops."""
    try:
        own = deepcopy(config)  # transformers fills in the dict that it is given
        built = type(peer.config)(**{key: value for key, value in own.items() if key != "model_type"})
        module = getattr(code_of(package_of(type(built))), peer.kind)(built)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, StrictDataclassError):
        return None
    prefixes = {label: f"{label}_" if label else "" for label in labels_of(module)}
    return {
        label: (getattr(module, f"{prefix}inv_freq"), getattr(module, f"{prefix}attention_scaling"))
        for label, prefix in prefixes.items()
    }


def compare(peer: Peer, config: dict[str, Any]) -> bool:
    """Whether both sides read the config; unequal frequencies are an error."""
    want = theirs(peer, config)
    try:
        spec = from_config(config)
    except ConfigError:
        return False  # we refuse more than transformers does; test_doctor.py holds what, and why
    for layer in spec.layers:
        label = spec.rule.labels.get(layer.kind, layer.kind) if spec.rule.is_per_layer else None
        if want is None or not layer.rotates or label not in want:
            continue
        ours, (inv_freq, factor) = layer.rotary(numerics="float32"), want[label]
        torch.testing.assert_close(ours.inv_freq, inv_freq, rtol=2.5e-7, atol=0)
        assert ours.attention_factor == pytest.approx(factor, rel=1e-12)
    return want is not None


@functools.cache
def one_a_class() -> list[Peer]:
    found = {p.kind: p for p in walk().peers if p.axes == 1 and p.inv_freq is not None and p.config.model_type}
    return [peer for peer in found.values() if getattr(peer.config, "rope_parameters", None)]


@pytest.mark.parametrize("spelling", ["rope_scaling", "rope_parameters"])
@pytest.mark.parametrize("kind", KEYS)
def test_a_scaling_in_every_class(kind, spelling):
    compared, wrong = 0, {}
    for peer in one_a_class():
        if (peer.config.model_type, spelling) in TOO_WIDE:
            continue
        try:
            compared += compare(peer, stated(peer, kind, spelling))
        except AssertionError as error:
            wrong[f"{peer.config.model_type} {peer.kind}"] = str(error).splitlines()[0]
    assert not wrong
    assert compared >= LEAST[kind]


def test_phimoe_takes_its_mscales_for_the_attention_factor():
    factors = {"short_factor": [1.0] * 32, "long_factor": [1.0] * 32, "short_mscale": 1.243, "long_mscale": 1.243}
    keys = {"type": "longrope", "original_max_position_embeddings": 4096, **factors}
    config = {**SIZES, "rope_scaling": keys}
    cos, _ = from_config({**config, "model_type": "phimoe"}).layers[0].rotary().tables(torch.tensor([0, 7]))
    module = PhimoeRotaryEmbedding(PhimoeConfig(**config))
    theirs, _ = module(torch.zeros(1), torch.tensor([[0, 7]]))
    torch.testing.assert_close(cos, theirs[0, :, :32], atol=1e-5, rtol=0)
