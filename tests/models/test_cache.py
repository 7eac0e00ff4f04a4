"""Tokens that a cache forgets: the rest stands closer together, and attention is that of a fresh start."""

import pytest
import torch
from every_encoding import RELATIVE, built, decoder, tokens
from torch import Tensor
from torch.nn import functional as F

from ropewalk import RopewalkError, Rotary
from ropewalk.models import Cache, Decoder
from ropewalk.testing import attend_densely, rotate_complex

SINKS, WINDOW = 2, 9


def streamed(model: Decoder, text: Tensor) -> Tensor:
    """Logits of each token [B, T] when of those before it the first SINKS and the latest are kept, WINDOW in all."""
    cache, logits = Cache(), []
    with torch.inference_mode():
        for token in text.split(1, dim=1):
            if cache.length == WINDOW:
                cache.drop(1, after=SINKS)
            logits.append(model(token, cache=cache))
    return torch.cat(logits, dim=1)


def kept(last: int) -> list[int]:
    """The tokens that token `last` sees, itself included."""
    return [i for i in range(last + 1) if i < SINKS or i > last + SINKS - WINDOW]


@pytest.mark.parametrize("name", RELATIVE)
def test_one_layer_is_that_of_a_prefill_of_what_is_left(name):
    """Keys and values of a first layer come from their tokens alone, so that nothing of the forgotten is left."""
    model, text = decoder(built(name), layers=1), tokens(2, 24)
    found = streamed(model, text)
    for last in range(24):
        with torch.inference_mode():
            expected = model(text[:, kept(last)])[:, -1]
        torch.testing.assert_close(found[:, last], expected, rtol=0, atol=2e-5)


def test_a_thousand_evictions_are_as_right_as_one():
    model, text = decoder(Rotary(16), layers=1), tokens(1, 1000)
    with torch.inference_mode():
        expected = model(text[:, kept(999)])[:, -1]
    torch.testing.assert_close(streamed(model, text)[:, -1], expected, rtol=0, atol=2e-5)


def test_deeper_layers_are_those_of_streaming_llm_written_out():
    """Lists of un-rotated keys and of values a layer; positions are places in the list."""
    model, text = decoder(Rotary(16), layers=3).double(), tokens(2, 24)
    expected = []
    lists: list[list[tuple[Tensor, Tensor]]] = [[] for _ in model.blocks]
    with torch.inference_mode():
        for token in text.split(1, dim=1):
            x = model.embedding(token)
            for block, held in zip(model.blocks, lists, strict=True):
                own = block.attention
                q, k, v = (
                    part(block.attention_norm(x)).unflatten(-1, (-1, 16)).transpose(1, 2)
                    for part in (own.q, own.k, own.v)
                )
                held[:] = [*held[:SINKS], *held[SINKS:][-(WINDOW - SINKS - 1) :], (k, v)]
                keys, values = (torch.cat(parts, dim=2) for parts in zip(*held, strict=True))
                angles = torch.arange(len(held)).double()[:, None] * 10_000.0 ** -(torch.arange(0, 16, 2) / 16).double()
                seen = attend_densely(rotate_complex(q, angles[-1:]), rotate_complex(keys, angles), values)
                x = x + own.out(seen.transpose(1, 2).flatten(2))
                y = block.feed_norm(x)
                x = x + block.down(F.silu(block.gate(y)) * block.up(y))
            expected.append(model.head(model.norm(x)))
    torch.testing.assert_close(streamed(model, text), torch.cat(expected, dim=1), rtol=0, atol=1e-5)


def test_nothing_and_everything_can_be_dropped():
    model, cache, text = decoder(Rotary(16)), Cache(), tokens(1, 6)
    model(text, cache=cache)
    cache.drop(0)
    assert cache.length == 6
    cache.drop(6)
    assert torch.equal(model(text, cache=cache), model(text))


def test_bad_input():
    model, cache, text = decoder(Rotary(16)), Cache(), tokens(1, 6)
    model(text, cache=cache)
    with pytest.raises(RopewalkError, match="tokens=5 after 2 of a cache that holds 6"):
        cache.drop(5, after=2)
    with pytest.raises(RopewalkError, match="tokens=-1"):
        cache.drop(-1)
    padded = Cache()
    model(text, key_mask=torch.ones(1, 6, dtype=torch.int64), cache=padded)
    with pytest.raises(RopewalkError, match="positions of their own"):
        padded.drop(1)
