"""Recipes: what stands in a command is what the checkpoint says, and what an engine reads wrongly gets none."""

import json
import re
import shlex

import pytest
import torch

from ropewalk import LongRoPE, NTKCritical, RopewalkError, YaRN, from_config
from ropewalk.checkpoints.load import SHIPPED
from ropewalk.checkpoints.patch import read_frequencies
from ropewalk.checkpoints.readers import writable
from ropewalk.checkpoints.recipes import ENGINES, recipe_for, recipes
from ropewalk.extend import METHODS, scaling_for

NATIVE, TARGET = 8192, 32768
LLAMA = {
    "model_type": "llama", "hidden_size": 128, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 100,
    "max_position_embeddings": NATIVE, "rope_theta": 100_000.0,
}  # fmt: skip
WRITABLE = [name for name in METHODS if writable(scaling_for(name, 4.0, NATIVE))]
REFUSED = {
    "linear": {"megatron"},
    "ntk": {"megatron"},  # its base is no whole number
    "ntk-critical": {"megatron"},
    "yarn": {"megatron"},
    "yarn-paper": {"sglang", "llama.cpp", "megatron"},
    "llama3": {"megatron"},
    "mrrope": {"sglang", "llama.cpp", "megatron"},
}


def planned(method, **config):
    return from_config({**LLAMA, **config}).extended(scaling_for(method, 4.0, NATIVE), TARGET)


def command(text: str, start: str) -> dict[str, str]:
    """The flags of the line that begins so."""
    words = shlex.split(next(line for line in text.splitlines() if line.startswith(start)))
    return {word: words[at + 1] for at, word in enumerate(words[:-1]) if word.startswith("-")}


@pytest.mark.parametrize("method", WRITABLE)
def test_one_for_each_engine_and_a_reason_for_each_refusal(method):
    found = recipes(planned(method), "DIR")
    assert [recipe.engine for recipe in found] == list(ENGINES)
    assert {recipe.engine for recipe in found if recipe.status == "refused"} == REFUSED[method]
    for recipe in found:
        refused = recipe.status == "refused"
        assert (bool(recipe.reason), bool(recipe.text)) == (refused, not refused)
        assert recipe.source
    assert [recipe.engine for recipe in found if recipe.status == "run here"] == ["transformers", "transformers-4"]


@pytest.mark.parametrize("method", WRITABLE)
def test_a_plan_and_what_is_written_of_it_have_the_same_recipes(method):
    spec = planned(method)
    assert recipes(spec, "DIR") == recipes(from_config(spec.to_config()), "DIR")


