"""The tensors of a checkpoint that hold queries and keys, found by the headers of its files."""

import json
import re
import struct
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ropewalk._errors import RopewalkError
from ropewalk.checkpoints.convert.families import FUSED, LATENT_KEY, LATENT_QUERIES, UNTURNED, family_of, fused, heads
from ropewalk.checkpoints.convert.order import order
from ropewalk.checkpoints.load import check_weights
from ropewalk.checkpoints.spec import LayerSpec, ModelSpec
from ropewalk.checkpoints.weights import shards

ATTENTION = re.compile(r"(?:^|\.)layers\.(\d+)\.(?:self_attn|attention)\.(.+)$")


@dataclass(frozen=True)
class Piece:
    """One tensor that is turned, and where its bytes stand.

    Attributes:
        name: of the tensor in its file.
        part: its name within the attention module, such as "q_proj.weight".
        holds: what it holds, as families.py says.
        width: features of a head there, of which those in `spec` rotate or lead to what does.
        heads: of queries, in the model.
        begin, end: its bytes in the file.
    """

    shard: Path
    name: str
    layer: int
    part: str
    holds: str
    width: int
    heads: int
    spec: LayerSpec
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def is_norm(self) -> bool:
        """Whether it belongs to a norm and not to a projection."""
        return "norm" in self.part

    @property
    def is_projection(self) -> bool:
        """Whether it is the matrix that makes queries or keys."""
        return self.part.endswith(".weight") and not self.is_norm

    @property
    def rows(self) -> int:
        """Features along which it is turned: a norm is all of one column."""
        return torch.Size(self.shape).numel() if self.is_norm else self.shape[0]

    @cached_property
    def blocks(self) -> tuple[list[int], list[int]]:
        """Its heads of queries and of keys, as numbers of blocks."""
        count, rest = divmod(self.rows, self.width)
        found = fused(count, self.heads) if self.holds == FUSED else heads(self.holds, count)
        queries, keys = map(len, found)
        wrong = not (self.is_norm or queries in (0, self.heads)) or (keys and self.heads % keys)
        if rest or wrong:
            raise RopewalkError(
                f"{self.shard}: {self.part} of layer {self.layer} has shape {list(self.shape)}, which is no whole "
                f"number of heads of {self.width} features for {self.heads} heads of queries; check the config"
            )
        return found

    def order(self, to: str) -> Tensor:
        """Where each of its rows comes from once pairs are laid out as `to` says."""
        assert self.spec.rotary_dim is not None
        block = self.spec.block if self.width == self.spec.head_dim else "trailing"
        within, rows = order(self.width, self.spec.rotary_dim, to, block), torch.arange(self.rows).view(-1, self.width)
        turning = [*self.blocks[0], *self.blocks[1]]
        rows[turning] = rows[turning][:, within]
        return rows.flatten()


def pieces(path: Path, spec: ModelSpec) -> list[Piece]:
    """Every tensor of the directory at `path` that has to be turned, in the order of the files.

    Raises:
        RopewalkError: a family that is not in the table, weights that it does not expect, or that are not there.
    """
    family = family_of(spec.model_type)
    check_weights(path)
    found = []
    for shard in shards(path):
        for name, (shape, begin, end) in header(shard).items():
            match = ATTENTION.search(name)
            if match is None:
                continue
            layer, part = int(match[1]), match[2]
            known = _known(shard, name, part, family.parts)
            if known is None or not _layer(shard, name, layer, spec).rotates:
                continue
            width, count = _width(known, spec, layer, shape), spec.config["num_attention_heads"]
            found.append(Piece(shard, name, layer, part, known, width, count, spec.layers[layer], shape, begin, end))
    _all_there(path, spec, found)
    return found


def header(shard: Path) -> dict[str, tuple[tuple[int, ...], int, int]]:
    """Name -> shape, and where in the file the tensor begins and ends."""
    with shard.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        content: dict[str, Any] = json.loads(file.read(length))
    content.pop("__metadata__", None)
    places = {name: [8 + length + at for at in one["data_offsets"]] for name, one in content.items()}
    return {name: (tuple(one["shape"]), *places[name]) for name, one in content.items()}


def _known(shard: Path, name: str, part: str, parts: Any) -> str | None:
    """What a tensor of an attention module holds; None for what is not turned."""
    stem = re.sub(r"\.(weight|bias)$", "", part)
    stem = re.sub(r"\.norms\.\d+$", "", stem)  # StableLM has a norm for each head
    if stem in parts:
        return parts[stem]
    if part in UNTURNED or stem in UNTURNED:
        return None
    raise RopewalkError(
        f"{shard}: {name} is no weight that this model type is known to have there, and whether it turns with queries "
        "and keys would be a guess; merge adapters and undo quantisation before converting"
    )


def _width(holds: str, spec: ModelSpec, layer: int, shape: tuple[int, ...]) -> int:
    """Features of one head in a tensor."""
    width = spec.layers[layer].head_dim
    assert width is not None  # of a layer that rotates
    if holds == LATENT_QUERIES:
        return spec.config["qk_nope_head_dim"] + width
    return shape[0] if holds == LATENT_KEY else width


def _layer(shard: Path, name: str, layer: int, spec: ModelSpec) -> LayerSpec:
    if layer >= len(spec.layers):
        raise RopewalkError(f"{shard}: {name} is of a layer that the config, with {len(spec.layers)}, does not have")
    return spec.layers[layer]


def _all_there(path: Path, spec: ModelSpec, found: list[Piece]) -> None:
    """Every layer that rotates has the weights of its queries and of its keys, once."""
    for number, layer in enumerate(spec.layers):
        own = [piece for piece in found if piece.layer == number and piece.is_projection]
        has = [side for piece in own for side in (0, 1) if piece.blocks[side]]
        if layer.rotates and sorted(has) != [0, 1]:
            raise RopewalkError(f"{path}: layer {number} lacks the weights of its queries or keys, or has them twice")
