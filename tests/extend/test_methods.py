import math
import re

import pytest
import torch

from ropewalk import LongRoPE, RopewalkError, YaRN
from ropewalk.checkpoints.readers import readers, writable
from ropewalk.extend import METHODS, scaling_for
from ropewalk.extend.methods import DEFAULT, beta_fast
from ropewalk.functional import inv_freq


@pytest.mark.parametrize("name", METHODS)
def test_every_method_reaches_the_target(name):
    """Its slowest pair, which never finishes a turn, is slowed by the factor, or nearly so for a larger base."""
    native, base = 4096, 10_000.0
    scaling = scaling_for(name, 4.0, native)
    plain = torch.tensor([base ** (-2 * i / 64) for i in range(32)], dtype=torch.float64)
    ratio = plain[-1] / scaling.apply(plain, base=base, length=4 * native).inv_freq[-1]
    assert ratio.item() == pytest.approx(4.0, rel=1e-6) or (name == "ntk-critical" and ratio > 4)


def test_beta_fast_follows_the_native_length_up_to_the_published_32():
    assert beta_fast(256) == 7.27
    assert beta_fast(4096) == pytest.approx(32.0, abs=0.1)
    assert beta_fast(131072) == 32.0
    assert all(beta_fast(n) < n / (2 * math.pi) for n in (64, 256, 1024))  # or every pair would be interpolated


def test_an_unknown_method_names_the_nearest():
    with pytest.raises(RopewalkError, match="unknown method 'lama3'; did you mean 'llama3'"):
        scaling_for("lama3", 4.0, 4096)


# DESIGN.md's table of method by reader: the first word of each answer.
YES, NO, IF = "yes", "no", "yes, if"
TABLE = {
    "linear": (YES, YES, YES, YES, YES, NO),
    "ntk": (YES, YES, YES, YES, YES, IF),
    "ntk-critical": (YES, YES, YES, YES, YES, IF),
    "yarn": (YES, YES, YES, YES, YES, NO),
    "yarn-paper": (YES, YES, YES, NO, NO, NO),
    "llama3": (YES, YES, YES, YES, YES, NO),
    "mrrope": (YES, YES, YES, NO, NO, NO),
    "dynamic": (NO,) * 6,
    "dynamic-linear": (NO,) * 6,
    "yarn-dynamic": (NO,) * 6,
}


def test_readers_are_those_of_the_table():
    for name in METHODS:
        answers = readers(scaling_for(name, 4.0, 8192)).values()
        assert tuple(IF if a.startswith(IF) else a.partition(":")[0] for a in answers) == TABLE[name], name


def test_readers_that_take_one_temperature_alone():
    """Nothing but transformers reads attention_factor beside yarn."""
    for odd in (YaRN(4.0, 8192, attention_factor=1.0), YaRN(4.0, 8192, mscale=1.0, mscale_all_dim=1.0)):
        answers = readers(odd)
        assert {answer for name, answer in answers.items() if name.startswith("transformers")} == {"yes"}
        for name in ("vLLM", "SGLang", "llama.cpp converter (Llama)"):
            assert re.search(r"^no: .* computes 1.13863 where 1 is meant$", answers[name]), name
    assert readers(YaRN(4.0, 8192, attention_factor=0.1 * math.log(4) + 1))["vLLM"] == "yes"


def test_llama_cpp_takes_betas_as_flags_alone_and_whole_pairs_alone():
    llama_cpp = "llama.cpp converter (Llama)"
    assert "--yarn-beta-fast 7.27 --yarn-beta-slow 1" in readers(scaling_for("yarn", 4.0, 256))[llama_cpp]
    assert "whole pairs" in readers(YaRN(4.0, 8192, truncate=False))[llama_cpp]


def test_two_sets_of_factors_are_one_in_vllm():
    two, one = LongRoPE([1.0] * 8, [2.0] * 8, 64), LongRoPE([2.0] * 8, [2.0] * 8, 64)
    assert readers(two)["vLLM"].startswith("no: it keeps the long factors")
    assert readers(one)["vLLM"] == "yes"


@pytest.mark.parametrize(
    ("temperature", "factor"),
    [("none", 1.0), ("yarn", 1 + 0.1 * math.log(4)), ("longrope", math.sqrt(math.log(4 * 4096) / math.log(4096)))],
)
@pytest.mark.parametrize("name", DEFAULT)
def test_a_temperature_is_a_choice_of_its_own(name, temperature, factor):
    """Frequencies as before, and readers that read them: a written `yarn` would get its own temperature in vLLM."""
    plain = inv_freq(64, 1e4)
    own, other = (scaling_for(name, 4.0, 4096, one) for one in (None, temperature))
    assert torch.equal(own.apply(plain, base=1e4)[0], other.apply(plain, base=1e4)[0])
    assert other.apply(plain, base=1e4).attention_factor == pytest.approx(factor, abs=1e-12)
    unchanged = own.apply(plain, base=1e4).attention_factor == pytest.approx(factor, abs=1e-12)
    assert (other == own) == unchanged
    assert writable(other)
    if not unchanged:
        assert readers(other)["llama.cpp converter (Llama)"].startswith("no: written as longrope factors")


def test_temperatures_that_cannot_be_had():
    with pytest.raises(RopewalkError, match="temperature='yarm'"):
        scaling_for("linear", 4.0, 4096, "yarm")
    for name in ("dynamic", "dynamic-linear", "yarn-dynamic"):
        with pytest.raises(RopewalkError, match=f"cannot be given to '{name}': its frequencies follow the length"):
            scaling_for(name, 4.0, 4096, "yarn")


def test_every_default_method_can_be_written():
    assert all(writable(scaling_for(name, 4.0, 4096)) for name in DEFAULT)
