"""The compiled rotation: the bits of torch's own operators, whatever is given, and nothing else written."""

import math
import os
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from kernel_calls import calls, tables

import ropewalk as rw
from ropewalk import RopewalkError
from ropewalk.kernels import cpu, rotate
from ropewalk.testing import rotation_matrix

needs_kernel = pytest.mark.skipif(cpu.missing is not None, reason=f"the CPU kernel: {cpu.missing}")
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


def same_bits(one, other):
    """NaN where the other is NaN, and otherwise the same number with the same sign of zero."""
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[one.element_size()]
    equal = (one.contiguous().view(bits) == other.contiguous().view(bits)) | (one.isnan() & other.isnan())
    return one.dtype == other.dtype and one.shape == other.shape and bool(equal.all())


@pytest.fixture
def subnormals():
    """`torch.set_flush_denormal`, undone afterwards; skipped where a processor cannot."""

    def flush(wanted):
        if wanted and not torch.set_flush_denormal(True):
            pytest.skip("this processor cannot flush subnormals")

    yield flush
    torch.set_flush_denormal(False)


@needs_kernel
@settings(max_examples=400, deadline=None)
@given(calls(DTYPES))
def test_it_gives_the_bits_of_torchs_own_operators(call):
    q, k, of_q, of_k, options = call
    for one, other in zip(
        rotate(q, k, of_q, of_k, **options, impl="cpu"), rotate(q, k, of_q, of_k, **options, impl="torch"), strict=True
    ):
        assert same_bits(one, other)


@needs_kernel
@settings(max_examples=200, deadline=None)
@given(calls(DTYPES))
def test_into_given_tensors_and_in_place_are_the_same(call):
    q, k, of_q, of_k, options = call
    expected = rotate(q, k, of_q, of_k, **options, impl="torch")
    fresh = torch.empty_like(q, memory_format=torch.contiguous_format), torch.empty(k.shape, dtype=k.dtype)
    own = q.clone(memory_format=torch.contiguous_format), k.clone(memory_format=torch.contiguous_format)
    for x, out in (((q, k), fresh), (own, own)):
        given_back = rotate(*x, of_q, of_k, **options, out=out, impl="cpu")
        assert given_back[0] is out[0]
        assert given_back[1] is out[1]
        assert all(same_bits(one, other) for one, other in zip(out, expected, strict=True))


@needs_kernel
@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_it_is_the_rotation_matrix(layout):
    """Against explicit matrices in float64, within one rounding of float32."""
    rope = rw.Rotary(16, layout=layout)
    q, k = torch.randn(2, 3, 50, 16, dtype=torch.float64), torch.randn(2, 1, 50, 16, dtype=torch.float64)
    angles = torch.arange(50)[:, None] * rope.inv_freq
    matrices = torch.stack([rotation_matrix(angle, 16, layout=layout) for angle in angles])
    for x, turned in zip(
        (q, k), rotate(q.float(), k.float(), rope.tables(torch.arange(50)), layout=layout, impl="cpu"), strict=True
    ):
        expected = (matrices @ x[..., None])[..., 0]
        assert (turned.double() - expected).abs().max() < 2e-6
        assert (turned.double() - x).abs().max() > 1


@needs_kernel
@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_every_number_of_16_bits_is_read_and_rounded_as_torch_does(dtype, flushed, subnormals):
    """Also where float32's subnormals are flushed to 0: float16's are not."""
    subnormals(flushed)
    every = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype).view(1, 1, -1, 64)
    for angle in (0.0, 0.3, math.pi / 2, 3.0):
        table = torch.full((every.shape[2], 32), math.cos(angle)), torch.full((every.shape[2], 32), math.sin(angle))
        for layout in ("half", "interleaved"):
            turned = (rotate(every, every, table, layout=layout, impl=impl)[0] for impl in ("cpu", "torch"))
            assert same_bits(*turned)


@needs_kernel
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_outputs_too_large_for_the_caches_and_many_threads(dtype):
    before = torch.get_num_threads()
    q, k = torch.randn(1, 8, 9001, 128).to(dtype), torch.randn(1, 2, 9001, 128).to(dtype)
    table = tables(9001, 64)
    expected = rotate(q, k, table, impl="torch")
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            assert all(map(same_bits, rotate(q, k, table, impl="cpu"), expected))
    finally:
        torch.set_num_threads(before)


