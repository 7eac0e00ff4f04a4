"""Which frequencies each pass of a measurement runs under: recorded from a model that notes them."""

from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from models import recent

from ropewalk import from_config
from ropewalk.extend import scaling_for
from ropewalk.extend.measuring import measure
from ropewalk.extend.plan import Plan
from ropewalk.measure import Documents
from ropewalk.scaling import DynamicNTK, Linear

CONFIG = {
    "model_type": "llama", "hidden_size": 128, "num_attention_heads": 2, "num_hidden_layers": 1,
    "max_position_embeddings": 64, "rope_theta": 377.0,
}  # fmt: skip
DOCUMENTS = Documents(torch.arange(2 * 256).reshape(2, 256) % 64, ("a@0", "a@256"))


class Recorder:
    """A checkpoint that reads 5 tokens back, and notes the last frequency and the length of each pass."""

    def __init__(self, monkeypatch):
        self.spec, self.model, self.passes, self.now = from_config(CONFIG), self, [], "own"
        monkeypatch.setattr("ropewalk.extend.measuring.scaled", self.scaled)

    @contextmanager
    def scaled(self, model, frequencies):
        before, self.now = self.now, frequencies.inv_freq[-1].item()
        yield
        self.now = before

    def hidden(self, tokens, positions=None):
        self.passes.append((self.now, tokens.shape[1]))
        return recent(5).hidden(tokens)

    def head(self, states):
        return states


def passes(monkeypatch, method: str, spec=None, trials=0) -> list[tuple]:
    recorder = Recorder(monkeypatch)
    scalings = {method: scaling_for(method, 4.0, 64)} if method != "none" else {}
    measure(Plan(Path("m"), (), spec or recorder.spec, 256, scalings, trials=trials), DOCUMENTS, recorder)
    return recorder.passes


def last(scaling, length: int = 256) -> float:
    return (
        from_config(CONFIG)
        .extended(scaling, 256)
        .layers[0]
        .rotary(numerics="float32")
        .frequencies(length)[0][-1]
        .item()
    )


def test_baselines_run_the_model_as_it_is_and_a_static_method_takes_one_pass(monkeypatch):
    windows = [("own", 64)] * (1 + (256 - 64) // 8)
    assert passes(monkeypatch, "linear") == [*windows, ("own", 256), (last(Linear(4.0)), 256)]


def test_a_length_dependent_method_takes_a_pass_a_bucket_end(monkeypatch):
    ends = range(8, 257, 8)
    want = [(last(DynamicNTK(1.0, 64), end), end) for end in ends]
    assert passes(monkeypatch, "dynamic")[-len(want) :] == want
    assert len({frequency for frequency, _ in want}) == (256 - 64) // 8 + 1


def test_so_does_a_checkpoint_that_is_dynamic_itself(monkeypatch):
    config = {**CONFIG, "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}
    assert passes(monkeypatch, "none", from_config(config))[-32:] == [("own", end) for end in range(8, 257, 8)]


def test_reading_runs_under_the_frequencies_of_its_context_and_stops_past_native(monkeypatch):
    """This model reads nothing: it is asked within native, and once past it."""
    read = [p for p in passes(monkeypatch, "dynamic", trials=2) if p[0] != "own"][-2:]
    assert read == [(last(DynamicNTK(1.0, 64), n), n) for n in (64, 80)]


@pytest.mark.parametrize(
    ("gains", "reads"), [([2.0, 2.0], True), ([0.5, 2.0], False), ([2.0, 0.5], True), ([0.5, 0.5], False)]
)
def test_whether_a_model_reads_is_judged_within_its_native_length(monkeypatch, gains, reads):
    from ropewalk.measure.reading import Reading

    queue = [*gains, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0]
    monkeypatch.setattr(
        "ropewalk.extend.measuring.measure_reading",
        lambda model, tokens, context, **_: Reading(context - 32, context, queue.pop(0), 1),
    )
    recorder = Recorder(monkeypatch)
    plan = Plan(Path("m"), (), from_config({**CONFIG, "max_position_embeddings": 96}), 256, {}, trials=1)
    assert [c for c in plan.contexts if c <= 96] == [72, 96]
    assert measure(plan, DOCUMENTS, recorder).native_reads == reads
