"""ALiBi without a mask: the weights of the mask, its gradients, and a rounding that does not grow with the length."""

import subprocess
import sys

import pytest
import torch
from torch import Tensor

from ropewalk import ALiBi, attend
from ropewalk.attention import decay
from ropewalk.modules import Encoding
from ropewalk.testing import attend_densely


class Forget(Encoding):
    """A forgetting gate's bias: the sum of log gates between query and key, of the same numbers for every sequence."""

    def __init__(self, heads: int, tokens: int) -> None:
        super().__init__()
        gates = torch.rand(heads, tokens, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
        self.sums = gates.mul(0.9).add(0.1).log().cumsum(-1)

    def potential(self, positions: Tensor) -> Tensor:
        return -self.sums[:, positions]

    def bias(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        return self.sums[:, q_positions, None] - self.sums[:, None, k_positions]


def tensors(queries: int, keys: int, heads: int, kv_heads: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    random = torch.Generator().manual_seed(0)
    shapes = [(2, heads, queries, 16), (2, kv_heads, keys, 16), (2, kv_heads, keys, 16)]
    return [torch.randn(shape, generator=random, dtype=torch.float64).to(dtype).requires_grad_() for shape in shapes]


EVERY = torch.ones(2, 300, dtype=torch.bool)  # a mask that hides nothing, and keeps the other path
CASES = [(300, 300, 4, 4), (128, 128, 2, 2), (129, 129, 3, 1), (2, 2, 4, 2), (5, 300, 4, 2), (200, 333, 8, 8)]


@pytest.mark.parametrize("make", [ALiBi, lambda heads: Forget(heads, 333)], ids=["alibi", "forget"])
@pytest.mark.parametrize(("queries", "keys", "heads", "kv_heads"), CASES)
def test_it_is_attention_with_the_bias(queries, keys, heads, kv_heads, make):
    """Output and gradients in float64 against the formula written out."""
    given, encoding = tensors(queries, keys, heads, kv_heads), make(heads)
    upstream, found = torch.randn(2, heads, queries, 16, dtype=torch.float64), []
    assert "sdpa" in str(attend(*given, causal=True, encoding=encoding, explain=True))
    for backend in ("sdpa", "reference"):
        out = attend(*given, causal=True, encoding=encoding, backend=backend)
        found.append((out, *torch.autograd.grad(out, given, upstream)))
    for mine, expected in zip(*found, strict=True):
        assert torch.allclose(mine, expected, atol=1e-11, rtol=1e-11)


def test_that_path_is_taken(monkeypatch):
    """Or else the tests above would compare the mask with itself."""
    taken = []
    monkeypatch.setattr(
        decay, "kernel", lambda name, _named=decay.kernel: lambda *a, **k: taken.append(1) or _named(name)(*a, **k)
    )
    q, k, v = tensors(300, 300, 4, 4)
    attend(q, k, v, causal=True, encoding=ALiBi(4))
    assert len(taken) == 5  # three blocks, of which the first has no keys before it
    for options in ({"window": 9}, {"key_mask": EVERY}, {"softcap": 5.0}, {"dropout_p": 0.1},
                    {"sinks": torch.zeros(4)}, {"causal": False}):  # fmt: skip
        attend(q, k, v, **{"causal": True, "encoding": ALiBi(4), **options})
    attend(q, k, v, causal=True, encoding=ALiBi(4, form="halves"))
    attend(q, k, v, causal=True)
    assert len(taken) == 5


def test_the_question_is_asked_once_a_call(monkeypatch):
    asked = []
    monkeypatch.setattr(decay, "serves", lambda job, _serves=decay.serves: asked.append(1) or _serves(job))
    q, k, v = tensors(300, 300, 4, 4)
    for times, options in enumerate(({}, {"key_mask": EVERY}, {"explain": True}), start=1):
        attend(q, k, v, causal=True, encoding=ALiBi(4), **options)
        assert len(asked) == times


def test_a_torch_without_those_operators():
    """It promises neither: the import does not need them, and attention goes by the mask."""
    code = """
import torch
names = type(torch.ops.aten)
found = names.__getattr__
def without(self, name):
    if "flash_attention_for_cpu" in name:
        raise AttributeError(name)
    return found(self, name)
names.__getattr__ = without
for name in [name for name in vars(torch.ops.aten) if "flash_attention_for_cpu" in name]:
    delattr(torch.ops.aten, name)
import ropewalk as rw
from ropewalk.attention import decay
x = torch.randn(1, 4, 2100, 16, dtype=torch.float64, requires_grad=True)
alibi = rw.ALiBi(4)
plan = rw.attend(x, x, x, causal=True, encoding=alibi, explain=True)
assert plan.backend == "sdpa" and plan.rows < 2100, plan
gradients = [
    torch.autograd.grad(rw.attend(x, x, x, causal=True, encoding=alibi, **named).square().sum(), x)[0]
    for named in ({}, {"backend": "reference"})
]
assert torch.allclose(*gradients, atol=1e-9)
assert decay.kernel(decay.FORWARD) is None
"""
    result = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("heads", [4, 8])
@pytest.mark.parametrize("tokens", [1024, 4096])
def test_its_error_in_float32_does_not_grow_with_the_length(heads, tokens):
    """Against float64 on the last queries, whose keys are the farthest: within 4e-6 of values of size 1."""
    random = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(1, heads, tokens, 64, generator=random) for _ in range(3))
    mine = attend(q, k, v, causal=True, encoding=ALiBi(heads))[:, :, -300:]
    last = [q[:, :, -300:].double(), k.double(), v.double()]
    exact = attend(*last, causal=True, encoding=ALiBi(heads), backend="reference")
    assert (mine.double() - exact).abs().max() <= 4e-6


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_in_low_precision_it_errs_as_the_mask_does(dtype):
    given = tensors(300, 300, 4, 2, dtype)
    exact = attend(*(x.double() for x in given), causal=True, encoding=ALiBi(4), backend="reference")
    errors = []
    for path in (attend(*given, causal=True, encoding=ALiBi(4)),
                 attend(*given, causal=True, encoding=ALiBi(4), key_mask=EVERY)):  # fmt: skip
        assert path.dtype == dtype
        errors.append(float((path.double() - exact).detach().abs().max()))
    assert errors[0] <= 2 * errors[1] + 2e-6


class Learnt(ALiBi):
    """Slopes that are learnt."""

    def __init__(self, heads: int) -> None:
        super().__init__(heads)
        self.slopes = torch.nn.Parameter(self.slopes)


def test_a_potential_that_learns_gets_its_gradient():
    given, encoding = tensors(200, 200, 4, 4), Learnt(4)
    found = [
        torch.autograd.grad(attend(*given, causal=True, encoding=encoding, **named).square().sum(), encoding.slopes)[0]
        for named in ({}, {"backend": "reference"})
    ]
    assert found[1].abs().min() > 0
    assert torch.allclose(*found, atol=1e-6)


def test_slopes_that_were_changed_are_the_ones_used():
    """Falcon's are divided by the root of the head's width."""
    q, k, v = tensors(200, 200, 4, 4)
    encoding = ALiBi(4)
    encoding.slopes = encoding.slopes * 0.25
    seen = torch.ones(200, 200, dtype=torch.bool).tril()
    expected = attend_densely(q, k, v, visible=seen, bias=encoding.bias(torch.arange(200), torch.arange(200)))
    assert torch.allclose(attend(q, k, v, causal=True, encoding=encoding), expected, atol=1e-9)


def test_views_and_expanded_gradients():
    """The kernel takes features that lie together and does not ask: what lies apart is brought together first."""
    given = [
        x.detach().transpose(-1, -2).contiguous().transpose(-1, -2).requires_grad_() for x in tensors(200, 200, 4, 2)
    ]
    found = []
    for backend in ("sdpa", "reference"):
        out = attend(*given, causal=True, encoding=ALiBi(4), backend=backend)
        found.append(torch.autograd.grad((out * 3).sum() + out.expand(2, *out.shape).sum(), given))
    for mine, expected in zip(*found, strict=True):
        assert torch.allclose(mine, expected, atol=1e-11)


def test_nothing_to_attend_to():
    for batch, queries in ((0, 5), (2, 0)):
        x = torch.randn(batch, 4, queries, 16)
        assert attend(x, x, x, causal=True, encoding=ALiBi(4)).shape == x.shape


@pytest.mark.parametrize("scale", [0.0, -0.5])
@pytest.mark.parametrize("encoding", [None, ALiBi(4)])
def test_a_scale_of_nothing_or_less(scale, encoding):
    """torch's triangle gives NaN for it."""
    given = tensors(200, 200, 4, 2)
    found = attend(*given, causal=True, encoding=encoding, scale=scale)
    expected = attend(*given, causal=True, encoding=encoding, scale=scale, backend="reference")
    assert torch.allclose(found, expected, atol=1e-11)