@needs_kernel
@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_gradients_of_any_order(layout):
    random = torch.Generator().manual_seed(0)
    q, k = (torch.randn(2, heads, 3, 7, generator=random, dtype=torch.float64, requires_grad=True) for heads in (2, 1))
    of_q, of_k = tables(3, 3, rows=2), tables(3, 3, seed=1)

    def turned(q, k):
        return rotate(q, k, of_q, of_k, layout=layout, first=1, impl="cpu")

    assert torch.autograd.gradcheck(turned, (q, k))
    assert torch.autograd.gradgradcheck(turned, (q, k))


@needs_kernel
@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_have_the_bits_of_torchs_own(dtype):
    q, k = torch.randn(2, 4, 5, 16).to(dtype), torch.randn(2, 2, 5, 16).to(dtype)
    upstream = torch.randn(2, 4, 5, 16).to(dtype), torch.randn(1, 1, 5, 1).to(dtype).expand(2, 2, 5, 16)
    table, found = tables(5, 6), []
    for impl in ("cpu", "torch"):
        leaves = [x.clone().requires_grad_() for x in (q, k)]
        given_out = rotate(*leaves, table, impl=impl)
        found.append(torch.autograd.grad(given_out, leaves, upstream))
    assert all(map(same_bits, *found))


@needs_kernel
def test_inputs_and_incoming_gradients_are_never_written():
    q, k = torch.randn(1, 2, 5, 8, requires_grad=True), torch.randn(1, 2, 5, 8, requires_grad=True)
    table, upstream = tables(5, 4), (torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 8))
    watched = (q, k, *table, *upstream)
    before = [(x.detach().clone(), x._version) for x in watched]
    torch.autograd.grad(rotate(q, k, table, impl="cpu"), (q, k), upstream)
    for x, (value, version) in zip(watched, before, strict=True):
        assert torch.equal(x, value)
        assert x._version == version


@needs_kernel
def test_in_place_counts_as_a_change():
    """Autograd has to notice that what it kept was overwritten."""
    x = torch.randn(1, 1, 3, 4)
    before = x._version
    rotate(x, torch.randn(1, 1, 3, 4), tables(3, 2), out=(x, torch.empty(1, 1, 3, 4)), impl="cpu")
    assert x._version > before


@pytest.mark.parametrize("impl", ["auto", "torch"])
def test_q_and_k_of_one_projection_rotate_in_place(impl):
    joined = torch.randn(2, 5, 3, 4, 8)
    q, k, v = (joined[:, :, n].transpose(1, 2) for n in range(3))
    table, values = tables(5, 4), v.clone()
    expected = [x.clone() for x in rotate(q, k, table, impl="torch")]
    rotate(q, k, table, out=(q, k), impl=impl)
    assert all(map(same_bits, (q, k, v), (*expected, values)))


def overlapping():
    long = torch.randn(1, 2, 9, 8)
    one = torch.randn(1, 1, 4, 8)
    fresh = torch.empty(1, 2, 4, 8), torch.empty(1, 1, 4, 8)
    q, k = torch.randn(1, 2, 4, 8), torch.randn(1, 1, 4, 8)
    shared = torch.randn(64 + 16)
    return {
        "a shifted view of q": (long[:, :, :4], k, (long[:, :, 1:5], fresh[1])),
        "q and k are one": (one, one, (one, one)),
        "both outputs are one": (k, k.clone(), (fresh[1], fresh[1])),
        "the output of k is q": (k.clone(), k, (fresh[1], None)),
        "an expanded output": (q, k, (torch.empty(1, 1, 4, 8).expand(1, 2, 4, 8), fresh[1])),
        "another order of the same memory": (
            shared[:64].view(1, 2, 4, 8), k, (shared[:64].view(1, 4, 2, 8).transpose(1, 2), fresh[1])
        ),
        "a sliding view": (q, k, (torch.empty(64).unfold(0, 8, 1)[None, :8].view(1, 2, 4, 8), fresh[1])),
        "another shape": (q, k, (fresh[1], fresh[1].clone())),
        "another dtype": (q, k, (fresh[0].double(), fresh[1])),
    }  # fmt: skip


@pytest.mark.parametrize("what", overlapping())
@pytest.mark.parametrize("impl", ["auto", "torch"])
def test_an_output_that_cannot_be_written_is_refused(what, impl):
    q, k, out = overlapping()[what]
    out = (out[0], q) if out[1] is None else out
    before = q.clone(), k.clone()
    with pytest.raises(RopewalkError, match="out"):
        rotate(q, k, tables(4, 4), out=out, impl=impl)
    assert torch.equal(q, before[0])
    assert torch.equal(k, before[1])


