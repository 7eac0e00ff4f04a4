"""How each of transformers' model types reads its config: one table, read here alone."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib import resources
from typing import Any

from ropewalk.checkpoints.errors import ConfigError

TRANSFORMERS = "5.23.0"  # the release that the table was measured on


@dataclass(frozen=True)
class Rule:
    """The position facts of one model type. A row of model_types.json states what differs from these defaults.

    Attributes:
        encoding: "rotary", "axial", "learned", "sinusoidal", "alibi", "t5", ...; "" where the table has no rule.
        names: our name of a key -> the type's own ("hidden_size": "n_embd").
        defaults: what transformers takes where a config is silent.
        parts: key of a sub-config -> its model type; main is the one that is read for the whole.
        flat: whether the main part's keys may stand in the config itself.
        rope: transformers' rope_parameters where a config has none; one dict a label in per-layer types.
        keys: top-level key -> where in rope_parameters it lands; [] for a key that is not read.
        flat_rope_scaling, flat_rope_parameters: the labels that one dict for all layers reaches in a per-layer type.
        unread: the spellings of the rope keys that the type does not read.
        labels: layer type -> label, where the two differ.
        share: whether the plain rope type honours partial_rotary_factor; the scaled types always do.
        share_default: the share where stated rope keys are silent about it.
        turning: the key that states how many features rotate.
        width, widths: the key of the rotated head's width; for some layer types another key and its default.
        layout, output, switch: how features pair; "half" output of interleaved input permutes the head; a key that
            switches back to half.
        block, reverse, groups: trailing features rotate; by minus the angle; blocks that rotate each on its own.
        axes, sections: how pairs are dealt out among the coordinates of a position.
        alpha: whether `dynamic` with the key alpha is a static NTK.
        softmax: whether the softmax scale is multiplied by YaRN's mscale_all_dim, squared.
        longrope: "switched" where generation is safe across the original length, "short" where long_factor is unused.
        own_whole: whether a config without rope keys gets `rope` whole, a top-level rope_theta being ignored.
        layers: keys that give the number of layers before num_hidden_layers does; of a list, its length.
        window_extra: what is added to a window, where the model's code does not count the query itself.
        other_window: a key that wins over sliding_window, and what is added to its value.
        both_ways: a key, its value, and what is added to half the window of a model that then looks both ways.
        cycle, nope, windows: by what rule layer types, unrotated layers and windows follow.
        null_head_dim: whether head_dim is left null, which stops three of transformers' rope types.
        only_if, otherwise: the keys and values without which the type does not rotate, and its encoding then.
        forced: label -> keys that the type adds to a YaRN dict.
        needs, optional: keys whose default cannot be computed; keys that published configs leave out.
        table: of a learned or sinusoidal table: `length`, the key of how many positions it has; `first_row`, where
            position 0 stands; `extra_rows` beyond the length; whether it `extends` with the input; `order` and
            `grid` of its sines. Of a bias: the keys of its buckets, its `rule`.
    """

    encoding: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)
    main: str | None = None
    flat: bool = False
    rope: Mapping[str, Any] = field(default_factory=lambda: {"rope_type": "default", "rope_theta": 10_000.0})
    keys: Mapping[str, list[str]] = field(default_factory=dict)
    flat_rope_scaling: tuple[str, ...] = ()
    flat_rope_parameters: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    share: bool = False
    share_default: float = 1.0
    turning: str | None = None
    width: str = "head_dim"
    widths: Mapping[str, list[Any]] = field(default_factory=dict)
    layout: str = "half"
    output: str | None = None
    switch: str | None = None
    block: str = "leading"
    reverse: bool = False
    groups: int = 1
    axes: str | None = None
    sections: tuple[int, ...] | None = None
    alpha: bool = False
    softmax: bool = False
    longrope: str | None = None
    own_whole: bool = False
    layers: tuple[str, ...] = ()
    window_extra: int = 0
    other_window: tuple[Any, ...] = ()
    both_ways: tuple[Any, ...] = ()
    cycle: Mapping[str, Any] = field(default_factory=dict)
    nope: str | None = None
    windows: str | None = None
    null_head_dim: bool = False
    only_if: Mapping[str, Any] = field(default_factory=dict)
    otherwise: str = "none"
    forced: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    table: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_per_layer(self) -> bool:
        """Whether rope_parameters holds one dict for each layer type."""
        return any(isinstance(value, Mapping) or value is None for value in self.rope.values())


@cache
def _rows() -> dict[str, dict[str, Any]]:
    text = resources.files("ropewalk.checkpoints").joinpath("model_types.json").read_text(encoding="utf-8")
    return json.loads(text)


def known_types() -> tuple[str, ...]:
    """Every model type of the table, in order."""
    return tuple(sorted(_rows()))


def rule_for(model_type: str) -> Rule:
    """The rule of `model_type`.

    Raises:
        ConfigError: a type that the table does not know; the message says which facts are missing.
    """
    row = _rows().get(model_type) if isinstance(model_type, str) else None
    if row is None:
        raise ConfigError(
            "model-type-unknown",
            f"model_type {model_type!r} is not among the {len(_rows())} of transformers {TRANSFORMERS}: how its "
            "features pair, how many of them rotate, which layers rotate and what its keys are called would be a guess",
            "if it is a copy of a known architecture, give the config with that model_type, such as 'llama'",
        )
    names = {one.name for one in fields(Rule)}
    return Rule(**{name: _frozen(value) for name, value in row.items() if name in names})


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
