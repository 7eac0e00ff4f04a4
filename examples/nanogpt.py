"""A small GPT in nanoGPT's style: its learned positions, and any other encoding in their place.

Two lines differ from nanoGPT: attention calls `attend`, and `wpe` is an encoding. Run: python examples/nanogpt.py
"""

import torch
from torch import nn
from torch.nn import functional as F

import ropewalk as rw

VOCAB, DIM, HEADS, BLOCK = 65, 64, 4, 32


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)

    def forward(self, x, encoding):
        q, k, v = (y.unflatten(-1, (HEADS, -1)).transpose(1, 2) for y in self.c_attn(x).split(DIM, dim=-1))
        y = rw.attend(q, k, v, causal=True, encoding=encoding)  # was F.scaled_dot_product_attention(q, k, v, ...)
        return self.c_proj(y.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2, self.attn = nn.LayerNorm(DIM), nn.LayerNorm(DIM), Attention()
        self.mlp = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x, encoding):
        x = x + self.attn(self.ln_1(x), encoding)
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, encoding):
        super().__init__()
        self.wte, self.encoding, self.ln_f = nn.Embedding(VOCAB, DIM), encoding, nn.LayerNorm(DIM)
        self.h = nn.ModuleList(Layer() for _ in range(2))

    def forward(self, tokens):
        places = rw.positions.arange(tokens.shape[1], device=tokens.device)
        x = self.encoding.embed(self.wte(tokens), places)  # was self.wte(tokens) + self.wpe(places)
        for layer in self.h:
            x = layer(x, self.encoding)
        return F.linear(self.ln_f(x), self.wte.weight)


for encoding in (rw.Learned(BLOCK, DIM), rw.Rotary(DIM // HEADS), rw.ALiBi(HEADS)):
    try:
        told = f"reads {GPT(encoding)(torch.randint(VOCAB, (1, 2 * BLOCK))).shape[1]} tokens"
    except rw.RopewalkError as error:
        told = f"stops at {BLOCK}: {error}"
    print(f"{type(encoding).__name__}: {told}")
