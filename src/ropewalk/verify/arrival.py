"""Checks that it does not matter how tokens arrive: at once, one by one from a cache, padded, packed."""

import itertools
from functools import partial

import torch

from ropewalk import positions
from ropewalk.models import Cache, Decoder
from ropewalk.verify.check import Check
from ropewalk.verify.encodings import DIM, HEADS, MAKERS, built, vivid
from ropewalk.verify.samples import relative, worst

VOCAB, TOTAL, SHORT = 50, 12, 7
LONG_ROW, SHORT_ROW = (torch.arange(TOTAL)[None] * step % VOCAB for step in (7, 11))


def decoder(name: str) -> Decoder:
    """Two layers with random weights, the second with a window of 5 tokens."""
    encoding, windows = built(name), [None, 5]
    model = Decoder(VOCAB, DIM, layers=2, heads=HEADS, kv_heads=2, hidden=DIM, encoding=encoding, window=windows)
    return vivid(model, 0.2)


def arrives(name: str) -> float:
    """The largest difference between any way of arriving and all at once, as a share of the largest logit."""
    model = decoder(name)
    return worst((cached(model), padded(model), packed(model)))


def cached(model: Decoder) -> float:
    """Token by token."""
    cache = Cache()
    steps = [model(LONG_ROW[:, i : i + 1], cache=cache, length=TOTAL) for i in range(TOTAL)]
    return relative(torch.cat(steps, dim=1), model(LONG_ROW, length=TOTAL))


def padded(model: Decoder) -> float:
    """A short row padded on the left beside a long one, all but two tokens at once and these from the cache."""
    pad = TOTAL - SHORT
    both = torch.cat((torch.cat((LONG_ROW[:, :pad], SHORT_ROW[:, :SHORT]), dim=1), LONG_ROW))
    mask, lengths = torch.ones_like(both), torch.tensor([SHORT, TOTAL])
    mask[0, :pad] = 0
    cache, borders = Cache(), (0, TOTAL - 2, TOTAL - 1, TOTAL)
    steps = [
        model(both[:, start:end], key_mask=mask[:, :end], cache=cache, length=lengths)
        for start, end in itertools.pairwise(borders)
    ]
    logits = torch.cat(steps, dim=1)
    short = relative(logits[:1, pad:], model(SHORT_ROW[:, :SHORT], length=SHORT))
    return worst((short, relative(logits[1:], model(LONG_ROW, length=TOTAL))))


def packed(model: Decoder) -> float:
    """Two documents in one row."""
    borders = torch.tensor([0, SHORT, SHORT + TOTAL])
    logits = model(
        torch.cat((SHORT_ROW[:, :SHORT], LONG_ROW), dim=1),
        positions.from_cu_seqlens(borders),
        documents=positions.documents(borders),
        length=TOTAL,
    )
    first = relative(logits[:, :SHORT], model(SHORT_ROW[:, :SHORT], length=TOTAL))
    return worst((first, relative(logits[:, SHORT:], model(LONG_ROW, length=TOTAL))))


CHECKS = tuple(
    Check(
        f"arrival: {name}",
        "Tokens at once, one by one from a cache, left-padded or packed give the same logits.",
        "identity",
        1e-5,
        partial(arrives, name),
    )
    for name in MAKERS
)
