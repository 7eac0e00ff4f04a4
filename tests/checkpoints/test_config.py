"""`from_config`: what it reads, and that it refuses what it does not understand, by name."""

import json
import pickle

import pytest
from hypothesis import given
from strategies import PAIRS, scalings

from ropewalk import YaRN, from_config
from ropewalk._errors import RopewalkError
from ropewalk.checkpoints.errors import ConfigError
from ropewalk.checkpoints.spec import ModelSpec
from ropewalk.scaling import DynamicLinear, DynamicNTK, DynamicYaRN, Linear, MrRoPE, NTKCritical, Proportional

PLAIN = {
    "model_type": "llama", "hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 2, "head_dim": 2 * PAIRS,
    "max_position_embeddings": 4096, "rope_theta": 10_000.0,
}  # fmt: skip
WINDOWED = {"sliding_window": 128, "use_sliding_window": True, "max_window_layers": 1}
YARN = {"factor": 4.0, "original_max_position_embeddings": 4096}


def test_a_directory_a_file_and_a_dict_say_the_same(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(PLAIN))
    assert from_config(tmp_path) == from_config(tmp_path / "config.json") == from_config(PLAIN)


def test_a_transformers_config():
    from transformers import LlamaConfig

    config = LlamaConfig(max_position_embeddings=16384, rope_theta=5e5, rope_scaling={"rope_type": "yarn", **YARN})
    spec = from_config(config)
    assert (spec.native_length, spec.layers[1].base, spec.scaling) == (4096, 5e5, YaRN(4.0, 4096))


@pytest.mark.parametrize("keys", [
    {"rope_theta": 5e5, "rope_scaling": {"type": "yarn", **YARN}},
    {"rope_theta": 5e5, "rope_scaling": {"rope_type": "yarn", "type": "yarn", **YARN}},
    {"rope_theta": None, "rope_parameters": {"rope_type": "yarn", "rope_theta": 5e5, **YARN}},
    {"rope_theta": 5e5, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}, "original_max_position_embeddings": 4096},
    {"rope_theta": 5e5, "rope_scaling": {"type": "yarn", **YARN},
     "rope_parameters": {"rope_type": "yarn", "rope_theta": 5e5, **YARN}},
])  # fmt: skip
def test_every_spelling_of_one_scaling(keys):
    spec = from_config({**PLAIN, "max_position_embeddings": 16384, **keys})
    assert (spec.native_length, spec.max_length, spec.layers[0].base) == (4096, 16384, 5e5)
    assert spec.scaling == YaRN(4.0, 4096)


@given(scaling=scalings)
def test_round_trip(scaling):
    """What is written reads back as the same frequencies, in either spelling alone."""
    spec = from_config(PLAIN).extended(scaling, 1_048_576)
    if isinstance(scaling, DynamicNTK | DynamicLinear | DynamicYaRN | Proportional):
        with pytest.raises(RopewalkError, match=f"{type(scaling).__name__} cannot be written"):
            spec.to_config()
        return
    if hasattr(scaling, "original_length"):
        spec = from_config({**PLAIN, "max_position_embeddings": scaling.original_length}).extended(scaling, 1_048_576)
    written = json.loads(json.dumps(spec.to_config()))
    for dropped in ("rope_parameters", "rope_scaling", "original_max_position_embeddings"):
        read = from_config({k: v for k, v in written.items() if k != dropped})
        assert_same_frequencies(read, spec)


def assert_same_frequencies(read: ModelSpec, spec: ModelSpec) -> None:
    for length in (1, spec.max_length):
        want, got = (s.layers[0].rotary().frequencies(length) for s in (spec, read))
        assert ((got.inv_freq - want.inv_freq).abs() <= 1e-12 * want.inv_freq).all()
        assert got.attention_factor == pytest.approx(want.attention_factor, abs=1e-12)
    assert read.max_length == spec.max_length


def test_a_larger_base_is_all_that_ntk_needs():
    scaling = NTKCritical(4.0, 4096)
    config = from_config(PLAIN).extended(scaling, 16384).to_config()
    assert config["rope_parameters"] == {"rope_type": "default", "rope_theta": config["rope_theta"]}
    assert config["rope_scaling"] is None
    assert config["rope_theta"] > 4 * 10_000


@pytest.mark.parametrize(("native", "target"), [(1000, 1076), (3000, 3001), (64, 100_000)])
def test_the_native_length_survives_any_factor(native, target):
    spec = from_config({**PLAIN, "max_position_embeddings": native})
    for scaling in (Linear(target / native), NTKCritical(target / native, native), YaRN(target / native, native)):
        read = from_config(spec.extended(scaling, target).to_config())
        assert (read.native_length, read.max_length, read.is_extended) == (native, target, True)


