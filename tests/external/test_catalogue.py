"""Every rotary class of transformers against ours, from its config alone: frequencies, tables, and rotated q and k."""

from pathlib import Path

import pytest
import torch
from external.rotary_classes import NOT_WALKED, Peer, default_config, unreached, walk
from torch import Tensor
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

from ropewalk import from_config
from ropewalk.checkpoints.errors import ConfigError
from ropewalk.checkpoints.spec import POSITION_KEYS, LayerSpec

DOCS = Path(__file__).parents[2] / "docs/checkpoints.md"
LEAST_TYPES = 355  # model types that reach a rotary class; the count may grow and not fall
LEAST_READ = 495  # model types whose default config is read
FAR = 1_000_000
# Layer types that the default config of a type does not have, so that each of its labels has a layer.
LAYER_TYPES = {
    "bamba": {"layers_block_type": ["full_attention"] * 32},
    "granitemoehybrid": {"layer_types": ["full_attention"] * 32},
    "deepseek_v4": {"layer_types": ["sliding_attention"] + ["compressed_sparse_attention"] * 42},
}
# Rotary classes that from_config does not read, by the class of their config.
NOT_READ = {
    "ClvpEncoderConfig": "the width of what rotates follows from a key of another part's projection",
    "SaProtConfig": "a part without a model_type: nothing in a config.json tells what it is",
    "Qwen3OmniMoeCode2WavConfig": "a part without a model_type: nothing in a config.json tells what it is",
    "EfficientLoFTRConfig": "rotates the whole hidden state of an image matcher before there are heads",
}
PEERS = [peer for peer in walk().peers if type(peer.config).__name__ not in NOT_READ]


def name_of(peer: Peer) -> str:
    return "-".join(filter(None, (peer.model_types[0], peer.path, peer.label, peer.kind)))


def layer_for(peer: Peer) -> LayerSpec:
    """Our layer with the peer's label, read from the peer's config."""
    spec = from_config({**peer.config.to_dict(), **LAYER_TYPES.get(peer.config.model_type, {})})
    labels = spec.rule.labels
    turning = [layer for layer in spec.layers if layer.rotates]
    named = [layer for layer in turning if peer.label in (None, layer.kind, labels.get(layer.kind))]
    assert named, f"no layer of {peer.config.model_type} rotates under the label {peer.label}"
    return named[0]


def positions_for(peer: Peer, count: int) -> Tensor:
    """From the first coordinate on, then the far end; each axis at places of its own."""
    stop = min(peer.reach.stop, FAR)
    near = torch.arange(peer.reach.start, min(stop, peer.reach.start + count))
    one = torch.cat((near, torch.arange(max(peer.reach.start, stop - 3), stop)))
    if peer.axes == 1:
        return one
    return torch.stack([one.roll(axis) for axis in range(peer.axes)])


def tolerance(layer: LayerSpec, positions: Tensor) -> float:
    """One unit in the last place of a float32 frequency moves an angle by this much; cosines are as good."""
    rope = layer.rotary(numerics="float32")
    return 1e-6 + 1.3e-7 * float(positions.max()) * float(rope.inv_freq.max()) * rope.attention_factor


def split_as(x: Tensor, layer: LayerSpec) -> Tensor:
    """Some models turn neighbours and leave them in halves: the same for q and k, so no score changes."""
    if layer.output != "half":
        return x
    turned, rest = x[..., : layer.rotary_dim], x[..., layer.rotary_dim :]
    return torch.cat((turned[..., 0::2], turned[..., 1::2], rest), dim=-1)


@pytest.mark.parametrize("peer", PEERS, ids=name_of)
def test_frequencies_tables_and_rotation(peer):
    layer = layer_for(peer)
    rope = layer.rotary(numerics="float32")
    if peer.inv_freq is not None:
        theirs, ours = (x.float().unique() for x in (peer.inv_freq, rope.inv_freq))
        torch.testing.assert_close(ours, theirs, rtol=2.5e-7, atol=0)
    positions = positions_for(peer, 4097)
    cos, sin = rope.tables(positions)
    for mine, theirs in zip((cos, -sin if layer.reverse else sin), peer.tables(positions), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=tolerance(layer, positions))
    positions = positions_for(peer, 33)
    generator = torch.Generator().manual_seed(0)
    q, k = (torch.randn(1, heads, positions.shape[-1], peer.head_dim, generator=generator) for heads in (4, 2))
    heads = slice(0, 1) if "only head 0" in peer.note else slice(None)
    for mine, theirs in zip(rope.rotate(q, k, positions, positions), peer.rotate(q, k, positions), strict=True):
        mine, theirs = split_as(mine, layer)[:, heads], theirs[:, heads]
        torch.testing.assert_close(mine, theirs, rtol=0, atol=8 * tolerance(layer, positions))


@pytest.mark.parametrize("peer", PEERS, ids=name_of)
def test_a_config_comes_back_without_loss(peer):
    """What `to_config` writes says the same of every layer, and keeps every key that is not about position."""
    config = {**peer.config.to_dict(), **LAYER_TYPES.get(peer.config.model_type, {})}
    spec = from_config(config)
    again = spec.to_config()
    assert from_config(again).layers == spec.layers
    assert {key: again[key] for key in config if key not in POSITION_KEYS} == {
        key: value for key, value in config.items() if key not in POSITION_KEYS
    }


def test_every_default_config_is_read_or_refused_by_name():
    """No model type of transformers ends in anything but a spec or an error with a finding."""
    read = 0
    for model_type in CONFIG_MAPPING_NAMES:
        config = default_config(model_type)
        if config is None:
            continue
        try:
            spec = from_config(config)
        except ConfigError:
            continue
        assert [f for f in spec.findings if f.severity == "error"] == [], model_type
        read += 1
    assert read >= LEAST_READ


def test_how_much_of_transformers_is_walked(record_property):
    """The count is printed and may not fall; what is left out is left out by name."""
    reached = {name for peer in PEERS for name in peer.model_types}
    record_property("model_types", len(reached))
    print(f"\n{len(reached)} model types of transformers reach {len(PEERS)} rotary classes; {len(NOT_WALKED)} do not")
    assert not walk().failures
    assert len(reached) >= LEAST_TYPES
    assert f"{len(reached)} model types reach" in DOCS.read_text()
    assert unreached() <= set(NOT_WALKED)
