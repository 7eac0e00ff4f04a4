"""What every encoding is: an object that answers at some of four doors."""

import torch
from torch import Tensor, nn

from ropewalk import positions as _positions
from ropewalk._errors import RopewalkError
from ropewalk.functional.rotary import check_positions, full_precision

DOORS = ("embed", "rotate", "bias", "relation")


class Encoding(nn.Module):
    """A position encoding: position enters a Transformer through one of four doors, and this is none of them.

    A subclass overrides the doors at which it answers; a model asks all four and knows no encoding by name.

    ===========  ==========================================  =====================================
    door         what it does                                who answers
    ===========  ==========================================  =====================================
    `embed`      x + p(position), before the first layer     `Sinusoidal`, `Learned`
    `rotate`     q, k -> R(position) q, R(position) k        `Rotary`, `XPos`
    `bias`       logits + b(query position, key position)    `ALiBi`, `T5Bias`
    `relation`   q . a(distance) beside q . k, and values    `Shaw`, `TransformerXL`, `CoPE`
    ===========  ==========================================  =====================================

    `SelfExtend` and `DualChunk` answer at two, `rotate` and `relation`.

    Positions are integers, [T] or [B, T]. What an encoding learns are its parameters: no other tensor gets a gradient
    where `attend` takes queries in blocks. Example:
        >>> class Recent(Encoding):
        ...     def bias(self, q_positions, k_positions):
        ...         return (k_positions - q_positions[..., None] > -4).float()[..., None, :, :]
        >>> Recent().doors
        ('bias',)
    """

    heads_alike = False  # whether a relation serves every head alike, whatever their number

    @property
    def doors(self) -> tuple[str, ...]:
        """Those at which this encoding answers: whose methods its class overrides."""
        methods = {door: (door,) for door in DOORS} | {"relation": ("relation", "relation_values")}
        return tuple(door for door, names in methods.items() if any(_overrides(type(self), name) for name in names))

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        """Token vectors [B, T, C] with what their positions add, in the dtype of `x`."""
        return x

    def rotate(
        self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor, length: int | Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """q [B, H, T, D] and k [B, K, S, D], turned; `length` is the tokens of each whole sequence."""
        return q, k

    def bias(self, q_positions: Tensor, k_positions: Tensor) -> Tensor | None:
        """What is added to scaled logits: [H, T, S], or [B, H, T, S] where positions are per row."""
        return None

    def potential(self, positions: Tensor) -> Tensor | None:
        """Where causal attention's bias is a difference, b(i, j) = p(j) - p(i), its p: float64 [H, T] or [B, H, T].

        Not a door but a hint: the bias stays what `bias` says, and attention may do without a mask. It is how a
        forget gate, p = -(the sum of log gates up to a token), stays fast (Lin et al. 2025, arXiv 2503.02130).
        """
        return None

    def relation(
        self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor, visible: Tensor | None = None
    ) -> Tensor | None:
        """What is added to q . k before it is scaled: [B, H, T, S]; k comes with one head for each of q's.

        `visible` says which keys each query sees, bool [1 or B, 1, T, S], None for all: for what depends on other keys
        than the pair's own. What is said of hidden keys is not heard.
        """
        return None

    def relation_values(self, weights: Tensor, q_positions: Tensor, k_positions: Tensor) -> Tensor | None:
        """What is added to the output [B, H, T, D] of attention weights [B, H, T, S]."""
        return None


def check_encoding(owner: str, given: object) -> Encoding:
    """`given` where it is an encoding."""
    if not isinstance(given, Encoding):
        raise RopewalkError(f"{owner}: encoding={given!r} is no encoding; give an object such as Rotary(64) or NoPE()")
    return given


def check_heads(encoding: Encoding, q: Tensor, head_dim: int, heads: int | None = None) -> None:
    """Refuse queries [B, H, T, D] of another width, or another number of heads, than the encoding was made for."""
    if q.shape[-1] != head_dim or heads not in (None, q.shape[1]):
        made_for = f"width {head_dim}" if heads is None else f"{heads} heads of width {head_dim}"
        raise RopewalkError(
            f"{type(encoding).__name__}: queries have {q.shape[1]} heads of width {q.shape[-1]}, and it was made for "
            f"{made_for}; make it for the model's"
        )


def _overrides(kind: type, name: str) -> bool:
    return getattr(kind, name) is not getattr(Encoding, name)


class Added(Encoding):
    """An encoding at the input door: a row for each position, added to the token's vector."""

    def rows(self, positions: Tensor) -> Tensor:
        """[..., T, C] for positions [..., T]."""
        raise NotImplementedError

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        """Summed in the wider of the two dtypes and rounded once to that of `x`."""
        check_positions(positions)
        rows = self.rows(positions)
        if rows.shape[-2:] != x.shape[-2:]:
            raise RopewalkError(
                f"{type(self).__name__}: x of shape {tuple(x.shape)} does not fit {rows.shape[-2]} positions of width "
                f"{rows.shape[-1]}"
            )
        return (x + rows).to(x.dtype)

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """x [B, T, C] + its rows at `positions` [T] or [B, T]; 0 .. T-1 where they are left out."""
        return self.embed(x, _positions.arange(x.shape[-2], device=x.device) if positions is None else positions)


class DistanceBias(Encoding):
    """An encoding at the bias door that sees nothing but the distance: a subclass gives `by_distance`.

    Every backend can run it, since a bias of the distance alone is a table of T + S numbers a head.
    """

    def by_distance(self, relative: Tensor) -> Tensor:
        """[..., H, T, S] for `relative`, key position - query position, int64 [..., T, S]: the past is negative."""
        raise NotImplementedError

    def bias(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        """[H, T, S], or [B, H, T, S] where either is per row."""
        check_positions(q_positions)
        check_positions(k_positions)
        return self.by_distance(k_positions.long()[..., None, :] - q_positions.long()[..., :, None])


class ClippedRelation(Encoding):
    """An encoding at the relation door with a vector for each distance, clipped: a subclass gives `vectors`.

    Attention then needs no tensor of the size T x S. Distances, key position - query position, are told apart from
    -`max_distance` on; the first vector stands for all farther back, the last for all farther ahead.
    """

    heads_alike = True
    max_distance: int

    def vectors(self) -> tuple[Tensor, Tensor | None]:
        """Those added to keys, and to values or None: [distances, D], from the far past on."""
        raise NotImplementedError

    def relation(
        self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor, visible: Tensor | None = None
    ) -> Tensor:
        """q . a, each query's products with all vectors gathered by distance."""
        keys = float32(self.vectors()[0], q.device).to(q.dtype)
        with full_precision(q):
            products = q @ keys.mT
        last = len(keys) - 1
        index = self._index(q_positions, k_positions, last)
        return products.gather(-1, index.expand(*products.shape[:-1], -1))

    def relation_values(self, weights: Tensor, q_positions: Tensor, k_positions: Tensor) -> Tensor | None:
        """Weights summed by distance, times the vectors of the values."""
        values = self.vectors()[1]
        if values is None:
            return None
        index = self._index(q_positions, k_positions, len(values) - 1).expand_as(weights)
        by_distance = weights.new_zeros(*weights.shape[:-1], len(values)).scatter_add(-1, index, weights)
        with full_precision(weights):
            return by_distance @ float32(values, weights.device).to(weights.dtype)

    def _index(self, q_positions: Tensor, k_positions: Tensor, last: int) -> Tensor:
        """The vector of each pair, [1 or B, 1, T, S]."""
        check_positions(q_positions)
        check_positions(k_positions)
        relative = k_positions.long()[..., None, :] - q_positions.long()[..., :, None]
        index = (relative + self.max_distance).clamp(0, last)
        return index[None, None] if index.dim() == 2 else index[:, None]


def float32(x: Tensor, device: torch.device) -> Tensor:
    """A table or parameter as it enters logits: never in the low precision that a module was cast to."""
    return x.to(device) if x.dtype == torch.float64 else x.to(device, torch.float32)
