"""What is timed on a GPU, run here on the CPU: every job and every adapter held to float64, and the clock's order.

The peers' kernels are stood in for by their documented contract written out in torch's operators.
"""

import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import pytest
import torch
import transformers.models.llama.modeling_llama  # noqa: F401 - before the stand-ins, for whose packages it would look

from ropewalk import RopewalkError
from ropewalk.bench import gpu
from ropewalk.bench.run import entry
from ropewalk.kernels import rotate

ERRORS = {torch.float32: 3e-6, torch.bfloat16: 0.05}
JOBS = [job for job in gpu.jobs() if job.axes != "bthd" or job.dtype == torch.float32]


def turned(x, cos, sin, interleaved):
    """[T, H, D] by tables [T, D / 2]."""
    a, b = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, dim=-1)
    cos, sin = cos[:, None], sin[:, None]
    pairs = a * cos - b * sin, b * cos + a * sin
    return torch.stack(pairs, -1).flatten(-2) if interleaved else torch.cat(pairs, -1)


def apply_rotary_emb(x, cos, sin, interleaved=False, inplace=False, seqlen_offsets=0, cu_seqlens=None, max_seqlen=None):
    """flash-attn's: x [B, T, H, D], or [total, H, D] with cu_seqlens; each row is shifted by its offset."""
    assert cos.dtype == x.dtype
    assert not inplace
    if cu_seqlens is None:
        assert isinstance(seqlen_offsets, int)
        seen = slice(seqlen_offsets, seqlen_offsets + x.shape[1])
        return torch.stack([turned(row, cos[seen], sin[seen], interleaved) for row in x])
    assert {cu_seqlens.dtype, seqlen_offsets.dtype} == {torch.int32}
    assert max_seqlen == int(cu_seqlens.diff().max())
    rows = zip(cu_seqlens.tolist(), cu_seqlens.tolist()[1:], seqlen_offsets.tolist(), strict=False)
    return torch.cat(
        [turned(x[a:b], cos[first : first + b - a], sin[first : first + b - a], interleaved) for a, b, first in rows]
    )


def liger_rotary_pos_emb(q, k, cos, sin, position_ids=None, unsqueeze_dim=1):
    """Liger's: q and k [B, H, T, D], tables [1, T, D]; written over where [B, T, H, D] lies together in memory."""
    made = []
    for x in (q, k):
        own = x.transpose(1, 2).contiguous()
        with torch.no_grad() if not x.requires_grad else torch.enable_grad():
            half = own.shape[-1] // 2
            new = torch.stack([turned(row, cos[0, :, :half], sin[0, :, :half], False) for row in own])
        made.append((new if x.requires_grad else own.copy_(new)).transpose(1, 2))
    return made


@pytest.fixture
def peers(monkeypatch):
    for path, function in (
        ("flash_attn.layers.rotary", apply_rotary_emb),
        ("liger_kernel.transformers.rope", liger_rotary_pos_emb),
    ):
        parts = path.split(".")
        for n in range(len(parts)):
            monkeypatch.setitem(sys.modules, ".".join(parts[: n + 1]), ModuleType(".".join(parts[: n + 1])))
        setattr(sys.modules[path], function.__name__, function)


@pytest.fixture
def here(monkeypatch):
    """On the CPU: torch's operators in place of Triton's kernel, and nothing compiled."""
    monkeypatch.setattr(gpu, "rotate", lambda *given, impl, **options: rotate(*given, **options, impl="torch"))
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)


def small(job):
    batch, _, _, tokens, _ = job.shape
    return replace(job, shape=(min(batch, 2), 4, 2, min(tokens, 21), 16), device="cpu")


def counted(way):
    """A clock that makes one call and finds it takes a second."""
    return lambda: (way(), 1.0)[1]


@pytest.mark.parametrize("job", JOBS, ids=lambda job: f"{job.name}-{job.axes}-{job.layout}-{job.dtype}")
def test_every_way_is_held_to_the_oracle(job, peers, here):
    job = small(job)
    found = entry(job, 3, ways=gpu.ways, clock=counted)
    names = {"ropewalk", "ropewalk, torch's operators", "flash-attn"}
    names |= {"chunk and cat, compiled"} if job.layout == "half" else {"unbind and stack, compiled", "complex multiply"}
    if job.layout == "half" and job.axes != "thd":
        names |= {"liger-kernel"}
    if job.layout == "half" and job.axes == "bhtd":
        names |= {"transformers", "transformers, compiled"}
    assert {way["name"] for way in found["ways"]} == names
    for way in found["ways"]:
        assert 0 < way["largest_error"] < ERRORS[job.dtype], way["name"]
        assert way["ratio"] == 1.0
    assert found["limit"]["what"] == ("two copies" if "backward" in job.name else "a copy of q and k")


def test_peers_that_are_not_installed_are_left_out(monkeypatch, here):
    for name in ("flash_attn", "liger_kernel", "transformers.models.llama.modeling_llama"):
        monkeypatch.setitem(sys.modules, name, None)
    assert {way.package for way in gpu.ways(small(gpu.jobs()[0])).values()} == {"ropewalk", "torch"}


def test_the_jobs():
    """Each once, all on the GPU: both layouts and dtypes, forward and backward, packed and decoding."""
    told = [(job.name, job.dtype, job.layout, job.axes) for job in gpu.jobs()]
    assert len(set(told)) == len(told) == 32
    assert {job.device for job in gpu.jobs()} == {"cuda"}
    assert {name for name, *_ in told} == {
        "prefill", "train", "train with backward", "packed", "packed with backward", "decode", "decode of 32"
    }  # fmt: skip


def test_packed_documents_count_from_their_own_offsets():
    job = small(next(job for job in gpu.jobs() if job.name == "packed"))
    assert job.documents() == [(0, 10), (1000, 5), (2000, 6)]
    assert job.positions().tolist() == [*range(10), *range(1000, 1005), *range(2000, 2006)]


def test_the_clock_flushes_then_times_one_call(monkeypatch):
    order = []

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            order.append("record")

        def synchronize(self):
            order.append("wait")

        def elapsed_time(self, end):
            return 5.0  # milliseconds

    scratch = SimpleNamespace(zero_=lambda: order.append("flush"))
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda: SimpleNamespace(L2_cache_size=2**30))
    monkeypatch.setattr(torch, "empty", lambda size, **options: (order.append(size), scratch)[1])
    measure = gpu.Cold()(lambda: order.append("call"))
    assert order == [2**31, "call", "call"]
    assert measure() == 0.005
    assert order[3:] == ["flush", "record", "call", "record", "wait"]


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RopewalkError, match="no CUDA device"):
        gpu.check()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(gpu, "find_spec", lambda name: None)
    with pytest.raises(RopewalkError, match="Triton is not installed"):
        gpu.check()
