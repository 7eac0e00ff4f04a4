"""What a checkpoint says about position, layer by layer."""

from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from ropewalk._errors import RopewalkError
from ropewalk.checkpoints.errors import Finding
from ropewalk.checkpoints.rope_keys import to_keys
from ropewalk.checkpoints.rules import Rule
from ropewalk.functional import inv_freq
from ropewalk.modules.axial import AxialRotary
from ropewalk.modules.rotary import Rotary
from ropewalk.scaling import NTK, NTKCritical, Proportional, Scaling

# The keys of a config that concern position in every model that rotates.
POSITION_KEYS = ("max_position_embeddings", "original_max_position_embeddings", "rope_theta", "rope_scaling",
                 "rope_parameters")  # fmt: skip
INTERLEAVE = "rope_interleave"  # the key by which a config may state the pairing: DeepSeek's, read in every type
ROTATING = ("rotary", "axial")
IN_WORDS = {"learned": "a learned table", "alibi": "ALiBi", "t5": "T5's bias", "none": "no position encoding"}


def position_keys(config: dict[str, Any]) -> dict[str, Any]:
    """Those that `config` holds."""
    return {key: config[key] for key in POSITION_KEYS if key in config}


@dataclass(frozen=True)
class LayerSpec:
    """The position encoding of one layer.

    Attributes:
        encoding: "rotary", "axial" (positions with several coordinates), "none", "learned", "sinusoidal", "alibi",
            "t5", "shaw", "transformer_xl", "deberta".
        head_dim: the width of what is rotated: a head, or in latent attention (MLA) its rotary part.
        output: "half" where the model's code turns interleaved pairs and leaves them apart in halves: queries and
            keys alike, so that scores are those of `layout`.
        block, reverse: as in `Rotary`.
        axes, slots, grid, groups: as in `AxialRotary`; None for positions of one coordinate.
        softmax_factor: what multiplies the softmax scale beside 1 / sqrt(head width): YaRN's mscale_all_dim of
            latent attention, squared.
        window: how many positions back a query sees, itself included; None for all.
        chunk: a query sees the tokens of its own chunk of this many alone (Llama 4); None without chunks.
        kind: the layer's type as the config names it, such as "sliding_attention"; "" where layers have no types.
    """

    head_dim: int | None
    rotary_dim: int | None
    base: float | None
    scaling: Scaling | None = None
    layout: str = "half"
    window: int | None = None
    encoding: str = "rotary"
    output: str | None = None
    block: str = "leading"
    reverse: bool = False
    axes: tuple[int, ...] | None = None
    slots: tuple[int, ...] | None = None
    grid: int | None = None
    groups: int = 1
    softmax_factor: float = 1.0
    chunk: int | None = None
    kind: str = ""

    @property
    def rotates(self) -> bool:
        """Whether queries and keys are turned."""
        return self.encoding in ROTATING

    @property
    def partial(self) -> str | None:
        """How a part of the head rotates: "whole", "leading" or "trailing" features with frequencies of their own, or
        "proportional", the fast pairs of the whole head; None without a rotation."""
        if not self.rotates:
            return None
        if isinstance(self.scaling, Proportional):
            return "proportional"
        return "whole" if self.rotary_dim == self.head_dim else self.block

    def rotary(self, *, numerics: str = "float64") -> Rotary:
        """The encoding as a module; `AxialRotary` where positions have several coordinates.

        Raises:
            RopewalkError: a layer that does not rotate.
        """
        if not self.rotates or self.head_dim is None or self.base is None:
            raise RopewalkError(f"this layer's encoding is {self.encoding!r}: it rotates nothing")
        shared: dict[str, Any] = {
            "base": self.base, "layout": self.layout, "scaling": self.scaling, "numerics": numerics,
        }  # fmt: skip
        if self.axes is not None:
            own: dict[str, Any] = {"axes": self.axes, "slots": self.slots, "grid": self.grid, "groups": self.groups}
            return AxialRotary(self.head_dim, **own, **shared)
        return Rotary(self.head_dim, rotary_dim=self.rotary_dim, block=self.block, reverse=self.reverse, **shared)


