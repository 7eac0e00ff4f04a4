"""The rotation itself against transformers' and x-transformers' code, forward and gradient."""

import pytest
import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as llama_rotary
from x_transformers.x_transformers import RotaryEmbedding
from x_transformers.x_transformers import apply_rotary_pos_emb as x_rotary

from ropewalk import Rotary, positions
from ropewalk.functional import apply_rotary


def sample(heads: int, seed: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(2, heads, 33, 64, generator=torch.Generator().manual_seed(seed)).to(dtype).requires_grad_()


def both_ways(rotate, q: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, ...]:
    turned = rotate(q, k)
    return *turned, *torch.autograd.grad([t.square().sum() + t.sum() for t in turned], (q, k))


@pytest.mark.parametrize("offset", [0, 1, 40_000])
def test_llama(offset):
    q, k, where = sample(4, 0), sample(2, 1), positions.arange(33, offset)
    rope = Rotary(64, base=500_000.0, numerics="float32")
    parameters = {"rope_type": "default", "rope_theta": 500_000.0}
    cos, sin = LlamaRotaryEmbedding(LlamaConfig(head_dim=64, rope_parameters=parameters))(q, where[None])
    ours = both_ways(lambda q, k: rope(q, k, where), q, k)
    theirs = both_ways(lambda q, k: llama_rotary(q, k, cos, sin), q, k)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=2e-6)


def test_llama_tables_bit_for_bit():
    where = torch.tensor([[0, 1, 17, 8191, 1_000_003]])
    theirs = LlamaRotaryEmbedding(LlamaConfig(head_dim=64, rope_parameters={"rope_type": "default", "rope_theta": 1e4}))
    cos, sin = theirs(torch.zeros(1), where)
    ours = Rotary(64, numerics="float32").tables(where)
    assert torch.equal(ours[0], cos[..., :32])
    assert torch.equal(ours[1], sin[..., :32])


@pytest.mark.parametrize("rotary_dim", [64, 32])
@pytest.mark.parametrize("squeeze", [1.0, 4.0])
def test_x_transformers_interleaved(rotary_dim, squeeze):
    from ropewalk import Linear

    peer = RotaryEmbedding(rotary_dim, interpolation_factor=squeeze)
    rope = Rotary(64, rotary_dim=rotary_dim, layout="interleaved", scaling=Linear(squeeze))
    q, k, where = sample(4, 0), sample(2, 1), positions.arange(33, 500)
    freqs, scale = peer(where)
    ours = both_ways(lambda q, k: rope(q, k, where), q, k)
    theirs = both_ways(lambda q, k: (x_rotary(q, freqs, scale), x_rotary(k, freqs, scale)), q, k)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=3e-4)  # theirs: angles of 500 radians in float32


@pytest.mark.parametrize("axes", ["bhtd", "bthd", "thd"])
def test_axes_are_views_of_one_another(axes):
    cos, sin = Rotary(64).tables(positions.arange(33))
    q = sample(4, 0).detach()
    want = apply_rotary(q, cos, sin)
    view = {"bhtd": q, "bthd": q.transpose(1, 2), "thd": q[0].transpose(0, 1)}[axes]
    got = apply_rotary(view, cos, sin, axes=axes)
    assert torch.equal(got, {"bhtd": want, "bthd": want.transpose(1, 2), "thd": want[0].transpose(0, 1)}[axes])
