"""Shaw's relation and its kin: a vector for each clipped distance, beside the keys and beside the values.

A query meets the few vectors first. Its products, laid out by distance, are a row of the block's mask when each row is
read one number further to the left than the one above, which is a view, so that torch's fused kernel serves. Of the
weights only the near ones have to be known apart: all far ones share a vector, and are 1 minus the near.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from ropewalk.attention import flash
from ropewalk.attention.job import Job
from ropewalk.functional.rotary import full_precision
from ropewalk.modules.encoding import ClippedRelation, Encoding

ROWS = 128  # queries of a block


def serves(job: Job) -> bool:
    """Whether this call is one, on a device and under transforms where the kernel can be called by name."""
    return (
        _is_clipped(job.encoding)
        and "bias" not in job.encoding.doors
        and job.sight.by_index
        and job.sight.causal
        and job.q.shape[-2] <= job.k.shape[-2]
        and flash.serves(job)
    )


def _is_clipped(encoding: Encoding) -> bool:
    """Whether its relation is what `ClippedRelation` says of its vectors."""
    kind = type(encoding)
    own = kind.relation is ClippedRelation.relation and kind.relation_values is ClippedRelation.relation_values
    return own if isinstance(encoding, ClippedRelation) else False


def clipped(job: Job) -> Tensor:
    """The output of all queries of the job, [B, H, T, D]."""
    encoding, (k, v) = job.encoding, flash.one_head_each(job)
    assert isinstance(encoding, ClippedRelation)  # `serves` has looked
    wide = torch.float64 if job.q.dtype == torch.float64 else torch.float32
    keys, values = (None if x is None else x.to(job.q.device, wide) for x in encoding.vectors())
    rules = _Rules(encoding.max_distance, job.sight.window, job.scale)
    with full_precision(job.q):
        out: Tensor = _Clipped.apply(*map(flash.side_by_side, (job.q, k, v)), keys, values, rules)
    return out


class _Rules(NamedTuple):
    max_distance: int
    window: int | None
    scale: float


class _Block(NamedTuple):
    """Queries, the keys that any of them sees, and the distance of its last query to its first key."""

    rows: slice
    keys: slice
    first: int


def _blocks(q: Tensor, k: Tensor, window: int | None, size: int = ROWS) -> Iterator[_Block]:
    before = k.shape[2] - q.shape[2]
    for start in range(0, q.shape[2], size):
        stop = min(start + size, q.shape[2])
        low = 0 if window is None else max(0, before + start - window + 1)
        yield _Block(slice(start, stop), slice(low, before + stop), low - (before + stop - 1))


class _Clipped(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor | None, rules: _Rules
    ) -> Tensor:
        """`keys`, `values`: [distances, D], from `max_distance` back on."""
        outs, sums = [], []
        for block in _blocks(q, k, rules.window):
            mine, mask = q[:, :, block.rows], _mask(q, keys, block, rules)
            out, logsumexp = flash.forward(mine, k[:, :, block.keys], v[:, :, block.keys], mask, rules.scale)
            if values is not None:
                weights = _near_weights(mine, k[:, :, block.keys], mask, logsumexp, rules)
                out = (out + weights @ values[: rules.max_distance + 1]).to(q.dtype)
            outs.append(out)
            sums.append(logsumexp)
        out = torch.cat(outs, dim=2)
        ctx.save_for_backward(q, k, v, keys, values, out, torch.cat(sums, dim=2))
        ctx.rules = rules
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        """Of q, k, v and the vectors; sums over blocks are in float32."""
        q, k, v, keys, values, out, logsumexp = ctx.saved_tensors
        rules, wide = ctx.rules, keys.dtype
        of_q, of_k, of_v = (torch.zeros_like(x, dtype=wide) for x in (q, k, v))
        of_keys, of_values = torch.zeros_like(keys), torch.zeros_like(keys if values is None else values)
        for block in _blocks(q, k, rules.window, flash.rows_with_logits(q, k, ROWS)):
            mine, up = q[:, :, block.rows].to(wide), upstream[:, :, block.rows].to(wide)
            theirs, told = k[:, :, block.keys].to(wide), rules.max_distance + 1
            weights = (mine @ theirs.mT).mul_(rules.scale).add_(_mask(q, keys, block, rules))
            weights.sub_(logsumexp[:, :, block.rows, None]).exp_()
            of_weights = up @ v[:, :, block.keys].to(wide).mT
            if values is not None:
                of_weights += _by_key(up @ values.mT, block, rules, 0.0)
                of_values[:told] += torch.einsum("bhtn,bhtd->nd", _with_far(_near(weights, rules), 1.0), up)
            of_weights.sub_((up * out[:, :, block.rows]).sum(-1, keepdim=True))
            of_logits = of_weights.mul_(weights).mul_(rules.scale)
            apart = _with_far(_near(of_logits, rules), 0.0)  # a query's weights add up to 1, whatever its logits
            of_q[:, :, block.rows] = of_logits @ theirs + apart @ keys[:told]
            of_k[:, :, block.keys] += of_logits.mT @ mine
            of_v[:, :, block.keys] += weights.mT @ up
            of_keys[:told] += torch.einsum("bhtn,bhtd->nd", apart, mine)
        return (
            of_q.to(q.dtype),
            of_k.to(k.dtype),
            of_v.to(v.dtype),
            of_keys,
            None if values is None else of_values,
            None,
        )


def _mask(q: Tensor, keys: Tensor, block: _Block, rules: _Rules) -> Tensor:
    """scale q . a for each query and key, -inf where it does not see: [B, H, rows, keys], a view."""
    products = (q[:, :, block.rows].to(keys.dtype) @ keys.mT).mul_(rules.scale)
    return _by_key(products, block, rules, -torch.inf)


def _by_key(products: Tensor, block: _Block, rules: _Rules, hidden: float) -> Tensor:
    """What each vector gives each query, [B, H, rows, vectors], as what each key gives it: [B, H, rows, keys], a view.

    Laid out by distance, rows + keys - 1 of them, each row starts one earlier than the one above.
    """
    batch, heads, rows, _ = products.shape
    keys = block.keys.stop - block.keys.start
    lowest = block.first if rules.window is None else max(block.first, 1 - rules.window)
    near = max(lowest, 1 - rules.max_distance)  # the first distance with a vector of its own
    by_distance = products.new_full((batch, heads, rows, rows + keys - 1), hidden)
    by_distance[..., lowest - block.first : near - block.first] = products[..., :1]
    by_distance[..., near - block.first : 1 - block.first] = products[
        ..., near + rules.max_distance : 1 + rules.max_distance
    ]
    strides = (by_distance.stride(0), by_distance.stride(1), by_distance.shape[3] - 1, 1)
    return by_distance.as_strided((batch, heads, rows, keys), strides, rows - 1)


def _near(by_key: Tensor, rules: _Rules) -> Tensor:
    """Of [B, H, rows, keys] the distances -max_distance + 1 .. 0: [B, H, rows, max_distance], a view where it can."""
    reach, (rows, keys) = rules.max_distance, by_key.shape[2:]
    missing = max(0, rows + reach - 1 - keys)  # keys before the first
    by_key = pad(by_key, (missing, 0)).contiguous()
    first = by_key.storage_offset() + by_key.shape[3] - rows - reach + 1
    strides = (by_key.stride(0), by_key.stride(1), by_key.shape[3] + 1, 1)
    return by_key.as_strided((*by_key.shape[:3], reach), strides, first)


def _near_weights(q: Tensor, k: Tensor, mask: Tensor, logsumexp: Tensor, rules: _Rules) -> Tensor:
    """The weight of each clipped distance, [B, H, rows, max_distance + 1], from the keys nearby alone."""
    seen = slice(-min(k.shape[2], q.shape[2] + rules.max_distance - 1), None)
    logits = (q @ k[:, :, seen].mT).to(mask.dtype).mul_(rules.scale).add_(mask[..., seen])
    return _with_far(_near(logits.sub_(logsumexp[..., None]).exp_(), rules), 1.0)


def _with_far(near: Tensor, total: float) -> Tensor:
    """[B, H, rows, max_distance + 1]: before the near distances what all others have together."""
    return torch.cat((total - near.sum(-1, keepdim=True), near), dim=-1)
