"""Attention as its formula says, for every encoding and option, in float32 or float64."""

import torch
from torch import Tensor
from torch.nn.functional import dropout

from ropewalk.attention.job import Job
from ropewalk.functional.rotary import full_precision


def reference(job: Job) -> Tensor:
    """The output of all queries of the job, [B, H, T, D].

    weights = softmax(cap(scale (q . k + relation)) + bias over the visible keys and the sink),
    output = weights . v + relation's part of the values. A query that sees nothing gets zeros.
    """
    exact = torch.float64 if job.q.dtype == torch.float64 else torch.float32
    with full_precision(job.q):
        weights = dropout(_weights(job, job.q.to(exact), job.k.to(exact)), job.dropout_p, training=True)
        out = _per_group(weights, job.v.to(exact))
        values = job.encoding.relation_values(weights, job.sight.q_positions, job.sight.k_positions)
        return (out if values is None else out + values).to(job.q.dtype)


def _weights(job: Job, q: Tensor, k: Tensor) -> Tensor:
    logits, visible = _per_group(q, k.mT), job.sight.visible()
    if "relation" in job.encoding.doors:
        keys = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
        where = job.sight.q_positions, job.sight.k_positions
        relation = job.encoding.relation(q, keys, *where, visible=visible)
        logits = logits if relation is None else logits + relation
    logits = logits * job.scale
    if job.softcap is not None:
        logits = job.softcap * torch.tanh(logits / job.softcap)
    bias = job.bias()
    if bias is not None:
        logits, hidden = logits + bias.to(logits.dtype), bias.isneginf()
        visible = ~hidden if visible is None else visible & ~hidden
    return _softmax(logits, visible, job.sinks)


def _softmax(logits: Tensor, visible: Tensor | None, sinks: Tensor | None) -> Tensor:
    """Softmax over the visible keys; the sink of a head takes its share and gives nothing."""
    if visible is not None:  # not -inf: a row that sees nothing would be 0/0, and so would its gradient
        logits = logits.masked_fill(~visible, torch.finfo(logits.dtype).min)
    if sinks is not None:
        column = sinks.to(logits.dtype)[:, None, None].expand(*logits.shape[:-1], 1)
        weights = torch.softmax(torch.cat((logits, column), dim=-1), dim=-1)[..., :-1]
    else:
        weights = torch.softmax(logits, dim=-1)
    return weights if visible is None else weights.masked_fill(~visible, 0.0)


def _per_group(x: Tensor, y: Tensor) -> Tensor:
    """x [B, H, T, M] @ y [B, K, M, N], each of the K heads of y serving H / K heads of x, without copies of y."""
    batch, heads, tokens, width = x.shape
    groups = y.shape[1]
    if heads == groups:
        return x @ y
    folded = x.reshape(batch, groups, heads // groups * tokens, width) @ y
    return folded.reshape(batch, heads, tokens, y.shape[-1])
