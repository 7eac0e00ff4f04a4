"""Attention written out: every query meets every key, in float64."""

import torch
from torch import Tensor


def attend_densely(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    visible: Tensor | None = None,
    bias: Tensor | None = None,
    relation: Tensor | None = None,
    key_offsets: Tensor | None = None,
    value_offsets: Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """weights = softmax(cap(scale (q . (k + key_offsets) + relation)) + bias), output = weights . (v + value_offsets).

    Args:
        q, k, v: [B, H, T, D], [B, K, S, D], [B, K, S, V], rotated already where rotation is meant.
        visible: bool, broadcast to [B, H, T, S]; a query that sees nothing gets zeros.
        bias: added to the scaled logits, broadcast to [B, H, T, S].
        relation: added to q . k, broadcast to [B, H, T, S].
        key_offsets, value_offsets: [T, S, D] and [T, S, V], what Shaw et al. 2018 write in equations 3 and 4.
        scale: D^-0.5 where left out.
        softcap: c tanh(logits / c), before the bias.
        sinks: [H], one more logit for each head.

    Returns:
        float64 [B, H, T, V].

    Source: Vaswani et al. 2017 (arXiv 1706.03762), equation 1.
    """
    q, k, v = q.double(), k.double(), v.double()
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    logits = torch.einsum("bhid,bhjd->bhij", q, k)
    if key_offsets is not None:
        logits = logits + torch.einsum("bhid,ijd->bhij", q, key_offsets.double())
    if relation is not None:
        logits = logits + relation.double()
    logits = logits * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap is not None:
        logits = softcap * (logits / softcap).tanh()
    if bias is not None:
        logits = logits + bias.double()
    shares = logits.exp()
    if visible is not None:
        shares = shares * visible
    total = shares.sum(-1, keepdim=True)
    if sinks is not None:
        total = total + sinks.double().exp()[:, None, None]
    weights = shares / torch.where(total > 0, total, 1.0)
    out = torch.einsum("bhij,bhjd->bhid", weights, v)
    return out if value_offsets is None else out + torch.einsum("bhij,ijd->bhid", weights, value_offsets.double())
