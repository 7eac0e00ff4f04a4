"""The Triton kernel in Triton's interpreter: `make test-triton`, in an environment of its own.

bfloat16 is not judged there: the interpreter truncates where a GPU rounds.
"""

import os

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("triton", reason="Triton is not installed; make test-triton")
if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("TRITON_INTERPRET=1 is not set; make test-triton", allow_module_level=True)

from kernel_calls import calls, tables

from ropewalk.bench import gpu
from ropewalk.bench.jobs import Job
from ropewalk.bench.run import entry
from ropewalk.kernels import rotate

BOUNDS = {torch.float32: 2e-6, torch.float16: 2e-3, torch.float64: 1e-12}


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")  # the interpreter's, where a float16 is infinite
@settings(max_examples=150, deadline=None)
@given(calls(tuple(BOUNDS)))
def test_it_is_torchs_own_rotation(call):
    q, k, of_q, of_k, options = call
    mine = rotate(q, k, of_q, of_k, **options, impl="triton")
    for one, other in zip(mine, rotate(q, k, of_q, of_k, **options, impl="torch"), strict=True):
        assert one.dtype == other.dtype
        size = float(other.double().abs().max()) if other.numel() else 0.0
        assert torch.allclose(
            one.double(), other.double(), rtol=0, atol=BOUNDS[one.dtype] * max(size, 1.0), equal_nan=True
        )


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_in_place(layout):
    q, k, table = torch.randn(2, 5, 7, 12), torch.randn(2, 1, 7, 12), tables(7, 4)
    expected = rotate(q, k, table, layout=layout, first=2, impl="torch")
    rotate(q, k, table, layout=layout, first=2, out=(q, k), impl="triton")
    assert torch.allclose(q, expected[0], atol=1e-6)
    assert torch.allclose(k, expected[1], atol=1e-6)


def test_packed_documents_take_their_positions_from_the_table():
    """Each document counts from 0: the rows of the table repeat."""
    table = tuple(torch.cat([one[:3], one[:5]]) for one in tables(5, 4))
    q, k = torch.randn(8, 2, 8), torch.randn(8, 1, 8)
    for one, other in zip(rotate(q, k, table, axes="thd", impl="triton"), rotate(q, k, table, axes="thd"), strict=True):
        assert torch.allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_gradients(layout):
    q, k = (torch.randn(2, heads, 3, 7, dtype=torch.float64, requires_grad=True) for heads in (2, 1))
    of_q, of_k = tables(3, 3, rows=2), tables(3, 3, seed=1)
    assert torch.autograd.gradcheck(
        lambda q, k: rotate(q, k, of_q, of_k, layout=layout, first=1, impl="triton"), (q, k), fast_mode=True
    )


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize(("name", "axes"), [("packed with backward", "thd"), ("prefill", "bthd"), ("decode", "bhtd")])
def test_the_benchmark_times_this_kernel(name, axes, layout):
    """Its jobs, small, held to float64: offsets a document, every order of axes, forward and backward."""
    batch = 1 if axes == "thd" else 2
    job = Job(name, (batch, 4, 2, 1 if name == "decode" else 12, 16), torch.float32, layout, axes, 1.1)
    (found,) = entry(
        job, 3, ways=lambda job: {"ropewalk": gpu.ways(job)["ropewalk"]}, clock=lambda way: lambda: (way(), 1.0)[1]
    )["ways"]
    assert 0 < found["largest_error"] < 2e-6


@settings(max_examples=20, deadline=None)
@given(heads=st.integers(1, 9), kv_heads=st.integers(1, 9))
def test_heads_that_fill_no_block(heads, kv_heads):
    q, k, table = torch.randn(1, heads, 2, 8), torch.randn(1, kv_heads, 2, 8), tables(2, 4)
    for one, other in zip(rotate(q, k, table, impl="triton"), rotate(q, k, table, impl="torch"), strict=True):
        assert torch.allclose(one, other, atol=1e-6)