def test_an_output_over_the_tables_is_refused():
    memory = torch.randn(64)
    table = memory[:32].view(4, 8)[:, :4], memory[:32].view(4, 8)[:, 4:]
    q, k = torch.randn(1, 1, 4, 8), torch.randn(1, 1, 4, 8)
    with pytest.raises(RopewalkError, match="overlaps"):
        rotate(q, k, table, out=(memory[16:48].view(1, 1, 4, 8), torch.empty(1, 1, 4, 8)))


def test_an_output_gives_no_gradient_and_says_so():
    q = torch.randn(1, 1, 4, 8, requires_grad=True)
    with pytest.raises(RopewalkError, match="no gradients"):
        rotate(q, q.detach().clone(), tables(4, 4), out=(torch.empty(1, 1, 4, 8), torch.empty(1, 1, 4, 8)))


@needs_kernel
@pytest.mark.parametrize(
    ("q", "k", "table", "reason"),
    [
        (torch.ones(1, 1, 4, 8), torch.ones(1, 1, 4, 8).double(), tables(4, 4), "do not fit each other"),
        (torch.ones(1, 1, 4, 8), torch.ones(1, 1, 4, 8), tuple(t.double() for t in tables(4, 4)), "float32"),
        (torch.ones(1, 1, 4, 8), torch.ones(1, 1, 4, 8), tuple(t.requires_grad_() for t in tables(4, 4)), "gradient"),
        (torch.ones(1, 1, 4, 2000), torch.ones(1, 1, 4, 2000), tables(4, 4), "too wide"),
    ],
)
def test_a_named_kernel_that_cannot_serve_says_why(q, k, table, reason):
    with pytest.raises(RopewalkError, match=reason):
        rotate(q, k, table, impl="cpu")


def test_tables_that_learn_get_their_gradient():
    """A search by gradient learns frequencies: the kernel steps aside."""
    table = tuple(t.requires_grad_() for t in tables(4, 4))
    q, _ = rotate(torch.ones(1, 1, 4, 8), torch.ones(1, 1, 4, 8), table)
    assert all(gradient is not None for gradient in torch.autograd.grad(q.sum(), table))


def test_transforms_and_forward_differentiation_are_served():
    q, k, table = torch.randn(3, 1, 1, 4, 8), torch.randn(1, 1, 4, 8), tables(4, 4)
    mapped = torch.vmap(lambda x: rotate(x, k, table)[0])(q)
    assert torch.equal(mapped[1], rotate(q[1], k, table)[0])
    _, tangent = torch.func.jvp(lambda x: rotate(x, k, table)[0], (q[0],), (q[1],))
    assert torch.allclose(tangent, rotate(q[1], k, table)[0])


