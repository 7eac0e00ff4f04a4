"""What a run is predicted to take, held to what it takes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import TINY

from ropewalk.checkpoints.load import SHIPPED, load
from ropewalk.extend import plan
from ropewalk.extend.memory import Memory, available, gigabytes, pass_bytes, predicted, shapes

linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc says how much a process held")
MEASURED = """
import re, sys
from pathlib import Path
import torch
from ropewalk.checkpoints.load import SHIPPED, load
from ropewalk.measure import LanguageModel, token_losses

torch.set_num_threads(1)
held = lambda key: 1024 * int(re.search(key + r":\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
checkpoint = load(SHIPPED, dtype=getattr(torch, sys.argv[3]))
model = LanguageModel(checkpoint.hidden, checkpoint.head)
token_losses(model, torch.zeros(1, 16, dtype=torch.int64))  # what is made once
Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
before = held("VmRSS")
token_losses(model, torch.zeros(int(sys.argv[1]), int(sys.argv[2]), dtype=torch.int64))
print(held("VmHWM") - before)
"""


@linux
@pytest.mark.parametrize(
    ("rows", "length", "dtype"), [(8, 1024, "float32"), (1, 8192, "float32"), (8, 1024, "bfloat16")]
)
def test_a_pass_takes_what_is_predicted(rows, length, dtype):
    config = json.loads((SHIPPED / "config.json").read_text())
    command = [sys.executable, "-c", MEASURED, str(rows), str(length), dtype]
    took = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    expected = pass_bytes(config, rows, length, getattr(torch, dtype).itemsize)
    assert expected / 2 < took < 2 * expected


def test_a_pass_grows_with_its_tokens_and_a_large_vocabulary_with_its_chunks():
    assert pass_bytes(TINY, 1, 8192, 4) == 2 * pass_bytes(TINY, 1, 4096, 4)
    assert pass_bytes(TINY, 8, 1024, 4) == 8 * pass_bytes(TINY, 1, 1024, 4)
    wide = {**TINY, "vocab_size": 128_000}
    assert pass_bytes(wide, 1, 8192, 4) - pass_bytes(wide, 1, 4096, 4) == 4096 * 32 * 4  # hidden states alone
    assert pass_bytes(wide, 1, 4096, 4) - 4096 * 32 * 4 == 1024 * 128_000 * 3 * 4


def planned(model, text, dtype="float32", **more):
    return plan(model, (text,), 128, ("yarn",), dtype=dtype, device="cpu", **more)


def test_weights_count_once_where_they_are_mapped_and_twice_where_they_are_converted(tiny, prose):
    """A checkpoint that is written is loaded again, beside the first; to convert one, its file is read as well."""
    parameters = sum(p.numel() for p in load(tiny).model.parameters())
    wide = Path(tiny)

    def weights(dtype, **more):
        one = planned(wide, prose, dtype, documents=1, trials=0)
        passing = max(pass_bytes(TINY, *shape, one.dtype.itemsize) for shape in shapes(one))
        return predicted(one, **more) - 100_000_000, passing

    mapped, passing = weights("float32", writes=True)
    assert mapped == 4 * parameters + passing
    converted, passing = weights("bfloat16", writes=True)
    assert converted == 2 * parameters + max(passing, (2 + 4) * parameters)
    measured, passing = weights("bfloat16", writes=False)
    assert measured == 2 * parameters + max(passing, 4 * parameters)


def test_every_kind_of_pass_is_thought_of(tiny, prose):
    full = planned(tiny, prose, documents=3, trials=500, needles=8)
    assert shapes(full) == {(3, 64), (3, 128), (1, 64), (1, 32), (1, 96), (1, 128),
                            (128, 64), (102, 80), (85, 96), (73, 112), (64, 128)}  # fmt: skip
    assert shapes(planned(tiny, prose, documents=3, quick=True)) == {(3, 64), (1, 32), (1, 16)}


@linux
def test_the_peak_of_a_block_is_what_it_held_at_most():
    with Memory(0, None, "cpu") as memory:
        torch.zeros(100_000_000).fill_(1.0)
    assert 350_000_000 < memory.peak < 600_000_000
    assert memory.result(memory.peak) == {"predicted_bytes": 0, "peak_bytes": memory.peak}


def test_too_little_is_said_with_numbers_and_what_to_do():
    enough, short = Memory(10**9, 16 * 10**9, "cpu"), Memory(17 * 10**9, 16 * 10**9, "cpu")
    assert enough.said == "about 1.0 GB of memory will be needed, 16.0 GB are free on cpu"
    assert not enough.is_short
    assert short.is_short
    assert short.said.startswith("about 17.0 GB of memory will be needed, 16.0 GB are free on cpu; ")
    assert "--dtype bfloat16" in short.said
    assert not Memory(10**9, None, "cpu").is_short
    assert gigabytes(42_282_240) == "42 MB"


@linux
def test_ranks_share_the_memory_of_their_machine(monkeypatch):
    alone = available("cpu")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert available("cpu") == pytest.approx(alone / 4, rel=0.2)
