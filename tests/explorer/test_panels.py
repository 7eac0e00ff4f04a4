"""Every panel's numbers against formulas written out here and other people's code, and its pictures against both."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ropewalk import RopewalkError, from_config
from ropewalk.explorer import alibi, comparison, grid, rotation, score, shuffle, spectrum, t5, waves
from ropewalk.explorer.charts import DARK
from ropewalk.explorer.panel import Slider
from ropewalk.explorer.panels import panels
from ropewalk.explorer.words import LANGUAGES, words

PANELS = panels()
RESULT = Path(__file__).parents[2] / "benchmarks/results/comparison-plays.json"


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", PANELS)
def test_every_state_to_share_is_drawn(name, language):
    panel, say = PANELS[name], words(language)
    for state in panel.shared_states():
        drawn = panel.draw(state, say)
        json.dumps(drawn.pictures, allow_nan=False)
        assert set(drawn.pictures) == set(panel.pictures)
        assert all(f"{name}.fact.{fact}" in say.table for fact in drawn.facts)
    assert all(control.default in control.shared for control in panel.controls if control.shared)


@pytest.mark.parametrize("name", PANELS)
def test_every_colour_has_one_for_dark_screens(name):
    panel = PANELS[name]
    found = {value for value in _strings(panel.draw(panel.state(), words("en")).pictures) if value.startswith("#")}
    assert found <= set(DARK)


@pytest.mark.parametrize("name", PANELS)
@settings(max_examples=25)
@given(st.data())
def test_whatever_an_address_states_is_drawn_or_refused(name, data):
    panel = PANELS[name]
    values = st.one_of(
        st.text(max_size=8), st.integers(-10, 200).map(str), st.sampled_from(["1e999", "nan", "{}", "[1]"])
    )
    options = [
        st.sampled_from(control.options) if hasattr(control, "options") else values for control in panel.controls
    ]
    state = panel.state({c.name: data.draw(values | o) for c, o in zip(panel.controls, options, strict=True)})
    assert panel.state(state) == state
    for control in panel.controls:
        if isinstance(control, Slider):
            assert control.least <= state[control.name] <= control.most
    try:
        json.dumps(panel.draw(state, words("en")).pictures, allow_nan=False)
    except RopewalkError:
        assert state.get("config", "").strip()


@pytest.mark.parametrize("order", ["interleaved", "sin_cos", "cos_sin"])
@pytest.mark.parametrize("kind", ["vaswani", "tensor2tensor"])
def test_the_grid_is_its_formula(order, kind):
    state = grid.PANEL.state({"order": order, "grid": kind, "dim": 12, "base": "100", "length": 30})
    drawn = grid.PANEL.draw(state, words("en"))
    shown = drawn.pictures["map"]["data"][0]
    for column in range(12):
        pair = column // 2 if order == "interleaved" else column % 6
        sine = column % 2 == 0 if order == "interleaved" else (column < 6) == (order == "sin_cos")
        frequency = 100 ** -(pair / 6) if kind == "vaswani" else 100 ** -(pair / 5)
        for position in range(30):
            value = (math.sin if sine else math.cos)(position * frequency)
            assert shown["z"][position][column] == pytest.approx(value, abs=1e-6)
            name = "sin" if sine else "cos"
            said = f"PE({position}, {column}) = {name}({position} · {frequency:.6g}) = {value:.4f}"
            assert _numbers(shown["text"][position][column]) == pytest.approx(_numbers(said), abs=1.1e-4)
            assert shown["text"][position][column].split(" = ")[1].startswith(name)


def test_the_shift_carries_every_position():
    state = waves.PANEL.state({"dim": 8, "offset": -3, "position": 7, "pair": 1})
    found = waves.numbers(state)
    w = 10_000 ** -(2 / 8)
    block = [[math.cos(-3 * w), math.sin(-3 * w)], [-math.sin(-3 * w), math.cos(-3 * w)]]
    np.testing.assert_allclose(found.shift[2:4, 2:4], block, atol=1e-15)
    there = [f(4 * 10_000 ** -(k / 4)) for k in range(4) for f in (math.sin, math.cos)]
    np.testing.assert_allclose(found.moved, there, atol=1e-6)
    assert max(found.residual, found.largest) < 1e-6
    drawn = waves.PANEL.draw(state, words("en"))
    np.testing.assert_allclose(drawn.pictures["moved"]["data"][1]["y"], there, atol=2e-6)
    assert drawn.facts["rotation"] == f"cos(-3ω) = {block[0][0]:.4f}, sin(-3ω) = {block[0][1]:.4f}"


@given(st.integers(0, 16), st.integers(0, 16), st.integers(0, 16), st.integers(0, 31))
def test_the_score_is_that_of_complex_numbers_and_stays(m, n, step, pair):
    found = rotation.numbers({"m": m, "n": n, "step": step, "pair": pair})
    q, k = complex(*rotation.Q), complex(*rotation.K)
    theta = 10_000 ** (-2 * pair / 64)
    score_ = (q.conjugate() * k * complex(math.cos((n - m) * theta), math.sin((n - m) * theta))).real
    for shown in (found.score, found.moved_score, found.from_difference, float(found.scores[m, n])):
        assert shown == pytest.approx(score_, abs=3e-7)
    rotated = [[math.cos(m * theta), -math.sin(m * theta)], [math.sin(m * theta), math.cos(m * theta)]]
    np.testing.assert_allclose(found.matrix, rotated, atol=1e-7)


@pytest.mark.parametrize(
    ("model", "slow", "pairs", "base"),
    [("llama-2-7b", 18, 64, 1e4), ("llama-3-8b", 29, 64, 5e5), ("pythia-6.9b", 5, 16, 1e4)],
)
def test_the_spectrum_counts_turns(model, slow, pairs, base):
    spec = from_config(model)
    found = spectrum.numbers(spec, "none", 4)
    turns = [spec.native_length * base ** (-i / pairs) / (2 * math.pi) for i in range(pairs)]
    np.testing.assert_allclose(spectrum.turns(found.before, found.native), turns)
    assert sum(turn < 1 for turn in turns) == slow
    np.testing.assert_allclose(found.unseen, [min(1, 4 * t) - t if t < 1 else 0 for t in turns], atol=1e-12)
    linear = spectrum.numbers(spec, "linear", 4)
    np.testing.assert_allclose(linear.after, np.array(linear.before) / 4)
    assert not any(linear.unseen)


def test_a_config_is_read_as_it_is_pasted():
    panel = PANELS["spectrum"]
    pasted = json.dumps({**from_config("llama-2-7b").config, "max_position_embeddings": 2048})
    drawn = panel.draw(panel.state({"config": pasted, "method": "none", "factor": "2"}), words("en"))
    assert drawn.facts["lengths"] == "2,048 → 4,096"
    assert drawn.facts["slow"] == "23 / 64"
    for refused in ("{", "[]", '{"model_type": "no such"}', json.dumps(from_config("bloom").config)):
        with pytest.raises(RopewalkError):
            panel.draw(panel.state({"config": refused}), words("en"))


def test_the_aligned_score_is_a_mean_of_cosines_and_random_ones_are_nothing():
    found = score.numbers(64, 10_000.0, 1024, 300)
    theta = 10_000 ** (-np.arange(32) / 32)
    np.testing.assert_allclose(found.aligned, np.cos(found.distances.numpy()[:, None] * theta).mean(1), atol=1e-6)
    away = np.abs(found.distances.numpy()[:, None] - 300)
    np.testing.assert_allclose(found.placed, np.cos(away * theta).mean(1), atol=1e-6)
    assert float(found.mean.abs().max()) < 4 / math.sqrt(64 * score.DRAWS)
    np.testing.assert_allclose(found.deviation, 1 / math.sqrt(64), rtol=0.35)
    facts = score.PANEL.draw(score.PANEL.state({"farthest": "512", "peak": 300}), words("en")).facts
    assert (facts["first_rise"], facts["placed"]) == ("6", "300")


def test_alibi_is_slope_times_distance():
    found = alibi.numbers(8, 12, causal=True)
    for h, i, j in np.ndindex(8, 12, 12):
        assert float(found.bias[h, i, j]) == (-(2.0 ** -(h + 1)) * (i - j) if j <= i else -math.inf)
    weights = np.exp(-0.5 * np.arange(12)[::-1])
    np.testing.assert_allclose(found.weights[0, -1], weights / weights.sum(), rtol=1e-6)
    shown = alibi.PANEL.draw(alibi.PANEL.state({"head": 1, "length": 12}), words("en")).pictures
    assert shown["matrix"]["data"][0]["z"][3] == [-1.5, -1.0, -0.5, 0.0, *[None] * 8]
    assert shown["distance"]["data"][-1]["y"] == [-0.5 * far for far in range(12)]


@pytest.mark.parametrize("causal", [True, False])
def test_t5_buckets_are_those_of_transformers(causal):
    attention = pytest.importorskip("transformers.models.t5.modeling_t5").T5Attention
    where = torch.arange(40)
    theirs = attention._relative_position_bucket(where[None] - where[:, None], not causal, 16, 64)
    assert torch.equal(t5.numbers(40, 16, 64, causal=causal), theirs)
    facts = t5.PANEL.draw(t5.PANEL.state(), words("en")).facts
    assert (facts["own"], facts["shared_from"]) == ("0 – 15", "113")


def test_the_comparison_is_the_landed_result():
    landed = json.loads(RESULT.read_text())
    assert comparison.numbers() == comparison.kept(landed), "make figures copies it"
    drawn = comparison.PANEL.draw(comparison.PANEL.state({"encoding": "rope"}), words("en"))
    rope = next(e for e in landed["encodings"] if e["name"] == "rope")
    line = next(trace for trace in drawn.pictures["curves"]["data"] if trace.get("name") == "rope")
    assert line["y"] == [round(value, 4) for value in rope["curve"]["bits"]]
    assert drawn.facts["holds_to"] == f"{rope['holds_to']['value']:,}"


@given(st.lists(st.text("abcd", min_size=1, max_size=2), min_size=2, max_size=8, unique=True), st.integers(0, 20))
def test_attention_without_positions_alone_follows_a_shuffle(sentence, seed):
    found = shuffle.numbers(sentence, seed)
    assert found.strays["attention"] < shuffle.FOLLOWS
    moved = found.order != sorted(found.order)
    noticing = ("causal", "sinusoidal", "rnn", "convolution")
    assert all((found.strays[name] > shuffle.FOLLOWS) == moved for name in noticing)


def _strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)


def _numbers(said: str) -> list[float]:
    """`PE(3, 4) = sin(3 · 0.31) = 0.81` -> [3, 4, 3, 0.31, 0.81]."""
    return [float(part) for part in said.translate(str.maketrans("PEsincoa(),=·", " " * 13)).split()]
