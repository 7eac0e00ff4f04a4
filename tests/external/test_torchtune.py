"""The interleaved rotation, Llama 3.1's scaling, and attention around them, against torchtune.

torchtune needs an older torchao than other packages do, hence an environment of its own.
"""

import pytest
import torch
from external_peers import TOKENS, assert_same, by_projections, randomized, sample
from external_peers import weights as of
from torch import Tensor, nn

from ropewalk import Llama3, Rotary, positions
from ropewalk.functional import apply_rotary

pytest.importorskip("torchtune")
from torchtune.models.llama3_1 import Llama3ScaledRoPE
from torchtune.models.phi3 import Phi3RotaryPositionalEmbeddings
from torchtune.modules import MultiHeadAttention, RotaryPositionalEmbeddings

PLACES = pytest.mark.parametrize(
    "where",
    [positions.arange(TOKENS), positions.arange(TOKENS, 3000), positions.from_cu_seqlens(torch.tensor([0, 7, 9, 24]))],
    ids=["start", "far", "packed"],
)


def rotated(rope: Rotary, x: Tensor, where: Tensor) -> Tensor:
    """torchtune's axes: [batch, tokens, heads, width]."""
    return apply_rotary(x, *rope.tables(where), layout=rope.layout, axes="bthd")


@PLACES
def test_interleaved(where):
    peer, x = RotaryPositionalEmbeddings(16, max_seq_len=4096, base=500), sample(2, TOKENS, 4, 16)
    rope = Rotary(16, base=500.0, layout="interleaved", numerics="float32")
    assert_same(rotated(rope, x, where), peer(x, input_pos=where[None]), [x])


@PLACES
def test_llama_3_1(where):
    peer, x = Llama3ScaledRoPE(64, max_seq_len=4096, base=500_000), sample(2, TOKENS, 4, 64)
    scaling = Llama3(factor=8.0, original_length=8192)
    rope = Rotary(64, base=500_000.0, layout="interleaved", scaling=scaling, numerics="float32")
    assert_same(rotated(rope, x, where), peer(x, input_pos=where[None]), [x])


@PLACES
def test_phi_3_has_the_other_layout(where):
    peer, x = Phi3RotaryPositionalEmbeddings(16, max_seq_len=4096), sample(2, TOKENS, 4, 16)
    assert_same(rotated(Rotary(16, numerics="float32"), x, where), peer(x, where[None]), [x])


def test_attention_with_grouped_keys():
    rows = {"q_proj": (48, 96), "k_proj": (48, 32), "v_proj": (48, 32), "output_proj": (96, 48)}
    peer = MultiHeadAttention(
        embed_dim=48, num_heads=6, num_kv_heads=2, head_dim=16, pos_embeddings=RotaryPositionalEmbeddings(16, base=500),
        **{name: nn.Linear(*sizes, bias=False) for name, sizes in rows.items()},
    )  # fmt: skip
    peer, x = randomized(peer), sample(2, TOKENS, 48)
    rope = Rotary(16, base=500.0, layout="interleaved")
    ours = by_projections(peer, x, 16, peer.output_proj, causal=True, encoding=rope)
    assert_same(ours, peer(x, x), [x, *of(peer)])
