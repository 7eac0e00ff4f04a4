"""GGUF files made here with the format's own writer."""

import math

import numpy as np
import pytest
from gguf import GGUFReader, GGUFWriter

from ropewalk import Linear, RopewalkError, YaRN, from_config
from ropewalk.checkpoints.load import load
from ropewalk.checkpoints.recipes.llama_cpp import gguf_keys
from ropewalk.extend import scaling_for

HEAD, BASE, NATIVE = 32, 100_000.0, 2048


def write(path, tensor=None, **rope):
    """A Llama's metadata without weights; `rope` holds keys after "llama.rope.", with "__" for a dot."""
    keys = {"freq_base": BASE, **{key.replace("__", "."): value for key, value in rope.items()}}
    writer = GGUFWriter(path, "llama")
    for add, value in (
        (writer.add_context_length, NATIVE), (writer.add_embedding_length, 128), (writer.add_block_count, 2),
        (writer.add_feed_forward_length, 256), (writer.add_head_count, 4), (writer.add_head_count_kv, 2),
        (writer.add_layer_norm_rms_eps, 1e-5), (writer.add_vocab_size, 100),
    ):  # fmt: skip
        add(keys.pop("context_length", NATIVE) if add == writer.add_context_length else value)
    for key, value in keys.items():
        add = {str: writer.add_string, int: writer.add_uint32, bool: writer.add_bool}.get(
            type(value), writer.add_float32
        )
        add(f"llama.rope.{key}", value)
    if tensor:
        writer.add_tensor(tensor, np.ones(HEAD // 2, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    if tensor:
        writer.write_tensors_to_file()
    writer.close()
    return path


def as_converted(path, spec):
    """What the converter's rules make of the config that `spec` is written as."""
    keys = gguf_keys(spec)
    length = {"context_length": keys.pop("llama.context_length")}
    return write(path, **{key.removeprefix("llama.rope."): value for key, value in keys.items()}, **length)


def plan(method):
    plain = {
        "model_type": "llama", "hidden_size": 128, "num_attention_heads": 4, "num_hidden_layers": 2,
        "max_position_embeddings": NATIVE, "rope_theta": BASE,
    }  # fmt: skip
    return from_config(plain).extended(method, 4 * NATIVE)


def llama_cpp(factor, original, base=BASE, fast=32.0, slow=1.0, ext_factor=1.0):
    """llama.cpp's angle of position 1 in each pair, and what multiplies cos and sin, transcribed from its C.

    ggml_rope_yarn_corr_dims, rope_yarn_ramp and rope_yarn of ggml/src/ggml-cpu/ops.cpp; attn_factor as
    src/llama-context.cpp sets it, so that what rope_yarn multiplies by is cancelled but for 1 + 0.1 ln(factor).
    """
    corr = [HEAD * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base)) for turns in (fast, slow)]
    low, high = max(0, math.floor(corr[0])), min(HEAD - 1, math.ceil(corr[1]))
    freq_scale, angles = 1 / factor, []
    for i0 in range(0, HEAD, 2):
        theta_extrap = base ** (-i0 / HEAD)
        y = (i0 // 2 - low) / max(0.001, high - low)
        ramp_mix = (1 - min(1, max(0, y))) * ext_factor
        angles.append(freq_scale * theta_extrap * (1 - ramp_mix) + theta_extrap * ramp_mix)
    attn_factor = (0.1 * math.log(factor) + 1.0) * 1.0 / (1.0 + 0.1 * math.log(factor))
    return angles, attn_factor * (1.0 + 0.1 * math.log(1 / freq_scale))


def test_reads_what_the_metadata_states(tmp_path):
    spec = from_config(write(tmp_path / "plain.gguf"))
    assert (spec.native_length, spec.layers[0].base, spec.layers[0].head_dim) == (NATIVE, BASE, HEAD)
    assert len(spec.layers) == 2
    assert spec.scaling is None


def test_yarn_has_the_frequencies_and_the_temperature_that_llama_cpp_computes(tmp_path):
    spec = from_config(as_converted(tmp_path / "yarn.gguf", plan(YaRN(4.0, NATIVE))))
    assert (spec.scaling, spec.native_length, spec.max_length) == (YaRN(4.0, NATIVE), NATIVE, 4 * NATIVE)
    got = spec.layers[0].rotary().frequencies(spec.max_length)
    angles, factor = llama_cpp(4.0, NATIVE)
    assert got.inv_freq.tolist() == pytest.approx(angles, rel=1e-12)
    assert got.attention_factor == pytest.approx(factor, rel=1e-12)


def test_linear_and_the_larger_base_come_back_as_they_were_written(tmp_path):
    linear = from_config(as_converted(tmp_path / "linear.gguf", plan(Linear(4.0))))
    assert (linear.scaling, linear.native_length, linear.max_length) == (Linear(4.0), NATIVE, 4 * NATIVE)
    for method in ("ntk", "ntk-critical"):
        planned = plan(scaling_for(method, 4.0, NATIVE))
        larger = from_config(as_converted(tmp_path / f"{method}.gguf", planned))
        assert larger.scaling is None
        want = planned.layers[0].rotary().frequencies(NATIVE).inv_freq.tolist()
        # GGUF holds the base in float32
        assert larger.layers[0].rotary().inv_freq.tolist() == pytest.approx(want, rel=1e-7)


def test_the_keys_are_those_of_the_formats_own_names(tmp_path):
    from gguf import Keys

    stated = [*vars(Keys.LLM).values(), *vars(Keys.Rope).values()]
    names = {value.replace("{arch}", "llama") for value in stated if isinstance(value, str)}
    for method in ("linear", "yarn", "llama3", "ntk"):
        keys = gguf_keys(plan(scaling_for(method, 4.0, NATIVE)))
        assert set(keys) <= names
        written = GGUFReader(as_converted(tmp_path / f"{method}.gguf", plan(scaling_for(method, 4.0, NATIVE)))).fields
        for key, value in keys.items():
            assert written[key].contents() == (
                pytest.approx(value, rel=1e-7) if key != "llama.rope.scaling.type" else value
            )


@pytest.mark.parametrize(
    ("rope", "scaling"),
    [
        ({"scaling__type": "none", "scaling__factor": 4.0}, None),
        ({"scaling__type": "linear"}, None),
        ({"scaling__factor": 4.0}, Linear(4.0)),  # a file without a type is linear
        ({"scale_linear": 4.0}, Linear(4.0)),  # the key's old name
        ({"scaling__factor": 2.0, "scale_linear": 4.0}, Linear(2.0)),
        ({"scaling__type": "linear", "scaling__factor": 4.0, "scaling__finetuned": True}, Linear(4.0)),
        ({"scaling__type": "yarn", "scaling__factor": 4.0, "scaling__original_context_length": 512,
          "scaling__yarn_beta_fast": 32.0, "scaling__yarn_beta_slow": 1.0, "scaling__yarn_ext_factor": 1.0,
          "scaling__yarn_log_multiplier": 0.0, "scaling__attn_factor": 1.0}, YaRN(4.0, 512)),
    ],
)  # fmt: skip
def test_scalings_as_the_loader_takes_them(tmp_path, rope, scaling):
    assert from_config(write(tmp_path / "scaled.gguf", **rope)).scaling == scaling


@pytest.mark.parametrize(
    ("rope", "words"),
    [
        ({"scaling__type": "longrope", "scaling__factor": 4.0}, r"scaling\.type\) that no key of a config says"),
        ({"scaling__type": "linear", "scaling__factor": 4.0, "scaling__alpha": 2.0}, r"scaling\.alpha"),
        ({"scaling__type": "yarn", "scaling__factor": 4.0}, "without its original length"),
        ({"scaling__yarn_beta_fast": 7.27}, r"yarn_beta_fast = 7.27 is not what llama.cpp computes with \(32\)"),
        ({"scaling__yarn_attn_factor": 1.0}, r"yarn_attn_factor = 1 is not what llama.cpp computes with \(1.13863\)"),
        ({"scaling__yarn_log_multiplier": 0.1}, "yarn_log_multiplier"),
        ({"scaling__attn_factor": 1.19}, "attn_factor"),
    ],
)
def test_what_no_key_says_exactly_is_an_error(tmp_path, rope, words):
    yarn = {"scaling__type": "yarn", "scaling__factor": 4.0, "scaling__original_context_length": 512}
    rope = rope if "scaling__type" in rope else {**yarn, **rope}
    with pytest.raises(RopewalkError, match=f"scaled.gguf: .*{words}.*; use the checkpoint that it was converted from"):
        from_config(write(tmp_path / "scaled.gguf", **rope))


def test_factors_of_its_own_are_an_error(tmp_path):
    with pytest.raises(RopewalkError, match=r"rope_freqs\.weight\), which transformers drops"):
        from_config(write(tmp_path / "bands.gguf", tensor="rope_freqs.weight"))


def test_a_scaled_one_is_read_and_not_loaded(tmp_path):
    """transformers would load it unscaled, without a word."""
    file = as_converted(tmp_path / "yarn.gguf", plan(YaRN(4.0, NATIVE)))
    with pytest.raises(RopewalkError, match=r"states a scaling \(YaRN.*which transformers drops"):
        load(file)


def test_a_truncated_file(tmp_path):
    whole = write(tmp_path / "whole.gguf").read_bytes()
    (tmp_path / "cut.gguf").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RopewalkError, match=r"cut.gguf"):
        from_config(tmp_path / "cut.gguf")