@pytest.mark.parametrize("impl", ["auto", "torch"])
@pytest.mark.parametrize(
    ("shape", "table", "options"),
    [((5, 2, 8), (1, 5, 4), {"axes": "thd"}), ((8,), (5, 4), {}), ((2, 5, 2, 8), (5, 4), {"axes": "bdth"}),
     ((1, 1, 5, 8), (5, 4), {"layout": "whole"}), ((1, 1, 5, 8), (4, 4), {}), ((2, 1, 5, 8), (3, 5, 4), {}),
     ((1, 1, 5, 8), (5, 4), {"first": 1}), ((1, 1, 5, 8), (5, 4), {"first": -1}), ((1, 5, 8), (5, 4), {}),
     ((1, 1, 5, 16), (5, 4), {"first": 2**63 - 4}), ((1, 1, 5, 0), (5, 1), {})],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_the_same_words(shape, table, options, impl):
    """With the kernel and without it."""
    x = torch.ones(shape)
    with pytest.raises(RopewalkError, match="apply_rotary: "):
        rotate(x, x.clone(), (torch.ones(table), torch.ones(table)), **options, impl=impl)


def test_numbers_that_are_not_those_in_memory():
    """A view of the imaginary part of a conjugate is negated when it is read."""
    q, k, table = torch.randn(1, 1, 5, 8, dtype=torch.complex64).conj().imag, torch.randn(1, 1, 5, 8), tables(5, 4)
    assert q.is_neg()
    expected = [x.clone() for x in rotate(q, k, table, impl="torch")]
    assert all(map(same_bits, rotate(q, k, table), expected))
    rotate(q, k, table, out=(q, k))
    assert all(torch.equal(x, y) for x, y in zip((q, k), expected, strict=True))


def test_what_needs_no_gradient_gets_none():
    q, k = torch.randn(1, 1, 5, 8, requires_grad=True), torch.randn(1, 1, 5, 8)
    assert [x.requires_grad for x in rotate(q, k, tables(5, 4))] == [True, False]
    assert [x.requires_grad for x in rotate(k, q, tables(5, 4))] == [False, True]
    assert torch.autograd.grad(rotate(k, q, tables(5, 4))[1].sum(), q)[0].abs().sum() > 0


def test_parameters_rotate_into_given_tensors_where_gradients_are_off():
    weight, out = torch.nn.Parameter(torch.randn(1, 1, 5, 8)), (torch.empty(1, 1, 5, 8), torch.empty(1, 1, 5, 8))
    with torch.no_grad():
        rotate(weight, torch.randn(1, 1, 5, 8), tables(5, 4), out=out)
        assert torch.equal(out[0], rotate(weight, weight, tables(5, 4), impl="torch")[0])


@needs_kernel
def test_expanded_tensors_compile():
    q = torch.randn(1, 1, 16, 16).expand(1, 2, 16, 16)
    k, table = q.clone(), tables(16, 8)
    compiled = torch.compile(lambda q, k: [x * 2 for x in rotate(q, k, table)], fullgraph=True)
    for mine, expected in zip(compiled(q, k), rotate(q, k, table), strict=True):
        assert torch.allclose(mine, 2 * expected)


def test_a_second_copy_in_one_process():
    """As a test runner that re-imports the package has it."""
    code = """
import sys, torch, ropewalk.kernels
for name in [name for name in sys.modules if name.split(".")[0] == "ropewalk"]:
    del sys.modules[name]
import ropewalk.kernels as again
one, table = torch.ones(1, 1, 1, 2), (torch.ones(1, 1), torch.zeros(1, 1))
print(again.rotate(one, one, table)[0].sum().item())
"""
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert outcome.stdout == "2.0\n"


@needs_kernel
def test_the_operators_are_what_torch_expects():
    q, k, (cos, sin) = torch.randn(2, 3, 5, 8), torch.randn(2, 1, 5, 8), tables(5, 4)
    given_all = (q, k, cos, sin, None, None, 0, False, False)
    for arguments in (given_all, (q.transpose(1, 2), k.transpose(1, 2), *tables(3, 4), *tables(1, 4), 0, True, True)):
        torch.library.opcheck(torch.ops.ropewalk.rotate, arguments)
    torch.library.opcheck(torch.ops.ropewalk.rotate_out, (*given_all, torch.empty_like(q), torch.empty_like(k)))


@needs_kernel
@pytest.mark.parametrize(
    "change",
    [{2: torch.tensor(1.0)}, {6: 2**63 - 4},
     {0: torch.ones(2, 3, 5, 0)}, {2: torch.ones(5, 0), 3: torch.ones(5, 0)}, {0: torch.ones(5, 8)},
     {1: torch.ones(2, 1, 6, 8)}, {2: torch.ones(4, 4)}, {3: torch.ones(5, 5)}, {6: 1},
     {6: -1}, {0: torch.ones(2, 3, 5, 8, dtype=torch.int64)}, {2: torch.ones(5, 4).double()},
     {4: torch.ones(3, 5, 4)}, {0: torch.ones(3, 3, 5, 8)}],
)  # fmt: skip
def test_the_operator_itself_reads_no_memory_that_it_was_not_given(change):
    arguments = [torch.ones(2, 3, 5, 8), torch.ones(2, 1, 5, 8), *tables(5, 4), None, None, 0, False, False]
    for place, value in change.items():
        arguments[place] = value
    with pytest.raises(RuntimeError, match="ropewalk::rotate"):
        torch.ops.ropewalk.rotate(*arguments)


def test_without_the_kernel_all_is_the_same():
    code = """
import torch
from ropewalk import Rotary
from ropewalk.kernels import cpu
torch.manual_seed(0)
rope, x = Rotary(64), torch.randn(1, 2, 5, 64).bfloat16()
print(cpu.missing, rope(x, x)[0].float().double().sum().item())
"""
    outcomes = []
    for switch in ("off", ""):
        found = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {cpu.SWITCH: switch},
        )
        outcomes.append(found.stdout.split())
    assert outcomes[0][0] == f"{cpu.SWITCH}=off"
    assert outcomes[0][-1] == outcomes[1][-1]
