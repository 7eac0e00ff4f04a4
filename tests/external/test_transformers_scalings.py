"""Every scaling that transformers has, bit for bit, and read from the same config."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from ropewalk import from_config
from ropewalk.functional import inv_freq

HEADS = 4
BASES = [377.0, 10_000.0, 100_000.0, 500_000.0, 1_000_000.0]


def yarn(factor, original):
    extra = st.fixed_dictionaries(
        {},
        optional={
            "beta_fast": st.sampled_from([7.27, 16, 32.0]), "beta_slow": st.sampled_from([1, 2.0]),
            "truncate": st.booleans(), "attention_factor": st.sampled_from([1.0, 1.2]),
            "mscale": st.sampled_from([0.707, 1.0]), "mscale_all_dim": st.sampled_from([0, 0.707, 1.0]),
        },
    )  # fmt: skip
    return extra.map(lambda more: {"factor": factor, "original_max_position_embeddings": original, **more})


def longrope(factor, original, pairs):
    factors = st.lists(st.floats(1, 64), min_size=pairs, max_size=pairs)
    return st.builds(
        lambda short, long, more: {
            "short_factor": short, "long_factor": long, "original_max_position_embeddings": original, **more,
        },
        factors, factors,
        st.fixed_dictionaries({}, optional={"factor": st.just(factor), "attention_factor": st.just(1.19)}),
    )  # fmt: skip


@st.composite
def rope_parameters(draw, kind: str):
    head_dim, original = draw(st.sampled_from([16, 64, 128])), draw(st.sampled_from([256, 4096, 8192]))
    factor = draw(st.sampled_from([1.0, 2.0, 3.7, 4.0, 32.0]))
    keys = {
        "default": st.just({}),
        "linear": st.just({"factor": factor}),
        "dynamic": st.just({"factor": factor}),
        "yarn": yarn(factor, original),
        "llama3": st.just({
            "factor": factor, "low_freq_factor": 1.0, "high_freq_factor": draw(st.sampled_from([1.0, 4.0, 8])),
            "original_max_position_embeddings": original,
        }),
        "longrope": longrope(factor, original, head_dim // 2),
        "proportional": st.just({"partial_rotary_factor": draw(st.sampled_from([0.25, 0.5, 1.0])), "factor": factor}),
    }[kind]  # fmt: skip
    maximum = original if kind in ("default", "dynamic", "proportional") else int(original * factor)
    parameters = {"rope_type": kind, "rope_theta": draw(st.sampled_from(BASES)), **draw(keys)}
    return {
        "model_type": "llama", "hidden_size": HEADS * head_dim, "num_attention_heads": HEADS, "num_hidden_layers": 1,
        "head_dim": head_dim, "max_position_embeddings": maximum, "rope_parameters": parameters,
    }  # fmt: skip


def theirs(config: dict, length: int):
    parsed = LlamaConfig(**{k: v for k, v in config.items() if k != "model_type"})
    kind = config["rope_parameters"]["rope_type"]
    if kind == "default":
        from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

        return LlamaRotaryEmbedding(parsed).inv_freq, 1.0
    return ROPE_INIT_FUNCTIONS[kind](parsed, torch.device("cpu"), seq_len=length)


@pytest.mark.parametrize("kind", ["default", "linear", "dynamic", "yarn", "llama3", "longrope", "proportional"])
@given(data=st.data())
def test_equals_transformers_bit_for_bit(kind, data):
    config = data.draw(rope_parameters(kind))
    spec = from_config(config)
    length = data.draw(st.sampled_from([1, spec.native_length, spec.native_length + 1, 3 * spec.native_length]))
    want, factor = theirs(config, length)
    got = spec.layers[0].rotary(numerics="float32").frequencies(length)
    assert torch.equal(got.inv_freq, want)
    assert got.attention_factor == factor


def test_every_type_that_transformers_knows_is_compared():
    assert set(ROPE_INIT_FUNCTIONS) == {"linear", "dynamic", "yarn", "longrope", "llama3", "proportional"}


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("dim", [2, 16, 64, 80, 128])
def test_plain_frequencies_in_both_precisions(dim, base):
    powers = torch.tensor([base ** (-2 * i / dim) for i in range(dim // 2)], dtype=torch.float64)  # Python's own pow
    torch.testing.assert_close(inv_freq(dim, base), powers, rtol=1e-15, atol=0)
