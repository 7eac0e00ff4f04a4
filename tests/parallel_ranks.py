"""One of two processes that share heads or a sequence; here and not in a test, so that the process can import it."""

import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from every_encoding import ENCODINGS, HEADS, WIDTH, sample, vivid
from torch import Tensor

from ropewalk import Encoding, attend, attend_sharded, for_heads, positions
from ropewalk.attention import blocks

WORLD, TOKENS = 2, 24
DOCUMENTS = torch.arange(TOKENS) // 9
REAL = torch.stack([torch.arange(TOKENS) >= 5, torch.arange(TOKENS) >= 0])
Results = dict[str, Tensor]


class ByHead(Encoding):
    """A relation that learns a vector and a potential that learns a number a head: nothing of it is by distance."""

    def __init__(self) -> None:
        super().__init__()
        self.content, self.value = (torch.nn.Parameter(torch.zeros(HEADS, WIDTH)) for _ in range(2))
        self.rate = torch.nn.Parameter(torch.zeros(HEADS))

    def relation(
        self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor, visible: Tensor | None = None
    ) -> Tensor:
        return (k * self.content[:, None].to(k.dtype)).sum(-1)[:, :, None, :] * q.mean(-1, keepdim=True).cos()

    def relation_values(self, weights: Tensor, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        near = weights * (k_positions * 0.2).sin()[..., None, None, :].to(weights.dtype)
        return near.sum(-1, keepdim=True) * self.value[:, None].to(weights.dtype)

    def bias(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        ahead = (k_positions[..., None, :] - q_positions[..., None])[..., None, :, :]
        return self.rate[:, None, None] * (ahead * 0.7).sin()


class Gates(Encoding):
    """A bias that is a difference, with a learned rate a head."""

    def __init__(self) -> None:
        super().__init__()
        self.rate = torch.nn.Parameter(torch.zeros(HEADS))

    def potential(self, where: Tensor) -> Tensor:
        return (self.rate.double()[:, None] * (where[..., None, :] * 0.3).cos().double()).float()

    def bias(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        return self.potential(k_positions)[..., None, :] - self.potential(q_positions)[..., None]


ALL = {**ENCODINGS, "by head": ByHead, "gates": Gates}
PLACES = positions.from_attention_mask(REAL)
CALLS: dict[str, dict[str, Any]] = {
    "causal": {"causal": True},
    "window": {"causal": True, "window": 7},
    "both ways": {"causal": False},
    "padded": {"causal": True, "key_mask": REAL},
    "at positions": {"causal": True, "key_mask": REAL, "q_positions": PLACES, "k_positions": PLACES},
    "padded both ways": {"causal": False, "key_mask": REAL, "documents": DOCUMENTS},
    "packed": {"causal": True, "documents": DOCUMENTS},
}


def given(dtype: torch.dtype, kv_heads: int = HEADS) -> list[Tensor]:
    """q, k, v of the whole sequence and all heads, and the gradient of the output."""
    heads = (HEADS, kv_heads, kv_heads, HEADS)
    return [sample(2, n, TOKENS, WIDTH, seed=seed).to(dtype) for seed, n in enumerate(heads)]


def differentiated(encoding: Encoding, out: Tensor, leaves: list[Tensor], upstream: Tensor) -> Results:
    """Output, and gradients of q, k, v and of what the encoding learns."""
    learned = dict(encoding.named_parameters())
    out.backward(upstream)
    grads = {name: leaf.grad for name, leaf in zip("qkv", leaves, strict=True)}
    return {"out": out.detach(), **grads, **{name.split(".")[-1]: p.grad for name, p in learned.items()}}


def alone(name: str, call: str, dtype: torch.dtype, kv_heads: int = HEADS) -> Results:
    """What one process computes."""
    *qkv, upstream = given(dtype, kv_heads)
    leaves, encoding = [x.requires_grad_() for x in qkv], vivid(ALL[name]()).to(dtype)
    return differentiated(encoding, attend(*leaves, encoding=encoding, **CALLS[call]), leaves, upstream)


def of_heads(rank: int, name: str, call: str, dtype: torch.dtype, kv_heads: int) -> Results:
    """This rank's heads."""
    mine, mine_kv = (slice(rank * n // WORLD, (rank + 1) * n // WORLD) for n in (HEADS, kv_heads))
    q, k, v, upstream = given(dtype, kv_heads)
    leaves = [x.contiguous().requires_grad_() for x in (q[:, mine], k[:, mine_kv], v[:, mine_kv])]
    encoding = for_heads(vivid(ALL[name]()).to(dtype), mine.start, mine.stop, of=HEADS)
    out = attend(*leaves, encoding=encoding, **CALLS[call])
    return differentiated(encoding, out, leaves, upstream[:, mine])


def of_tokens(rank: int, name: str, call: str, dtype: torch.dtype, kv_heads: int, zigzag: bool) -> Results:
    """This rank's tokens; of a group that is named, and of the one that goes without saying."""
    where = positions.context_parallel(TOKENS, rank, WORLD, zigzag=zigzag)
    *qkv, upstream = given(dtype, kv_heads)
    leaves, encoding = [x[:, :, where].requires_grad_() for x in qkv], vivid(ALL[name]()).to(dtype)
    own = {k: x[..., where] if isinstance(x, Tensor) else x for k, x in CALLS[call].items() if k != "q_positions"}
    own = {k.replace("k_positions", "positions"): x for k, x in own.items()}
    group = None if zigzag else dist.new_group(range(WORLD))
    out = attend_sharded(*leaves, zigzag=zigzag, group=group, encoding=encoding, **own)
    return differentiated(encoding, out, leaves, upstream[:, :, where])


def joined(ranks: list[Results], axis: int, order: Tensor | None = None) -> Results:
    """What the ranks found, as one: parts side by side, and gradients of what is learned summed."""
    found = {}
    for key in ranks[0]:
        parts = [rank[key] for rank in ranks]
        found[key] = torch.cat(parts, dim=axis) if key in ("out", "q", "k", "v") else sum(parts)
        if order is not None and key in ("out", "q", "k", "v"):
            found[key] = found[key].index_select(axis, order.argsort())
    return found


def work(rank: int, folder: str, head_cases: list[tuple], token_cases: list[tuple]) -> None:
    """Writes what this rank finds for each case to a file in `folder`."""
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=WORLD)
    results = {}
    for case in token_cases:
        for rows in (64, 3):
            blocks.LOGITS, blocks.LEAST_ROWS = 1, rows
            results[("tokens", *case, rows)] = of_tokens(rank, *case)
    for case in head_cases:
        results[("heads", *case)] = of_heads(rank, *case)
    torch.save(results, Path(folder) / f"rank{rank}.pt")
    dist.destroy_process_group()
