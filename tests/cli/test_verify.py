"""`ropewalk verify`: it passes here, and it finds faults of many kinds."""

import importlib
import json
import math
import re
import subprocess
import sys

import pytest
import torch

from ropewalk import positions, verify
from ropewalk.attention import attention, sdpa, sight
from ropewalk.functional import alibi, t5
from ropewalk.kernels import cpu
from ropewalk.kernels.autograd import Rotation
from ropewalk.models import Cache
from ropewalk.modules import (
    ALiBi,
    CoPE,
    DualChunk,
    Learned,
    Rotary,
    SelfExtend,
    Shaw,
    T5Bias,
    TransformerXL,
    XPos,
    axial,
    grids,
    rotary,
)
from ropewalk.modules import t5 as t5_module
from ropewalk.modules.grids import ByAxis
from ropewalk.scaling import DynamicNTK, Linear, Llama3, LongRoPE, YaRN
from ropewalk.verify import CHECKS, Check, absolute
from ropewalk.verify import kernels as kernel_checks
from ropewalk.verify.samples import worst

rotation_kernel = importlib.import_module("ropewalk.kernels.rotate")  # likewise
sinusoids = importlib.import_module("ropewalk.functional.sinusoidal")  # the package has a function of that name


@pytest.fixture
def only(monkeypatch):
    """Leave `ropewalk verify` these checks."""
    return lambda *checks: monkeypatch.setattr(verify, "CHECKS", checks)


def check(name: str, error, tolerance: float = 0.0) -> Check:
    return Check(name, f"What {name} says.", "identity", tolerance, error)


def raises(error: Exception):
    def function(*_, **__):
        raise error

    return function