@dataclass(frozen=True)
class ModelSpec:
    """A model's position encoding.

    Attributes:
        native_length: tokens it was trained to read before any scaling; None where a config states no length.
        max_length: tokens its config claims; None likewise.
        config: the config as it was read; `to_config` changes only what concerns position.
        part: the key of the sub-config that was read; "" for the config itself.
        changed: whether it was `extended` after it was read.
        findings: what in the config its user should know.
    """

    model_type: str
    native_length: int | None
    max_length: int | None
    layers: tuple[LayerSpec, ...]
    config: dict[str, Any]
    part: str = ""
    changed: bool = False
    rule: Rule = field(default_factory=Rule, compare=False, repr=False)
    findings: tuple[Finding, ...] = field(default=(), compare=False)

    @property
    def main(self) -> LayerSpec:
        """The layer by which the model reads far: the first that rotates, without a window if there is one."""
        turning = [layer for layer in self.layers if layer.rotates] or list(self.layers)
        return next((layer for layer in turning if layer.window is None), turning[0])

    @property
    def _is_plain(self) -> bool:
        """Whether the config has the keys of Llama, and nothing else decides about the rotation."""
        rule = self.rule
        return self.is_uniform and not (self.part or rule.names or rule.keys or rule.only_if or rule.is_per_layer)

    @property
    def turned(self) -> str | None:
        """The pairing of the weights, stated by the config, where the model type's own code has the other; else None.

        A type with a switch of its own, such as DeepSeek-V3, has both.
        """
        stated = {layer.layout for layer in self.layers if layer.encoding == "rotary"} - {self.rule.layout}
        return None if self.rule.switch or not stated else stated.pop()

    def uniform(self) -> "ModelSpec":
        """This spec, if a scaling can be made for it.

        Raises:
            RopewalkError: a model that does not rotate, whose layers do not rotate alike, or that states no length.
        """
        if not self.main.rotates:
            encoding = IN_WORDS.get(self.main.encoding, self.main.encoding)
            raise RopewalkError(
                f"model_type {self.model_type!r} uses {encoding} and has no "
                "rotary encoding; only rotary models can be extended by a scaling"
            )
        if not self._is_plain or self.native_length is None or self.rule.longrope is not None:
            raise RopewalkError(
                f"the layers of this {self.model_type!r} model do not all rotate whole heads alike, or its config has "
                "keys of its own for that; such models can be inspected, and not yet measured or extended"
            )
        return self

    @property
    def length(self) -> int:
        """`native_length` of a `uniform` spec."""
        assert self.native_length is not None
        return self.native_length

    @property
    def scaling(self) -> Scaling | None:
        """The scaling of the main layer; None for plain rotary."""
        return self.main.scaling

    @property
    def is_extended(self) -> bool:
        """Whether a scaling or a larger base makes it read more than its native length."""
        return self.scaling is not None or (self.max_length or 0) > (self.native_length or 0)

    @property
    def is_uniform(self) -> bool:
        """Whether one plain rotation of the whole head, with one base and one scaling, holds for every layer."""
        alike = {replace(layer, window=None, kind="") for layer in self.layers}
        first = self.layers[0]
        plain = first.encoding == "rotary" and first.axes is None and first.rotary_dim == first.head_dim
        return len(alike) == 1 and plain

    def extended(self, scaling: Scaling | None, max_length: int) -> "ModelSpec":
        """The same model with `scaling` on the layers that rotate as the main one, claiming `max_length` tokens."""
        main = replace(self.main, window=None, kind="")
        layers = tuple(
            replace(layer, scaling=scaling, softmax_factor=1.0)
            if replace(layer, window=None, kind="") == main
            else layer
            for layer in self.layers
        )
        return replace(self, layers=layers, max_length=max_length, changed=True)

    def to_config(self) -> dict[str, Any]:
        """The config as it was read, or, of an `extended` spec, one that makes readers compute it.

        An extended config has both spellings: transformers 4 ignores `rope_parameters` without a word and falls to base
        10000, so `rope_theta` and `rope_scaling` stand beside it, and the original length at the top level too, where
        llama.cpp's converter looks for it.

        Raises:
            RopewalkError: an extended model that is not `uniform`, or a scaling that no reader knows.
        """
        if not self.changed:
            return deepcopy(self.config)
        layer, config = self.uniform().layers[0], deepcopy(self.config)
        for key in POSITION_KEYS:
            config.pop(key, None)
        assert layer.base is not None
        assert layer.rotary_dim is not None
        assert self.max_length is not None
        scaling, base = layer.scaling, layer.base
        if isinstance(scaling, NTK | NTKCritical):  # nothing but a larger base, which every reader knows
            base, scaling = scaling.base(inv_freq(layer.rotary_dim, base), base), None
        keys = to_keys(scaling, inv_freq(layer.rotary_dim, base), base, self.length, self.max_length)
        config["max_position_embeddings"] = self.max_length
        if self.max_length > self.length:
            config["original_max_position_embeddings"] = self.native_length
        config["rope_theta"] = base
        config["rope_scaling"] = keys if scaling else None
        config["rope_parameters"] = {**keys, "rope_theta": base}
        return config
