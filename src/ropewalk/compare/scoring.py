"""What a trained model is worth at each position: bits per byte, copying by distance, the pairs that it uses."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ropewalk.compare.protocol import Protocol
from ropewalk.measure.curves import Curve, crop_curve, full_curve
from ropewalk.measure.documents import Documents, batches
from ropewalk.measure.losses import LanguageModel
from ropewalk.measure.verdict import TOLERANCE, holds_to
from ropewalk.models import Decoder
from ropewalk.modules import Rotary

SKIPPED = 4  # bytes at the start of a copy, where nothing yet says which string is being copied
TOKENS_AT_ONCE = 16_384
STRINGS = 64


def as_language_model(model: Decoder) -> LanguageModel:
    """The callables that `measure` takes."""
    return LanguageModel(hidden=lambda tokens, positions: model(tokens, positions), head=lambda logits: logits)


def edges(protocol: Protocol, length: int) -> tuple[int, ...]:
    """Buckets of an eighth of the training length, and an eighth of what lies past sixteen of them."""
    width = max(protocol.length // 8, length // 128)
    return (*range(0, length, width), length)


def score(model: Decoder, protocol: Protocol, held_out: Tensor) -> dict[str, Any]:
    """Bits per byte by position against crop, how far the model holds, and copying, up to the reach."""
    documents = stretches(protocol, held_out, protocol.longest)
    borders, wrapped = edges(protocol, protocol.longest), as_language_model(model)
    whole = full_curve(wrapped, documents, borders)
    crop, _ = crop_curve(wrapped, documents, borders, protocol.length)
    return {
        "bits": [
            {"times": times, "length": length, "mean": bits(whole, 1, length),
             "last_quarter": last_quarter(whole, length), "crop": last_quarter(crop, length)}
            for times, length in protocol.lengths.items()
        ],
        "curve": {"ends": list(borders[1:]), "bits": (whole.means() / math.log(2)).tolist()},
        "holds_to": holds_to(whole.means() - crop.means(), borders, protocol.length, TOLERANCE),
        "copy": [
            {"distance": distance, "accuracy": copy_accuracy(model, protocol, distance, held_out)}
            for distance in copy_distances(protocol)
        ],
    }  # fmt: skip


def stretches(protocol: Protocol, held_out: Tensor, length: int) -> Tensor:
    """[N, length] of held-out text: as many bytes at every length, where there are so many."""
    limit = max(1, protocol.stretches * protocol.longest // length)
    return Documents.cut([("the held-out text", held_out)], length, limit).tokens


def bits(curve: Curve, start: int, end: int) -> float:
    """Mean bits per byte at positions start .. end - 1."""
    return float(np.nanmean(curve.losses[:, start:end], dtype=np.float64) / math.log(2))


def last_quarter(curve: Curve, length: int) -> float:
    """Bits per byte of the last quarter of `length` positions: a mean over all of them hides a jump."""
    return bits(curve, length - length // 4, length)


def copy_distances(protocol: Protocol) -> list[int]:
    """The largest primes below the powers of two from 8 to half the reach.

    A head that looks a fixed number of bytes back, 24 say, copies every string whose length divides it: to have
    found the string by its content is to copy a prime number of bytes too.
    """
    return [prime_below(2**power) for power in range(3, int(math.log2(protocol.longest)))]


def prime_below(number: int) -> int:
    """The largest prime below `number`, which is at least 3."""
    return next(n for n in range(number - 1, 1, -1) if all(n % divisor for divisor in range(2, math.isqrt(n) + 1)))


def copy_accuracy(model: Decoder, protocol: Protocol, distance: int, held_out: Tensor) -> float:
    """The share of bytes that are predicted right in the last saying of a random string of `distance` bytes.

    The string is said twice, or as often as it takes to fill the training length.
    """
    letters, random = held_out.unique(), torch.Generator().manual_seed(distance)
    strings = letters[torch.randint(0, len(letters), (STRINGS, distance), generator=random)]
    tokens, right = strings.repeat(1, max(2, protocol.length // distance)), []
    scored = distance - SKIPPED
    with torch.inference_mode():
        for rows in batches(len(tokens), tokens.shape[1], TOKENS_AT_ONCE):
            guesses = model(tokens[rows, :-1])[:, -scored:].argmax(-1)
            right.append((guesses == tokens[rows, -scored:]).double().mean(1))
    return float(torch.cat(right).mean())


def used_frequencies(model: Decoder, protocol: Protocol, held_out: Tensor) -> list[dict[str, Any]]:
    """Each rotary pair's share of |q| |k|, layer by layer; empty where not every layer rotates whole heads alike."""
    rotary = [one for one in model.encodings if isinstance(one, Rotary)]
    whole = all(one.layout == "half" and one.rotary_dim == one.head_dim for one in rotary)
    if not whole or len(rotary) < len(model.blocks):
        return []
    seen: dict[tuple[int, str], Tensor] = {}
    hooks = [
        getattr(block.attention, name).register_forward_hook(
            lambda module, given, out, at=(layer, name): seen.__setitem__(at, pair_norms(out, protocol.head_dim))
        )
        for layer, block in enumerate(model.blocks)
        for name in ("q", "k")
    ]
    with torch.inference_mode():
        model(stretches(protocol, held_out, protocol.length))
    for hook in hooks:
        hook.remove()
    return [
        {"layer": layer, "wavelengths": encoding.inv_freq.reciprocal().mul(2 * math.pi).tolist(),
         "share": _shares(seen[layer, "q"] * seen[layer, "k"])}
        for layer, encoding in enumerate(rotary)
    ]  # fmt: skip


def pair_norms(x: Tensor, head_dim: int) -> Tensor:
    """The mean length of each half-layout pair of x [B, T, H * D]: [P]."""
    first, second = x.unflatten(-1, (-1, head_dim)).chunk(2, dim=-1)
    return torch.hypot(first, second).mean((0, 1, 2))


def _shares(weights: Tensor) -> list[float]:
    return (weights / weights.sum()).tolist()
