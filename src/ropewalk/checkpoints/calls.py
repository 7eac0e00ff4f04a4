"""What one call of a loaded model knows: where its tokens stand, how long each row is, what its cache was made for."""

import inspect
import itertools
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn

from ropewalk import positions
from ropewalk._errors import RopewalkError
from ropewalk.modules.encoding import Encoding
from ropewalk.modules.rotary import Rotary

PREPARE = "prepare_inputs_for_generation"
WRITTEN = "ropewalk_written"  # the attribute in which a cache keeps the patch that last wrote it, and each row's length
ANY = None  # there: it was filled for whatever patch reads on, by who knows what that leaves out
_count = itertools.count()


class Calls:
    """Watches the calls of a model's decoder: each gets positions, and no cache serves other frequencies than its own.

    From the second layer on keys and values come out of attention under the frequencies of their time, whether they are
    kept rotated or not: once the frequencies change, only a pass over the whole text gives what it would give.

    Args:
        owner: the module that is given tokens, mask, positions and cache, and asks for the tables.
        encodings: those of its layers.
        carries: whether keys carry their positions through the cache.
    """

    def __init__(self, owner: nn.Module, encodings: Iterable[Encoding], *, carries: bool) -> None:
        self.number, self.carries = next(_count), carries
        scaled = [one for one in set(encodings) if isinstance(one, Rotary) and one.scaling is not None]
        self.moving = [one for one in scaled if one.scaling is not None and one.scaling.depends_on_length]
        self.signature = inspect.signature(type(owner).forward)
        self._hooks = [
            owner.register_forward_pre_hook(self._before, with_kwargs=True),
            owner.register_forward_hook(self._after, with_kwargs=True),
        ]

    def stop(self) -> None:
        """Watch no more."""
        for hook in self._hooks:
            hook.remove()

    def prepare(self, theirs: Callable[..., dict]) -> Callable[..., dict]:
        """The model's own, giving an emptied cache the whole text where the old one is of no use."""

        @wraps(theirs)
        def prepared(
            input_ids: Tensor, next_sequence_length: int | None = None, past_key_values: Any = None, **given: Any
        ) -> dict:
            cached, new = _cached(past_key_values), next_sequence_length
            is_whole = new is not None and input_ids.shape[1] == cached + new
            if cached and is_whole and self._is_stale(past_key_values, _lengths(input_ids, given)):
                past_key_values.reset()
                new = None
            return theirs(input_ids, next_sequence_length=new, past_key_values=past_key_values, **given)

        return prepared

    def _before(self, owner: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        call = self._by_name(owner, args, kwargs)
        cache = call.get("past_key_values")
        if call.get("position_ids") is None:
            call["position_ids"] = _places(call, _cached(cache))
        if self.carries and any(hasattr(layer, "nbits") for layer in getattr(cache, "layers", ())):
            raise RopewalkError(
                "patch: keys carry positions for this encoding, which a quantised cache would round; use another cache"
            )
        if _cached(cache) and self._is_stale(cache, call["position_ids"].amax(-1) + 1):
            raise RopewalkError(
                "patch: the cache was filled before this patch, or at a length at which the scaling has other "
                "frequencies, out of which its keys and values came: give all tokens again with an empty cache, or "
                "call generate, which does"
            )
        return (), call

    def _after(self, owner: nn.Module, args: tuple, call: dict[str, Any], output: Any) -> None:
        found = output if isinstance(output, tuple) else (getattr(output, "past_key_values", None),)
        for cache in found:
            if hasattr(cache, "get_seq_length"):
                setattr(cache, WRITTEN, (self.number, call["position_ids"].amax(-1) + 1))

    def _by_name(self, owner: nn.Module, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
        named = self.signature.bind_partial(owner, *args).arguments if args else {}
        return {name: value for name, value in named.items() if name != "self"} | kwargs

    def _is_stale(self, cache: Any, lengths: Tensor) -> bool:
        """Whether a cache was written by other frequencies than those at these lengths."""
        number, before = getattr(cache, WRITTEN, (-1, lengths))
        if number is ANY:
            return False
        if number != self.number:
            return True
        if self.moving and before.shape[0] not in (1, lengths.shape[0]):  # rows were dropped, and which is not known
            return True
        return any(
            bool((one.frequencies(before).inv_freq != one.frequencies(lengths).inv_freq).any()) for one in self.moving
        )


def _cached(cache: Any) -> int:
    return 0 if cache is None else int(cache.get_seq_length())


def _places(call: dict[str, Any], cached: int) -> Tensor:
    """Positions of a call that gives none: real tokens counted where there is a mask of padding, else all tokens."""
    given = call["inputs_embeds"] if call.get("input_ids") is None else call["input_ids"]
    tokens, mask = given.shape[1], call.get("attention_mask")
    if isinstance(mask, Tensor) and mask.shape[1:] == (cached + tokens,):
        return positions.from_attention_mask(mask != 0)[:, cached:].to(given.device)
    return positions.arange(tokens, cached, device=given.device)[None]


def _lengths(input_ids: Tensor, given: dict[str, Any]) -> Tensor:
    """Tokens of each row so far, [B] or [1], as `generate` knows them."""
    if given.get("position_ids") is not None:
        return given["position_ids"].amax(-1) + 1
    mask = given.get("attention_mask")
    return torch.tensor([input_ids.shape[1]]) if mask is None else (mask != 0).sum(-1)
