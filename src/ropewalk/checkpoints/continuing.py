"""A long text read once, so that its end can be read on under any rotary frequencies."""

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from ropewalk.checkpoints.calls import ANY, WRITTEN
from ropewalk.checkpoints.carried import carry
from ropewalk.checkpoints.load import Checkpoint
from ropewalk.checkpoints.loader import transformers
from ropewalk.scaling import Scaling

STEP = 1024  # tokens of the end that are read at one time
Change = Callable[[], AbstractContextManager[object]]  # within which a model is another


class Beginning:
    """The keys and values of a text, to be continued under other frequencies than they were made with.

    The text is read in windows, each of which sees itself and the one before it, under the model's own frequencies:
    distances that it knows, at a cost that grows with the text. Keys stand at their true positions, and
    `Rotary.rescale` puts them under another scaling: so one reading serves all.
    What it leaves out is what far tokens would have changed in the states of the beginning.

    Args:
        checkpoint: a model whose own frequencies do not depend on the length, every layer of which sees all keys.
        tokens: int64 [T].
        window: tokens read at one time; two windows fit the native length.
        end: how many of the last tokens will be read on.

    Example: see `extend.probing`.
    """

    def __init__(self, checkpoint: Checkpoint, tokens: Tensor, window: int, end: int) -> None:
        self._checkpoint, self._window = checkpoint, window
        self._rope = checkpoint.spec.layers[0].rotary(numerics="float32")
        self._tokens, self._first = tokens[None].to(checkpoint.device), len(tokens) - end

    def in_windows(self) -> Tensor:
        """Hidden states [1, end, C] of the last tokens, which have seen their own window and the one before."""
        return self._read[0]

    def under(self, scaling: Scaling | None, change: Change) -> Tensor:
        """Hidden states [1, end, C] of the last tokens, which have seen all, in the model that `change` makes.

        `scaling` is what the model is under then, None where it is as it is.
        """
        length = self._tokens.shape[1]

        def turned(keys: Tensor) -> Tensor:
            where = self._before
            return keys if scaling is None else self._rope.rescale(keys, where, new=scaling, new_length=length)

        return self._read_on(turned, change)

    def encoded(self, change: Change) -> Tensor:
        """As `under`, in a model that `change` gives an encoding of pairs, which turns keys when it meets them."""

        def carried(keys: Tensor) -> Tensor:
            own = self._rope.shift(keys, -self._before)
            return carry(own, own, self._before[None])[1]

        return self._read_on(carried, change)

    @property
    def _before(self) -> Tensor:
        """The positions of the beginning."""
        return torch.arange(self._first, device=self._tokens.device)

    def _read_on(self, turned: Callable[[Tensor], Tensor], change: Change) -> Tensor:
        cache = _cache((turned(keys), values) for keys, values in self._read[1])  # read before anything is changed
        with change():
            parts = range(self._first, self._tokens.shape[1], STEP)
            return torch.cat([self._pass(cache, start, start + STEP, 0) for start in parts], dim=1)

    @functools.cached_property
    def _read(self) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """The states of the end, and keys and values of all before it, layer by layer."""
        read = list(self._windows())
        layers = zip(*(window for _, window in read), strict=True)
        joined = [
            [torch.cat(parts, dim=-2)[:, :, : self._first] for parts in zip(*layer, strict=True)] for layer in layers
        ]
        return torch.cat([states for states, _ in read], dim=1), [(keys, values) for keys, values in joined]

    def _windows(self) -> Iterator[tuple[Tensor, list[tuple[Tensor, Tensor]]]]:
        """Of each window the states that belong to the end, and keys and values layer by layer."""
        cache = _cache(())
        for start in range(0, self._tokens.shape[1], self._window):
            past = min(start, self._window)
            states = self._pass(cache, start, start + self._window, start - past)
            own = [(layer.keys[:, :, past:].clone(), layer.values[:, :, past:].clone()) for layer in cache.layers]
            yield states[:, max(0, self._first - start) :], own
            cache = _cache(own)

    def _pass(self, cache: Any, start: int, end: int, seen_from: int) -> Tensor:
        tokens = self._tokens[:, start:end]
        where = torch.arange(start, start + tokens.shape[1], device=tokens.device)[None]
        mask = tokens.new_ones(1, where.shape[1] + start - seen_from)
        with torch.inference_mode():
            return self._checkpoint.model.get_decoder()(
                input_ids=tokens, attention_mask=mask, position_ids=where, past_key_values=cache, use_cache=True
            ).last_hidden_state


def _cache(layers: Iterable[tuple[Tensor, Tensor]]) -> Any:
    cache = transformers().DynamicCache()
    for index, (keys, values) in enumerate(layers):
        cache.update(keys, values, index)
    setattr(cache, WRITTEN, (ANY, None))
    return cache
