"""What a checkpoint says about position, layer by layer."""

from dataclasses import dataclass, replace
from typing import Any

from ropewalk.checkpoints.rope_keys import to_keys
from ropewalk.functional import inv_freq
from ropewalk.modules.rotary import Rotary
from ropewalk.scaling import NTK, NTKCritical, Scaling

# The keys of a config that concern position.
POSITION_KEYS = ("max_position_embeddings", "original_max_position_embeddings", "rope_theta", "rope_scaling",
                 "rope_parameters")  # fmt: skip


def position_keys(config: dict[str, Any]) -> dict[str, Any]:
    """Those that `config` holds."""
    return {key: config[key] for key in POSITION_KEYS if key in config}


@dataclass(frozen=True)
class LayerSpec:
    """The position encoding of one layer.

    Attributes:
        window: how many positions back a query sees, itself included; None for all.
    """

    head_dim: int
    rotary_dim: int
    base: float
    scaling: Scaling | None = None
    layout: str = "half"
    window: int | None = None
    encoding: str = "rotary"

    def rotary(self, *, numerics: str = "float64") -> Rotary:
        """The encoding as a module."""
        return Rotary(
            self.head_dim,
            base=self.base,
            rotary_dim=self.rotary_dim,
            layout=self.layout,
            scaling=self.scaling,
            numerics=numerics,
        )


@dataclass(frozen=True)
class ModelSpec:
    """A model's position encoding.

    Attributes:
        native_length: tokens it was trained to read before any scaling.
        max_length: tokens its config claims.
        config: the config as it was read; `to_config` changes only what concerns position.
    """

    model_type: str
    native_length: int
    max_length: int
    layers: tuple[LayerSpec, ...]
    config: dict[str, Any]

    @property
    def scaling(self) -> Scaling | None:
        """The scaling of every layer; None for plain rotary."""
        return self.layers[0].scaling

    @property
    def is_extended(self) -> bool:
        """Whether a scaling or a larger base makes it read more than its native length."""
        return self.scaling is not None or self.max_length > self.native_length

    def extended(self, scaling: Scaling | None, max_length: int) -> "ModelSpec":
        """The same model under `scaling` in place of its own, claiming `max_length` tokens."""
        layers = tuple(replace(layer, scaling=scaling) for layer in self.layers)
        return replace(self, layers=layers, max_length=max_length)

    def to_config(self) -> dict[str, Any]:
        """A config.json in both spellings: transformers 5 reads `rope_parameters`, 4 `rope_theta` and `rope_scaling`.

        transformers 4 ignores `rope_parameters` without a word and falls to base 10000, so both are written,
        and the original length at the top level too, where llama.cpp's converter looks for it.
        """
        layer, config = self.layers[0], dict(self.config)
        for key in POSITION_KEYS:
            config.pop(key, None)
        scaling, base = layer.scaling, layer.base
        if isinstance(scaling, NTK | NTKCritical):  # nothing but a larger base, which every reader knows
            base, scaling = scaling.base(inv_freq(layer.rotary_dim, base), base), None
        keys = to_keys(scaling, inv_freq(layer.rotary_dim, base), base, self.max_length)
        config["max_position_embeddings"] = self.max_length
        if self.max_length > self.native_length:
            config["original_max_position_embeddings"] = self.native_length
        config["rope_theta"] = base
        config["rope_scaling"] = keys if scaling else None
        config["rope_parameters"] = {**keys, "rope_theta": base}
        return config
