"""Keys and values of tokens already read."""

import torch
from torch import Tensor

from ropewalk import positions as _positions
from ropewalk._checks import whole
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

    def drop(self, tokens: int, *, after: int = 0) -> None:
        """Forget the `tokens` tokens that follow the first `after`; those behind them close ranks.

        With `after=4` the first four stay as attention sinks. However often this is called, keys are turned once, from
        as they were written. A deeper layer's keys and values keep what they took from forgotten tokens, and an
        encoding at the input door keeps the positions that tokens had.

        Raises:
            RopewalkError: more than the cache holds, or tokens at positions of their own (given, or under a key mask).

        Example:
            >>> import torch, ropewalk as rw
            >>> model, cache = rw.models.Decoder(256, 32, layers=1, heads=2, encoding=rw.Rotary(16)), Cache()
            >>> logits = model(torch.zeros(1, 12, dtype=torch.int64), cache=cache)
            >>> cache.drop(6, after=4)
            >>> cache.length
            6

        Source: Xiao et al. 2023 (StreamingLLM, arXiv 2309.17453), section 3.2.
        """
        tokens, after = (whole("Cache.drop", name, n, least=0) for name, n in (("tokens", tokens), ("after", after)))
        end = after + tokens
        if end > self.length:
            raise RopewalkError(f"Cache.drop: tokens={tokens} after {after} of a cache that holds {self.length}")
        if self._positions is not None:
            raise RopewalkError(
                "Cache.drop: the cache holds tokens at positions of their own, which do not close ranks"
            )
        for layer, held in self._layers.items():
            k, v = (torch.cat((x[:, :, :after], x[:, :, end : self.length]), dim=-2) for x in held)
            self._layers[layer] = k, v
        self.length -= tokens
