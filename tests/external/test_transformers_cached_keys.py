"""Caches of transformers hold rotated keys: those of a first layer, moved, are those of another prefill."""

import pytest
import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb, rotate_half

from ropewalk import DynamicLinear, DynamicNTK, Linear, Llama3, LongRoPE, Rotary, YaRN

HEAD, NATIVE = 16, 16
TOKENS = torch.randint(50, (2, 40), generator=torch.Generator().manual_seed(0))
SHORT, LONG = [1.0 + 0.1 * i for i in range(8)], [2.0 + i for i in range(8)]
ORIGINAL = {"original_max_position_embeddings": NATIVE}
STATIC = {
    "default": ({}, None),
    "linear": ({"factor": 4.0}, Linear(4.0)),
    "yarn": ({"factor": 4.0, **ORIGINAL}, YaRN(4.0, NATIVE)),
    "llama3": (
        {"factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, **ORIGINAL},
        Llama3(4.0, NATIVE),
    ),
}
DYNAMIC = {
    "dynamic": ({"factor": 2.0}, DynamicNTK(2.0, NATIVE)),
    "longrope": (
        {"short_factor": SHORT, "long_factor": LONG, "factor": 4.0, **ORIGINAL},
        LongRoPE(SHORT, LONG, NATIVE, factor=4.0),
    ),
}


def config(kind: str, keys: dict) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=50, hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, head_dim=HEAD,
        max_position_embeddings=NATIVE, rope_parameters={"rope_type": kind, "rope_theta": 100.0, **keys},
    )  # fmt: skip


def cached(given: LlamaConfig, *parts: torch.Tensor) -> torch.Tensor:
    """The keys of the first layer after the parts were read one after the other, by a model that has read nothing."""
    torch.manual_seed(0)
    model, cache = LlamaForCausalLM(given).eval(), DynamicCache()
    with torch.inference_mode():
        for part in parts:
            model(part, past_key_values=cache, use_cache=True)
    return cache.layers[0].keys


@pytest.mark.parametrize("kind", STATIC)
def test_keys_after_an_eviction(kind):
    keys, scaling = STATIC[kind]
    rope = Rotary(HEAD, base=100.0, scaling=scaling, numerics="float32")
    whole, rest = (cached(config(kind, keys), part) for part in (TOKENS, TOKENS[:, 13:]))
    torch.testing.assert_close(rope.shift(whole[:, :, 13:], -13), rest, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["default", "llama3"])
def test_sink_cache_formula(kind):
    """transformers' former SinkCache: new tables from products of the old and the new position's."""
    keys, scaling = STATIC[kind]
    tables = LlamaRotaryEmbedding(config(kind, keys))
    k = torch.randn(1, 2, 20, HEAD, generator=torch.Generator().manual_seed(1))
    (old_cos, old_sin), (cos, sin) = (tables(k, torch.arange(20)[None] + start) for start in (11, 4))
    _, rotated = apply_rotary_pos_emb(k, k, old_cos, old_sin)
    turn_cos, turn_sin = old_cos * cos + old_sin * sin, -old_sin * cos + old_cos * sin
    expected = rotated * turn_cos[:, None] + rotate_half(rotated) * turn_sin[:, None]
    rope = Rotary(HEAD, base=100.0, scaling=scaling, numerics="float32")
    torch.testing.assert_close(rope.shift(rotated, -7), expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("kind", STATIC)
def test_another_scaling(kind):
    plain, (keys, scaling) = Rotary(HEAD, base=100.0, numerics="float32"), STATIC[kind]
    found = plain.rescale(cached(config("default", {}), TOKENS), torch.arange(40), new=scaling)
    torch.testing.assert_close(found, cached(config(kind, keys), TOKENS), rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", DYNAMIC)
def test_keys_of_many_lengths_are_put_under_one(kind):
    """Decoding past the native length, transformers mixes keys of as many lengths; one pass has one."""
    keys, scaling = DYNAMIC[kind]
    rope, where = Rotary(HEAD, base=100.0, scaling=scaling, numerics="float32"), torch.arange(30)
    mixed = cached(config(kind, keys), TOKENS[:, :10], *TOKENS[:, 10:30].split(1, dim=1))
    one_pass = cached(config(kind, keys), TOKENS[:, :30])
    assert (mixed - one_pass).abs().max() > 0.1
    days = (where + 1).clamp(min=10)[None]
    found = rope.rescale(mixed, where, old_length=days, new_length=30)
    torch.testing.assert_close(found, one_pass, rtol=0, atol=1e-6)


def test_linear_scaling_that_follows_the_length():
    """Position interpolation of 4 is `DynamicLinear` at four times the native length."""
    rope = Rotary(HEAD, base=100.0, scaling=DynamicLinear(NATIVE), numerics="float32")
    k = cached(config("default", {}), TOKENS)
    found = rope.rescale(k, torch.arange(40), old_length=NATIVE, new_length=4 * NATIVE)
    torch.testing.assert_close(found, cached(config("linear", {"factor": 4.0}), TOKENS), rtol=0, atol=1e-6)
