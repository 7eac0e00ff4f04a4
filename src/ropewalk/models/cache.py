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
        self._layers: list[tuple[Tensor, Tensor]] = []
        self._positions: Tensor | None = None

    @property
    def length(self) -> int:
        """Tokens held."""
        return self._layers[0][0].shape[-2] if self._layers else 0

    def place(self, positions: Tensor | None) -> Tensor | None:
        """Take in the positions [T] or [B, T] of the next tokens; give those of all keys.

        None for None: then every token stands where it was put, the first at 0.
        """
        if positions is None:
            if self._positions is not None:
                raise RopewalkError(
                    "Decoder: the cache holds tokens at positions of their own; give positions, or key_mask"
                )
            return None
        if self.length:
            old = (
                _positions.arange(self.length, device=positions.device) if self._positions is None else self._positions
            )
            rows = torch.broadcast_shapes(old.shape[:-1], positions.shape[:-1])
            positions = torch.cat([part.expand(*rows, part.shape[-1]) for part in (old, positions)], dim=-1)
        self._positions = positions
        return positions

    def append(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """All keys and values of a layer, those of the new tokens last."""
        if layer == len(self._layers):
            self._layers.append((k, v))
        else:
            old_k, old_v = self._layers[layer]
            self._layers[layer] = torch.cat((old_k, k), dim=-2), torch.cat((old_v, v), dim=-2)
        return self._layers[layer]