@pytest.mark.parametrize(
    ("engine", "start", "length", "flag"),
    [
        ("vllm", "vllm serve ORIGINAL", "--max-model-len", "--hf-overrides"),
        ("sglang", "python -m sglang.launch_server --model-path ORIGINAL", "--context-length",
         "--json-model-override-args"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("method", WRITABLE)
def test_the_overrides_make_the_original_config_the_extended_one(engine, start, length, flag, method):
    spec = planned(method)
    if engine in REFUSED[method]:
        return
    flags = command(recipe_for(engine, spec, "DIR").text, start)
    assert flags[length] == str(TARGET)
    overridden = {key: value for key, value in LLAMA.items() if key != "rope_theta"} | json.loads(flags[flag])
    read = from_config(overridden)
    want = spec.layers[0].rotary().frequencies(TARGET)
    got = read.layers[0].rotary().frequencies(TARGET)
    torch.testing.assert_close(got.inv_freq, want.inv_freq, rtol=1e-12, atol=0)
    assert got.attention_factor == pytest.approx(want.attention_factor, rel=1e-12)
    assert read.max_length == TARGET
    assert isinstance(json.loads(flags[flag])["rope_parameters"].get("factor", 1.0), float)  # vLLM iterates over an int


@pytest.mark.parametrize("method", METHODS)
def test_the_transformers_recipe_runs(method):
    """On the model that ships; its twin for transformers 4 runs in `make test-4.57`."""
    import transformers

    if transformers.__version__.startswith("4.") or not writable(scaling_for(method, 4.0, 256)):
        return
    spec = from_config(SHIPPED).extended(scaling_for(method, 4.0, 256), 1024)
    text = recipe_for("transformers", spec, str(SHIPPED)).text.replace("'ORIGINAL'", repr(str(SHIPPED)))
    loaded: dict = {}
    exec(text, loaded)
    (got,) = read_frequencies(loaded["model"], 1024)
    want = spec.layers[0].rotary(numerics="float32").frequencies(1024)
    torch.testing.assert_close(got.inv_freq, want.inv_freq, rtol=2e-7, atol=0)
    assert got.attention_factor == want.attention_factor


def test_llama_cpp_flags_of_each_method():
    def served(method, file):
        return next(
            line for line in recipe_for("llama.cpp", planned(method), "DIR").text.splitlines() if f"-m {file}" in line
        )

    assert served("linear", "original.gguf").endswith("-c 32768 --rope-scaling linear --rope-scale 4")
    assert served("yarn", "original.gguf").endswith("--rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 8192")
    assert served("yarn", "extended.gguf") == "llama-server -m extended.gguf -c 32768"
    base = float(served("ntk-critical", "original.gguf").split("--rope-freq-base ")[1])
    assert base == NTKCritical(4.0, NATIVE).base(torch.ones(16), 100_000.0)
    bands = recipe_for("llama.cpp", planned("llama3"), "DIR").text
    assert "rope_freqs.weight" in bands
    assert "original.gguf" not in bands  # no flag states bands


def test_llama_cpp_gets_the_betas_that_its_loader_does_not_read_by_flags():
    spec = from_config({**LLAMA, "max_position_embeddings": 256}).extended(scaling_for("yarn", 4.0, 256), 1024)
    text = recipe_for("llama.cpp", spec, "DIR").text
    assert [line for line in text.splitlines() if "llama-server" in line] == [
        "llama-server -m extended.gguf -c 1024 --yarn-beta-fast 7.27 --yarn-beta-slow 1",
        "llama-server -m original.gguf -c 1024 --rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 256 "
        "--yarn-beta-fast 7.27 --yarn-beta-slow 1",
    ]


def test_what_the_converter_reads_otherwise_is_refused():
    bands = planned("llama3").to_config()
    nested_only = {key: value for key, value in bands.items() if key != "original_max_position_embeddings"}
    assert recipe_for("llama.cpp", from_config(nested_only), "DIR").status == "documented"  # 8192 is what it guesses
    for keys in (nested_only["rope_scaling"], nested_only["rope_parameters"]):
        keys["original_max_position_embeddings"] = 4096
    assert "takes 8192 here where the scaling says 4096" in recipe_for("llama.cpp", from_config(nested_only), "").reason
    assert "not for 'qwen2'" in recipe_for("llama.cpp", planned("yarn", model_type="qwen2"), "DIR").reason


def test_megatron_takes_a_whole_base_and_llama_3_1():
    whole = from_config({**LLAMA, "rope_theta": 400_000.0, "original_max_position_embeddings": 2048})
    assert recipe_for("megatron", whole, "DIR").text == (
        "--position-embedding-type rope --rotary-base 400000 --max-position-embeddings 8192 --seq-length 8192\n"
    )
    assert recipe_for("megatron", from_config("llama-3.1-8b"), "DIR").text.endswith("--use-rope-scaling\n")
    assert "this base is" in recipe_for("megatron", planned("ntk"), "DIR").reason


def test_transformers_4_is_refused_a_config_that_it_would_misread():
    config = {key: value for key, value in planned("yarn").to_config().items() if not key.startswith("rope_")}
    config["rope_parameters"] = planned("yarn").to_config()["rope_parameters"]
    assert "transformers 4" in recipe_for("transformers-4", from_config(config), "DIR").reason
    assert recipe_for("transformers", from_config(config), "DIR").status == "run here"


def test_vllm_is_refused_a_longrope_whose_temperature_it_would_not_read():
    spec = from_config(LLAMA).extended(
        LongRoPE([2.0] * 16, [2.0] * 16, NATIVE, factor=4.0, attention_factor=1.3), TARGET
    )
    config = spec.to_config()
    assert recipe_for("vllm", from_config(config), "DIR").status == "documented"
    for keys in (config["rope_scaling"], config["rope_parameters"]):
        del keys["short_mscale"], keys["long_mscale"]
    # sqrt(1 + ln 4 / ln 8192) is what it computes from the lengths
    assert "computes 1.07417 where 1.3 is meant" in recipe_for("vllm", from_config(config), "DIR").reason


def test_models_whose_layers_differ_get_no_recipe_that_was_not_checked():
    for name in ("gemma-3-4b", "deepseek-v3"):
        found = {recipe.engine: recipe.status for recipe in recipes(from_config(name), "DIR")}
        assert found == {"transformers": "run here"} | dict.fromkeys(list(ENGINES)[1:], "refused")


def test_without_a_scaling_nothing_is_needed_but_the_length():
    for recipe in recipes(from_config(LLAMA), "DIR"):
        assert recipe.status != "refused"
        assert "ORIGINAL" not in recipe.text
        assert "scaling" not in recipe.text


def test_a_gguf_goes_to_llama_cpp_as_it_is():
    spec = from_config(LLAMA)
    assert recipe_for("llama.cpp", spec, "a b/m.gguf").text == "llama-server -m 'a b/m.gguf' -c 8192\n"
    assert "gguf_file='m.gguf'" in recipe_for("transformers", spec, "a/m.gguf").text
    assert recipe_for("vllm", spec, "m.gguf").status == "refused"
    scaled = {recipe.engine: recipe.status for recipe in recipes(planned("yarn"), "m.gguf")}
    assert scaled == dict.fromkeys(ENGINES, "refused") | {"llama.cpp": "documented"}
    newer = {key: value for key, value in LLAMA.items() if key != "rope_theta"}
    newer["rope_parameters"] = {"rope_type": "default", "rope_theta": 100_000.0}  # as transformers 5 reads a GGUF
    assert recipe_for("transformers-4", from_config(newer), "m.gguf").status == "run here"
    assert recipe_for("transformers-4", from_config(newer), "DIR").status == "refused"


def test_names_are_quoted():
    text = recipe_for("vllm", from_config(LLAMA), "it's; rm -rf").text
    assert shlex.split(text)[:3] == ["vllm", "serve", "it's; rm -rf"]


def test_dynamic_methods_get_none():
    dynamic = {**LLAMA, "rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}
    assert {recipe.status for recipe in recipes(from_config(dynamic), "DIR")} == {"refused"}


def test_an_unknown_engine_names_the_nearest():
    with pytest.raises(RopewalkError, match=r"unknown engine 'vLMM'; did you mean 'vllm'\? Known are transformers, "):
        recipe_for("vLMM", from_config(LLAMA), "DIR")
    with pytest.raises(RopewalkError, match=re.escape("unknown engine 'zzz'. Known are transformers, ")):
        recipe_for("zzz", from_config(LLAMA), "DIR")


def test_temperatures_that_engines_do_not_read_are_refused():
    spec = from_config(LLAMA).extended(YaRN(4.0, NATIVE, attention_factor=1.0), TARGET)
    found = {recipe.engine: recipe.status for recipe in recipes(spec, "DIR")}
    assert found == {"transformers": "run here", "transformers-4": "run here"} | dict.fromkeys(
        ("vllm", "sglang", "llama.cpp", "megatron"), "refused"
    )