def test_everything_holds_here(ropewalk, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    outcome = ropewalk("verify")
    assert outcome.code == 0
    assert outcome.out.splitlines()[-1] == f"{len(CHECKS)} checks hold"
    assert outcome.err == ""
    for check in CHECKS:
        (line,) = (line for line in outcome.out.splitlines() if line.startswith(f" {check.name} "))
        assert line.endswith(" holds ")
        assert check.against in line


def test_json(ropewalk):
    import transformers

    outcome = ropewalk("verify", "--json")
    assert outcome.code == 0
    content = json.loads(outcome.out)
    assert {key: content[key] for key in content if key != "checks"} == {
        "schema_version": 1, "torch": torch.__version__, "transformers": transformers.__version__, "device": "cpu",
        "kernel": cpu.missing or "compiled",
    }  # fmt: skip
    assert [check["name"] for check in content["checks"]] == [check.name for check in CHECKS]
    for check in content["checks"]:
        assert set(check) == {"name", "statement", "against", "largest_error", "tolerance", "holds", "note"}
        assert check["holds"] is True
        assert 0 <= check["largest_error"] <= check["tolerance"]


def test_the_checks_can_be_told_apart():
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    assert {check.against for check in CHECKS} == set(verify.check.AGAINST)
    assert all(check.statement.endswith((".", ").")) and "\n" not in check.statement for check in CHECKS)


def test_help_has_an_example(ropewalk):
    assert "Example: ropewalk verify" in ropewalk("verify", "--help").out


def test_a_narrow_terminal_keeps_every_column(ropewalk, only, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    only(*CHECKS[:3])
    outcome = ropewalk("verify")
    assert re.search(r"^ sinusoidal: shift +identity +[\d.]+e-\d+ +5e-07 +holds *$", outcome.out, re.MULTILINE)
    assert max(map(len, outcome.out.splitlines())) <= 80


def test_without_transformers_its_rows_are_not_run():
    code = """
import sys
sys.modules["transformers"] = None  # as if it were not installed
from ropewalk.cli.main import main
main()
"""
    command = [sys.executable, "-W", "ignore", "-c", code, "verify"]
    as_json, table = (
        subprocess.run([*command, *more], capture_output=True, text=True, check=False) for more in (["--json"], [])
    )
    assert as_json.returncode == table.returncode == 0, as_json.stderr
    content = json.loads(as_json.stdout)
    assert content["transformers"] is None
    for check in content["checks"]:
        if check["against"] == "transformers":
            assert check["holds"] is check["largest_error"] is None
            assert check["note"] == "not run without transformers: pip install 'ropewalk[hf]'"
        else:
            assert check["holds"] is True
    peers = sum(check.against == "transformers" for check in CHECKS)
    assert table.stdout.splitlines()[-1] == f"{len(CHECKS) - peers} checks hold; {peers} not run"
    assert table.stdout.count("not run without transformers: pip install 'ropewalk[hf]'") == 1


def test_a_finding_is_named_and_exits_1(ropewalk, only):
    only(check("fine", lambda: 0.0), check("too far", lambda: 0.5, 0.25), check("close", lambda: 0.25, 0.25))
    outcome = ropewalk("verify")
    assert outcome.code == 1
    assert outcome.out.splitlines()[-1] == "1 of 3 fails: too far"


@pytest.mark.parametrize("error", [math.nan, math.inf])
def test_what_is_no_number_is_a_finding(ropewalk, only, error):
    only(check("lost", lambda: error, 1.0), check("also lost", lambda: error, 1.0))
    assert ropewalk("verify").out.splitlines()[-1] == "2 of 2 fail: lost; also lost"
    outcome = ropewalk("verify", "--json")
    assert outcome.code == 1
    assert json.loads(outcome.out)["checks"][0]["largest_error"] is None


def test_a_check_that_raises_is_a_finding_and_the_others_go_on(ropewalk, only):
    only(check("broken", raises(RuntimeError("no such shape"))), check("fine", lambda: 0.0))
    outcome = ropewalk("verify")
    assert outcome.code == 1
    assert "broken: RuntimeError: no such shape" in outcome.out
    assert outcome.out.splitlines()[-1] == "1 of 2 fails: broken"


def test_a_missing_module_of_our_own_is_a_finding(only, ropewalk):
    only(check("gone", raises(ModuleNotFoundError("no ropewalk.x", name="ropewalk.x"))))
    assert ropewalk("verify").code == 1


def test_a_transformers_that_lacks_something_is_no_finding(only, ropewalk):
    only(check("old", raises(ImportError("cannot import name 'x'", name="transformers.models"))))
    outcome = ropewalk("verify", "--json")
    assert outcome.code == 0
    (result,) = json.loads(outcome.out)["checks"]
    assert result["holds"] is None
    assert "not run with this transformers (cannot import name 'x')" in result["note"]


def test_a_full_memory_is_not_a_finding(only, ropewalk):
    only(check("large", raises(MemoryError("out of it"))))
    assert ropewalk("verify").code == 3


def test_the_random_state_is_left_alone():
    before = torch.get_rng_state()
    assert all(result.holds for result in verify.run(CHECKS))
    assert torch.equal(torch.get_rng_state(), before)


def test_the_worst_of_errors_is_nan_where_one_is():
    for errors in ((0.0, math.nan), (math.nan, 0.0), (math.nan, math.inf), (1.0, math.nan, 2.0)):
        assert math.isnan(worst(errors))
    assert worst((0.5, 2.0, 1.0)) == 2.0


FAULTS = {}


def fault(*names: str):
    """A fault that the checks of these names have to find."""

    def keep(function):
        FAULTS[function.__name__] = (function, set(names))
        return function

    return keep


def wrapped(patch, owner, name, change):
    """Let `change` have the last word on what `owner.name` returns, given its arguments too."""
    original = getattr(owner, name)
    patch.setattr(owner, name, lambda *given, **named: change(original(*given, **named), *given))


@fault("rotary: complex", "rotary: matrix", "rotary: far out", "llama: tables", "llama: rotation")
def the_sign_of_sin(patch):
    wrapped(patch, rotary, "tables", lambda tables, *_: (tables[0], -tables[1]))


@fault("xpos: formula", "arrival: xpos")
def a_centre_that_goes_by_the_length_of_the_call(patch):
    original = XPos._scaled

    def scaled(self, positions, twice_centre, sign):
        return original(self, positions, twice_centre + (40 * positions.shape[-1] if sign > 0 else 0), sign)

    patch.setattr(XPos, "_scaled", scaled)


@fault("mrope: text")
def axes_that_turn_backwards(patch):
    wrapped(patch, axial, "cos_sin", lambda tables, *_: (tables[0], -tables[1]))


@fault("axial: resolution")
def the_scaling_of_the_other_axis(patch):
    patch.setattr(grids, "ByAxis", lambda scalings, *pairs: ByAxis(scalings[::-1], *pairs))


@fault("rotary: far out")
def angles_in_float32(patch):
    original = rotary.tables
    patch.setattr(rotary, "tables", lambda where, inv_freq, factor: original(where, inv_freq.float(), factor))


@fault("rotary: complex", "rotary: matrix", "attend: rotary", "llama: rotation", "shipped model: logits")
def layouts_swapped(patch):
    original, other = rotary.rotate, {"half": "interleaved", "interleaved": "half"}
    patch.setattr(rotary, "rotate", lambda *given, layout, first: original(*given, layout=other[layout], first=first))


@fault(
    "rotary: distance",
    "rotary: length",
    "rotary: addition",
    "rotary: complex",
    "attention: distance",
    "llama: rotation",
)
def half_of_the_rotation_forgotten(patch):
    original = rotary.rotate

    def turn(q, k, *tables, **options):
        turned = original(q, k, *tables, **options)
        return tuple(new.where(old > 0, old) for new, old in zip(turned, (q, k), strict=True))

    patch.setattr(rotary, "rotate", turn)


@fault("attention: positions", "attend: rotary", "shipped model: logits")
def rotary_not_asked(patch):
    patch.setattr(Rotary, "rotate", lambda self, q, k, *_: (q, k))


@fault("rotary: layouts", "rotary: complex", "rotary: matrix")
def interleaved_turns_backwards(patch):
    original = rotary.rotate

    def turn(q, k, *tables, layout, first):
        tables = [(cos, -sin if layout == "interleaved" else sin) for cos, sin in tables]
        return original(q, k, *tables, layout=layout, first=first)

    patch.setattr(rotary, "rotate", turn)


if cpu.missing is None:

    @fault("kernel: rotation")
    def a_kernel_that_fuses_products_and_sums(patch):
        original = rotation_kernel.called
        patch.setattr(rotation_kernel, "called", lambda *given: [x * (1 + 2**-20) for x in original(*given)])

    @fault("kernel: gradient")
    def a_gradient_that_turns_the_same_way(patch):
        original = Rotation.backward

        def backward(ctx, *gradients):
            ctx.options = (*ctx.options[:-1], not ctx.options[-1])
            return original(ctx, *gradients)

        patch.setattr(Rotation, "backward", staticmethod(backward))

    @fault("kernel: tables")
    def tables_off_by_two_bits(patch):
        wrapped(patch, kernel_checks, "tables", lambda tables, *_: (tables[0] * (1 + 2**-22), tables[1]))


@fault(
    "scaling: factor 1", "linear: frequencies", "dynamic: frequencies", "yarn: frequencies", "llama3: frequencies",
    "longrope: frequencies",
)  # fmt: skip
def scalings_off_by_a_millionth(patch):
    for method in (Linear, DynamicNTK, YaRN, Llama3, LongRoPE):
        wrapped(patch, method, "apply", lambda scaled, *_: scaled._replace(inv_freq=scaled.inv_freq * (1 + 1e-6)))


@fault("scaling: factor 4", "yarn: frequencies")
def yarn_ramp_inverted(patch):
    wrapped(patch, YaRN, "_ramp_by_index", lambda ramp, *_: 1 - ramp)


@fault("alibi: slopes", "alibi: linear", "attend: alibi", "bloom: slopes", "mpt: slopes")
def alibi_exponent_off_by_one(patch):
    patch.setattr(alibi, "_geometric", lambda heads: [2.0 ** (-8.0 * h / heads) for h in range(heads)])


@fault("alibi: linear", "attend: alibi", "attend: t5, one way", "attend: t5, both ways")
def biases_rounded_to_bfloat16(patch):
    for encoding in (ALiBi, T5Bias):
        wrapped(patch, encoding, "by_distance", lambda bias, *_: bias.bfloat16().float())


@fault("attend: t5, one way", "attend: t5, both ways")
def t5_sign(patch):
    original = t5_module.t5_bucket
    patch.setattr(t5_module, "t5_bucket", lambda relative, **sizes: original(-relative, **sizes))


@fault("t5: borders", "t5: buckets")
def t5_border_off_by_one(patch):
    wrapped(patch, t5, "_borders", lambda borders, *_: (*borders[:-1], borders[-1] + 1))


@fault("attend: shaw")
def shaw_looks_the_wrong_way(patch):
    wrapped(patch, Shaw, "_index", lambda index, self, *_: self.max_distance + self.max_future - index)


@fault("attend: transformer-xl")
def transformer_xl_takes_cosines_for_sines(patch):
    wrapped(patch, TransformerXL, "_tables", lambda tables, *_: tables[::-1])


@fault("attend: cope", "arrival: cope")
def cope_counts_what_is_hidden(patch):
    original = CoPE._counts
    patch.setattr(CoPE, "_counts", lambda self, q, k, q_at, k_at, visible: original(self, q, k, q_at, k_at, None))


@fault("sinusoidal: formula", "marian: sinusoids")
def sines_and_cosines_swapped(patch):
    wrapped(patch, sinusoids, "cos_sin", lambda tables, *_: (tables[1], tables[0]))


@fault("sinusoidal: bounds", "sinusoidal: length", "sinusoidal: formula", "marian: sinusoids")
def sinusoids_too_large(patch):
    wrapped(patch, sinusoids, "cos_sin", lambda tables, *_: (1.01 * tables[0], 1.01 * tables[1]))


@fault("sinusoidal: shift")
def the_shift_moves_back(patch):
    original = absolute.sinusoidal_shift
    patch.setattr(absolute, "sinusoidal_shift", lambda offset, dim, **form: original(-offset, dim, **form))


@fault("sinusoidal: formula")
def one_grid_for_both(patch):
    original = sinusoids.sinusoidal_frequencies
    patch.setattr(sinusoids, "sinusoidal_frequencies", lambda dim, *, base, grid: original(dim, base=base))


@fault("learned: maximum")
def learned_goes_on_with_its_last_row(patch):
    patch.setattr(Learned, "rows", lambda self, positions: self.weight[positions.clamp(0, self.max_length - 1)])


@fault("arrival: sinusoidal", "arrival: learned")
def positions_at_the_input_off_by_one_after_a_cache(patch):
    original = positions.arange
    patch.setattr(positions, "arange", lambda length, offset=0, **kw: original(length, max(0, offset - 1), **kw))


@fault(
    "arrival: rotary",
    "arrival: rotary, yarn",
    "arrival: rotary, dynamic",
    "arrival: alibi",
    "arrival: t5",
    "arrival: kerple",
    "arrival: sandwich",
    "arrival: fire",
    "arrival: shaw",
    "arrival: transformer-xl",
    "arrival: self-extend",
    "arrival: dual chunk",
)
def positions_of_queries_off_by_one_after_a_cache(patch):
    def earlier(places, queries, keys, *_):
        return places if queries == keys else (places[0] - 1, places[1])

    wrapped(patch, sight, "_places", earlier)


@fault("arrival: rotary", "arrival: alibi", "arrival: t5", "arrival: shaw")
def positions_of_cached_keys_off_by_one_under_a_mask(patch):
    def earlier(places, cache, *_):
        return places if places is None or not cache.length else torch.cat((places[..., :1], places[..., :-1]), dim=-1)

    wrapped(patch, Cache, "place", earlier)


def ruled(patch, **changes):
    """Change a rule of who sees whom on its way."""
    original = attention.sight

    def sight(q, k, **rules):
        return original(q, k, **{**rules, **{name: change(rules[name]) for name, change in changes.items()}})

    patch.setattr(attention, "sight", sight)


@fault("attend: no encoding", "attention: mask", "arrival: no encoding", "attend: who sees whom")
def no_causal_mask(patch):
    ruled(patch, causal=lambda _: False)


@fault("attention: no order", "attend: t5, both ways")
def a_causal_mask_unasked(patch):
    ruled(patch, causal=lambda _: True)


@fault("attend: who sees whom", "arrival: rotary", "arrival: no encoding")
def padding_is_seen(patch):
    ruled(patch, key_mask=lambda _: None)


@fault("attend: who sees whom", "arrival: rotary", "arrival: no encoding")
def documents_see_each_other(patch):
    ruled(patch, documents=lambda _: None)


@fault("attend: self-extend")
def groups_are_not_joined_to_the_window(patch):
    wrapped(patch, SelfExtend, "moved", lambda moved, self, *_: (moved[0] - self.window, moved[1]))


@fault("attend: dual chunk")
def chunks_are_seen_from_one_nearer(patch):
    wrapped(patch, DualChunk, "moved", lambda moved, *_: (moved[0] - 1, moved[1]))


@fault("attend: who sees whom")
def a_window_one_too_wide(patch):
    ruled(patch, window=lambda window: window and window + 1)


@fault(
    "attention: no order", "attention: mask", "attention: positions", "attention: distance", "attention: backends",
    "attend: no encoding", "attend: rotary", "attend: t5, one way", "attend: who sees whom", "arrival: rotary",
    "shipped model: logits",
)  # fmt: skip
def the_fused_kernel_gives_nan(patch):
    wrapped(patch, sdpa, "sdpa", lambda out, *_: out * math.nan)


@fault("attention: backends", "attention: positions", "attend: alibi", "attend: t5, both ways")
def the_fused_kernel_drops_the_bias(patch):
    patch.setattr(sdpa, "_mask", lambda job, *block: job.sight.visible(*block))


@pytest.mark.parametrize("name", FAULTS)
def test_finds(name, ropewalk, monkeypatch):
    """What is found, and no more than a share of all: a check that any fault breaks says nothing."""
    function, expected = FAULTS[name]
    with monkeypatch.context() as patch:
        function(patch)
        outcome = ropewalk("verify", "--json")
    failing = {check["name"] for check in json.loads(outcome.out)["checks"] if check["holds"] is False}
    assert outcome.code == 1
    assert failing >= expected, sorted(expected - failing)
    assert len(failing) < len(CHECKS) / 2, sorted(failing)


def test_every_check_finds_one_of_them():
    found = set().union(*(names for _, names in FAULTS.values()))
    assert found == {check.name for check in CHECKS}
