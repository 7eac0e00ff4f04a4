"""nn.MultiheadAttention moved to `attend`, its weights carried over, and then given a position encoding.

Run: python examples/multihead_attention.py
"""

import torch
from torch import nn

import ropewalk as rw


class Attention(nn.Module):
    """The same projections as `nn.MultiheadAttention(..., batch_first=True)`, around `attend`."""

    def __init__(self, old: nn.MultiheadAttention, encoding: rw.Encoding):
        super().__init__()
        self.heads, self.encoding = old.num_heads, encoding
        self.q, self.k, self.v = (nn.Linear(old.embed_dim, old.embed_dim) for _ in range(3))
        weights, biases = old.in_proj_weight.chunk(3), old.in_proj_bias.chunk(3)  # one matrix: q above k above v
        with torch.no_grad():
            for new, weight, bias in zip((self.q, self.k, self.v), weights, biases, strict=True):
                new.weight.copy_(weight)
                new.bias.copy_(bias)
        self.out = old.out_proj

    def forward(self, x, key_padding_mask=None):
        q, k, v = (one(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for one in (self.q, self.k, self.v))
        real = None if key_padding_mask is None else ~key_padding_mask  # theirs marks padding, attend's real tokens
        y = rw.attend(q, k, v, causal=True, encoding=self.encoding, key_mask=real)
        return self.out(y.transpose(1, 2).flatten(2))


torch.manual_seed(0)
old = nn.MultiheadAttention(64, num_heads=4, batch_first=True).eval()
nn.init.normal_(old.in_proj_bias)
x = torch.randn(2, 20, 64)
padding = torch.zeros(2, 20, dtype=torch.bool)
padding[1, 15:] = True
future = torch.ones(20, 20, dtype=torch.bool).triu(1)
with torch.no_grad():
    before, _ = old(x, x, x, attn_mask=future, key_padding_mask=padding, need_weights=False)
    after = Attention(old, rw.NoPE())(x, padding)
    print(f"without positions, the largest difference is below 1e-6: {(before - after).abs().max() < 1e-6}")
    for encoding in (rw.Rotary(16), rw.ALiBi(4), rw.T5Bias(4)):
        moved = Attention(old, encoding)(x, padding)
        print(f"{type(encoding).__name__}: {moved.shape[1]} tokens, changed: {not torch.allclose(moved, before)}")
