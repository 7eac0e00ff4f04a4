"""The choice: largest usable length, then smallest short cost, among methods within the tolerance."""

from pathlib import Path

import numpy as np
import pytest
import torch

from ropewalk import from_config
from ropewalk.extend.choose import choose, eligible, usable_length
from ropewalk.extend.measuring import Measured, Measurement
from ropewalk.extend.methods import METHODS, scaling_for
from ropewalk.extend.plan import Plan
from ropewalk.measure.curves import Curve
from ropewalk.measure.documents import Documents
from ropewalk.measure.reading import Reading
from ropewalk.measure.verdict import Verdict

SPEC = from_config({
    "model_type": "llama", "hidden_size": 128, "num_attention_heads": 2, "num_hidden_layers": 1,
    "max_position_embeddings": 256, "rope_theta": 377.0,
})  # fmt: skip
PLAN = Plan(Path("model"), (), SPEC, 1024, {name: scaling_for(name, 4.0, 256) for name in METHODS})


def measured(method: str, holds: int, cost: float, reads: int = 0) -> Measured:
    verdict = Verdict(np.zeros(1), np.zeros(1), np.zeros(1), holds, holds, holds, cost)
    readings = tuple(Reading(d, d, 3.0 if d <= reads else 0.0, 1) for d in range(100, 1100, 100))
    return Measured(method, Curve(np.zeros((1, 1), dtype=np.float32), (0, 1)), verdict, readings)


def chosen(*methods: Measured, native_reads: bool = True) -> str | None:
    measurement = Measurement(methods, Documents(torch.zeros(1, 1), ("a@0",)), 240.0, native_reads)
    found = choose(PLAN, measurement)
    return found.method if found else None


def test_usable_is_the_lesser_of_holding_and_reading():
    assert chosen(measured("linear", 1024, 0.01, 200), measured("yarn", 512, 0.01, 500)) == "yarn"
    assert chosen(measured("linear", 1024, 0.01, 200), measured("yarn", 512, 0.01, 500), native_reads=False) == "linear"
    measurement = Measurement((), Documents(torch.zeros(1, 1), ("a@0",)), 240.0, True)
    assert usable_length(measured("yarn", 512, 0, 500), measurement) == 500
    assert usable_length(measured("yarn", 512, 0, 1000), measurement) == 512
    assert usable_length(measured("yarn", 512, 0, 0), measurement) == 0


def test_at_equal_length_the_cheaper_one():
    assert chosen(measured("ntk", 1024, 0.05, 900), measured("yarn", 1024, 0.02, 900)) == "yarn"


@pytest.mark.parametrize("method", ["none", "crop", "dynamic", "dynamic-linear", "yarn-dynamic"])
def test_never_a_baseline_nor_what_cannot_be_written(method):
    assert chosen(measured(method, 1024, 0.0, 900), measured("ntk", 300, 0.05, 200)) == "ntk"
    assert not eligible(PLAN, measured(method, 1024, 0.0, 900))


def test_none_fits_when_all_cost_too_much():
    assert chosen(measured("linear", 1024, 0.11, 900)) is None
    assert chosen() is None
