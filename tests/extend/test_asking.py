"""When pass keys are asked for, under which frequencies, and what of it is reported."""

from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from models import recent

from ropewalk import RopewalkError, from_config
from ropewalk.checkpoints.load import SHIPPED
from ropewalk.extend import plan, scaling_for
from ropewalk.extend.measuring import measure
from ropewalk.extend.plan import Plan
from ropewalk.extend.result import method_result, protocol
from ropewalk.measure import Documents, Retrieval
from ropewalk.scaling import DynamicYaRN

CONFIG = {
    "model_type": "llama", "hidden_size": 128, "num_attention_heads": 2, "num_hidden_layers": 1,
    "max_position_embeddings": 64, "rope_theta": 377.0,
}  # fmt: skip
SPEC = from_config(CONFIG)
DOCUMENTS = Documents(torch.arange(2 * 256).reshape(2, 256) % 64, ("a@0", "a@256"))


def last(scaling, length: int = 256) -> float:
    rotary = SPEC.extended(scaling, 256).layers[0].rotary(numerics="float32")
    return rotary.frequencies(length).inv_freq[-1].item()


def asked(monkeypatch, reach: dict, methods: tuple[str, ...], needles: int = 8):
    """A measurement of a model that finds keys in texts of up to `reach` tokens, by its last frequency."""
    now, log = ["own"], []

    @contextmanager
    def scaled(model, frequencies):
        now[0] = frequencies.inv_freq[-1].item()
        yield
        now[0] = "own"

    def retrieve(model, encode, tokens, length, *, needles):
        log.append((now[0], length, needles))
        return [Retrieval(length, d / 7, 9.0 if length <= reach.get(now[0], 256) else 0.0, 1.0, 1) for d in range(8)]

    monkeypatch.setattr("ropewalk.extend.measuring.scaled", scaled)
    monkeypatch.setattr("ropewalk.extend.measuring.measure_retrieval", retrieve)
    monkeypatch.setattr("ropewalk.extend.measuring.Tokenizer.load", lambda _: SimpleNamespace(encode=None))
    checkpoint = SimpleNamespace(model=None, hidden=recent(5).hidden, head=recent(5).head)
    scalings = {name: scaling_for(name, 4.0, 64) for name in methods}
    made = Plan(Path("m"), (), SPEC, 256, scalings, trials=0, needles=needles)
    measurement = measure(made, DOCUMENTS, checkpoint)
    found = {each.method: method_result(made, measurement, each) for each in measurement.methods}
    return log, found, protocol(made, measurement)["retrieval"]


def test_lengths_grow_until_one_fails(monkeypatch):
    ntk = last(scaling_for("ntk", 4.0, 64))
    log, found, told = asked(monkeypatch, {"own": 64, ntk: 160}, ("ntk",))
    assert log == [("own", n, 8) for n in (32, 64, 160)] + [(ntk, n, 8) for n in (32, 64, 160, 256)]
    assert (found["none"]["finds_to"], found["ntk"]["finds_to"], found["crop"]["finds_to"]) == (64, 160, None)
    assert len(found["ntk"]["retrieval"]) == 32
    assert told["measurable"]


def test_a_length_dependent_method_has_the_frequencies_of_each_length(monkeypatch):
    log, found, _ = asked(monkeypatch, {}, ("yarn-dynamic",))
    scaling = DynamicYaRN(64, beta_fast=scaling_for("yarn-dynamic", 4.0, 64).beta_fast)
    assert log[4:] == [(last(scaling, n), n, 8) for n in (32, 64, 160, 256)]
    assert found["yarn-dynamic"]["finds_to"] == 256


def test_nobody_else_is_asked_where_the_model_as_it_is_finds_nothing(monkeypatch):
    log, found, told = asked(monkeypatch, {"own": 0}, ("ntk",))
    assert {now for now, _, _ in log} == {"own"}
    assert [length for _, length, _ in log] == [32, 64]
    assert found["ntk"]["finds_to"] is found["none"]["finds_to"] is None
    assert not told["measurable"]


def test_no_needles_no_questions(monkeypatch):
    log, found, told = asked(monkeypatch, {}, ("ntk",), needles=0)
    assert log == found["ntk"]["retrieval"] == []
    assert told["needles"] == 0


@pytest.mark.parametrize("needles", [9, -1])
def test_impossible_needles(needles):
    text = SHIPPED / "heldout-macbeth.txt"
    with pytest.raises(RopewalkError, match=f"needles={needles}"):
        plan(SHIPPED, (text,), 512, ("ntk",), needles=needles)
