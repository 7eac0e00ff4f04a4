import math

import pytest
import torch

from ropewalk import RopewalkError
from ropewalk.checkpoints.readers import READERS, readers, writable
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


def test_readers_are_those_of_the_table():
    """DESIGN.md's table: method by reader."""
    answers = {name: readers(scaling_for(name, 4.0, 4096)) for name in METHODS}
    llama_cpp = READERS[-1]
    for name in ("linear", "ntk", "ntk-critical", "yarn", "llama3"):
        assert set(answers[name].values()) == {"yes"}
    for name in ("yarn-paper", "mrrope"):
        assert answers[name].pop(llama_cpp).startswith("no: ")
        assert set(answers[name].values()) == {"yes"}
    for name in ("dynamic", "dynamic-linear", "yarn-dynamic"):
        assert all(answer.startswith("no: ") for answer in answers[name].values())


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
        assert readers(other)[READERS[-1]].startswith("no: written as longrope factors")


def test_temperatures_that_cannot_be_had():
    with pytest.raises(RopewalkError, match="temperature='yarm'"):
        scaling_for("linear", 4.0, 4096, "yarm")
    for name in ("dynamic", "dynamic-linear", "yarn-dynamic"):
        with pytest.raises(RopewalkError, match=f"cannot be given to '{name}': its frequencies follow the length"):
            scaling_for(name, 4.0, 4096, "yarn")


def test_every_default_method_can_be_written():
    assert all(writable(scaling_for(name, 4.0, 4096)) for name in DEFAULT)
