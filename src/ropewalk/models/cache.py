"""Keys and values of tokens already read."""

import torch
from torch import Tensor

from ropewalk import positions as _positions
from ropewalk._errors import RopewalkError


class Cache:
    """The keys and values of every layer, and where they stand.

    Keys are kept un-rotated and turned when they are read: right for every scaling at every length, those whose
    frequencies change with the length too, at the price of turning the whole cache at each step.

    Example:
        >>> import torch, ropewalk as rw
        >>> model, cache = rw.models.Decoder(256, 32, layers=1, heads=2, encoding=rw.ALiBi(2)), Cache()
        >>> for token in (torch.tensor([[i]]) for i in range(3)):
        ...     logits = model(token, cache=cache)
        >>> cache.length
        3
    """

    def __init__(self) -> None:
        self.length = 0  # tokens held
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}
        self._positions: Tensor | None = None

    def place(self, positions: Tensor | None) -> Tensor | None:
        """Positions of all keys once tokens at `positions`, [T] or [B, T], are in.

        None for None: then every token stands where it was put, the first at 0.
        """
        if positions is None:
            if self._positions is not None:
                raise RopewalkError(
                    "Decoder: the cache holds tokens at positions of their own; give positions, or key_mask"
                )
            return None
        if not self.length:
            return positions
        old = _positions.arange(self.length, device=positions.device) if self._positions is None else self._positions
        rows = torch.broadcast_shapes(old.shape[:-1], positions.shape[:-1])
        return torch.cat([part.expand(*rows, part.shape[-1]) for part in (old, positions)], dim=-1)

    def append(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """All keys and values of a layer, those of the new tokens last; they stay once `advance` is told."""
        if self.length:
            old_k, old_v = (old[:, :, : self.length] for old in self._layers[layer])
            k, v = torch.cat((old_k, k), dim=-2), torch.cat((old_v, v), dim=-2)
        self._layers[layer] = k, v
        return k, v

    def advance(self, tokens: int, positions: Tensor | None) -> None:
        """Hold `tokens` more, now that every layer has them; a pass that failed before this left nothing behind."""
        self.length += tokens
        self._positions = positions