def test_both_spellings_and_the_original_length_at_the_top():
    config = from_config(PLAIN).extended(MrRoPE(4.0, 4096), 16384).to_config()
    assert config["rope_theta"] == config["rope_parameters"]["rope_theta"] == 10_000.0
    assert "rope_theta" not in config["rope_scaling"]
    assert {**config["rope_scaling"], "rope_theta": 10_000.0} == config["rope_parameters"]
    assert config["original_max_position_embeddings"] == 4096
    scaling = config["rope_scaling"]
    assert scaling["short_mscale"] == scaling["long_mscale"] == scaling["attention_factor"]  # vLLM reads these alone
    assert config["max_position_embeddings"] == 16384


@pytest.mark.parametrize(("change", "message"), [
    ({"model_type": "never-heard-of"}, "'never-heard-of' is not among"),
    ({"model_type": None}, "'model_type' is missing"),
    ({"max_position_embeddings": None}, "'max_position_embeddings' is missing"),
    ({"max_position_embeddings": 0}, "max_position_embeddings=0"),
    ({"rope_theta": "1e4"}, "rope_theta='1e4'"),
    ({"rope_theta": float("nan")}, "rope_theta=nan"),
    ({"num_hidden_layers": 0}, "num_hidden_layers=0"),
    ({"head_dim": 7}, "head_dim=7"),
    ({"rope_scaling": {"rope_type": "yarn", "facter": 4.0, **YARN}}, "unknown key 'facter'"),
    ({"rope_scaling": {"rope_type": "yarm", **YARN}}, "rope_type='yarm' is unknown"),
    ({"rope_scaling": {"rope_type": "yarn", "type": "linear", **YARN}}, "contradict"),
    ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "'original_max_position_embeddings' is missing"),
    ({"rope_scaling": {"rope_type": "llama3", **YARN}}, "'high_freq_factor', 'low_freq_factor' is missing"),
    ({"rope_scaling": {"rope_type": "linear", "factor": None}}, "'factor' is missing"),
    ({"rope_scaling": {"rope_type": "linear", "factor": 0.5}}, "factor=0.5"),
    ({"rope_scaling": {"rope_type": "linear", "factor": "4"}}, "factor='4'"),
    ({"rope_scaling": [4.0]}, "not an object"),
    ({"rope_scaling": {"factor": 4.0}}, "unknown key 'factor'"),
    ({"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}, "rope_theta is stated as"),
    ({"rope_scaling": {"type": "linear", "factor": 4.0}, "rope_parameters": {"type": "linear", "factor": 2.0}},
     "disagree on 'factor'"),
    ({"rope_parameters": {"full_attention": {"rope_type": "default"}}}, "each layer type"),
    ({"hidden_size": "32", "head_dim": None}, "hidden_size='32'"),
    ({"num_attention_heads": 0, "head_dim": None}, "num_attention_heads=0"),
    ({"model_type": ["llama"]}, "is not among"),
    ({"rope_scaling": {"rope_type": ["yarn"]}}, "is not a name"),
    ({"rope_scaling": {"rope_type": "longrope", **YARN, "short_factor": [1.0] * PAIRS, "long_factor": [2.0] * PAIRS,
                       "attention_factor": 1.1, "short_mscale": 1.2}}, "long_mscale and attention_factor differ"),
    ({"rope_scaling": {"rope_type": "yarn", "truncate": None, **YARN}}, "truncate=None"),
    ({"rope_scaling": {"type": "yarn", **YARN}, "rope_parameters": {"type": "yarn", "beta_fast": 8, **YARN}},
     "disagree on 'beta_fast'"),
    ({"rope_theta": None, "rope_scaling": {"type": "yarn", **YARN},
      "rope_parameters": {"type": "yarn", "rope_theta": 5e5, **YARN}}, "rope_theta stands in rope_parameters alone"),
    ({"model_type": "qwen2", **WINDOWED, "max_window_layers": "1"}, "max_window_layers='1'"),
])  # fmt: skip
def test_refusals_name_the_key(change, message):
    with pytest.raises(RopewalkError, match=message):
        from_config({**PLAIN, **change})


@pytest.mark.parametrize(("change", "base", "windows"), [
    ({}, 10_000.0, [None, None]),
    ({"sliding_window": 128}, 10_000.0, [None, None]),  # Llama's code has no window
    ({"model_type": "mistral"}, 10_000.0, [4096, 4096]),
    ({"model_type": "mistral", "sliding_window": None}, 10_000.0, [None, None]),
    ({"model_type": "mixtral"}, 1_000_000.0, [None, None]),
    ({"model_type": "qwen2", "sliding_window": 128}, 10_000.0, [None, None]),
    ({"model_type": "qwen3", **WINDOWED}, 10_000.0, [None, 128]),
    ({"model_type": "qwen3", **WINDOWED, "use_sliding_window": False}, 10_000.0, [None, None]),
    ({"model_type": "qwen3", "sliding_window": 128, "max_window_layers": 1}, 10_000.0, [None, None]),
])  # fmt: skip
def test_what_transformers_takes_where_a_config_is_silent(change, base, windows):
    from transformers import AutoConfig

    config = {k: v for k, v in PLAIN.items() if k not in ("rope_theta", "head_dim")} | change
    spec = from_config(config)
    assert spec.layers[0].base == base
    assert [layer.window for layer in spec.layers] == windows
    theirs = AutoConfig.for_model(config.pop("model_type"), **config)
    assert (getattr(theirs, "rope_parameters", None) or {"rope_theta": theirs.rope_theta})["rope_theta"] == base
    assert (getattr(theirs, "head_dim", None) or 256 // 4) == spec.layers[0].head_dim
    if theirs.model_type != "llama":
        kinds = getattr(theirs, "layer_types", None) or ["sliding_attention"] * 2
        assert [theirs.sliding_window if kind == "sliding_attention" else None for kind in kinds] == windows


def test_a_composite_config_may_be_flat_as_qwen2_vl_was_published():
    keys = {**PLAIN, "rope_scaling": {"type": "mrope", "mrope_section": [8, 12, 12]}, "rope_theta": 1e6, "head_dim": 64}
    text = from_config({**keys, "model_type": "qwen2_vl_text"})
    assert from_config({**keys, "model_type": "qwen2_vl", "vision_config": {"depth": 1}}).layers == text.layers
    with pytest.raises(RopewalkError, match="'text_config' is missing beside keys of its own"):
        from_config({**keys, "model_type": "llava"})


@pytest.mark.parametrize("model_type", ["qwen2", "gemma2"])
def test_a_window_that_is_null_is_none(model_type):
    config = {**PLAIN, "model_type": model_type, **WINDOWED, "sliding_window": None}
    assert [layer.window for layer in from_config(config).layers] == [None, None]


@pytest.mark.parametrize(("name", "factor"), [("deepseek-v2", 1.5896262), ("deepseek-v3", 1.8738542)])
def test_latent_attention_scales_its_softmax_by_mscale_squared(name, factor):
    """(0.1 mscale_all_dim ln 40 + 1)^2 with 0.707 and 1.0; the tables themselves keep factor 1."""
    layer = from_config(name).layers[0]
    assert layer.softmax_factor == pytest.approx(factor, abs=1e-7)
    assert layer.rotary().attention_factor == 1.0


def test_llama_4_attends_in_chunks_where_it_rotates():
    config = {**PLAIN, "model_type": "llama4_text", "num_hidden_layers": 4, "no_rope_layers": [1, 0, 1, 1]}
    layers = from_config({**config, "attention_chunk_size": 128}).layers
    assert [layer.chunk for layer in layers] == [128, None, 128, 128]
    assert [layer.encoding for layer in layers] == ["rotary", "none", "rotary", "rotary"]


def test_a_scaling_that_replaces_deepseeks_takes_its_softmax_factor_away():
    spec = from_config("deepseek-v3").extended(Linear(2.0), 300_000)
    assert from_config(spec.to_config()).layers == spec.layers


def test_vicuna_states_its_native_length_as_the_maximum():
    scaled = {**PLAIN, "rope_scaling": {"type": "linear", "factor": 4.0}}
    assert from_config(scaled).native_length == 1024
    assert from_config({**scaled, "max_sequence_length": 16384}).native_length == 4096


def test_what_is_assumed_is_told():
    for config, key in (
        ({"model_type": "glm4"}, "partial_rotary_factor"),
        ({"model_type": "gpt_neox"}, "rotary_pct"),
        ({"model_type": "gemma3_text"}, "sliding_window_pattern"),
        ({"model_type": "mllama_text_model"}, "cross_attention_layers"),
        ({"model_type": "deepseek_v3", "qk_rope_head_dim": None}, "qk_rope_head_dim"),
    ):
        told = [finding.message for finding in from_config({**PLAIN, **config}).findings if finding.code == "assumed"]
        assert any(key in message for message in told), key


def test_a_part_may_carry_the_name_of_the_whole():
    tower = {"depth": 2, "hidden_size": 64, "num_heads": 4}
    config = {"model_type": "qwen3_vl", "vision_config": {"model_type": "qwen3_vl", **tower}}
    assert [layer.encoding for layer in from_config(config, part="vision_config").layers] == ["axial"] * 2


def test_an_error_survives_pickling_and_a_spec_its_caller():
    with pytest.raises(ConfigError) as caught:
        from_config({**PLAIN, "model_type": "chatglm"})
    assert pickle.loads(pickle.dumps(caught.value)).finding == caught.value.finding
    config = {**PLAIN, "max_position_embeddings": 16384, "rope_scaling": {"type": "yarn", **YARN}}
    spec = from_config(config)
    config["rope_scaling"]["factor"] = 99
    assert spec.to_config()["rope_scaling"]["factor"] == 4.0


def test_files_that_are_no_config(tmp_path):
    with pytest.raises(RopewalkError, match="no such file"):
        from_config(tmp_path / "nowhere")
    for content, message in (("{", "not JSON"), ("[]", "not the object")):
        (tmp_path / "config.json").write_text(content)
        with pytest.raises(RopewalkError, match=message):
            from_config(tmp_path)
    (tmp_path / "model.gguf").write_bytes(b"GGML....")
    with pytest.raises(RopewalkError, match="not a GGUF file"):
        from_config(tmp_path / "model.gguf")
