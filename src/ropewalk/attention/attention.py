"""The one way into attention."""

from dataclasses import dataclass

from torch import Tensor

from ropewalk._checks import one_of
from ropewalk._errors import RopewalkError
from ropewalk.attention import clipped, decay, distance, flex, remapped, sdpa
from ropewalk.attention.blocks import Core, by_blocks, rows_at_once
from ropewalk.attention.job import Job, check_options, check_tensors
from ropewalk.attention.reference import reference
from ropewalk.attention.sight import sight
from ropewalk.modules.encoding import Encoding, check_encoding
from ropewalk.modules.nope import NoPE

BACKENDS = ("auto", "reference", "sdpa", "flex")


@dataclass(frozen=True)
class Plan:
    """What `attend` would do.

    Attributes:
        backend: "reference", "sdpa" or "flex".
        reason: why this one.
        doors: at which the encoding answers.
        rows: queries computed at once; memory grows with rows x keys.
    """

    backend: str
    reason: str
    doors: tuple[str, ...]
    rows: int

    def __str__(self) -> str:
        return f"{self.backend}, {self.rows} queries at once: {self.reason}"


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool,
    encoding: Encoding | None = None,
    q_positions: Tensor | None = None,
    k_positions: Tensor | None = None,
    length: int | Tensor | None = None,
    window: int | None = None,
    key_mask: Tensor | None = None,
    documents: Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    dropout_p: float = 0.0,
    backend: str = "auto",
    explain: bool = False,
) -> Tensor | Plan:
    """Attention with a position encoding, however the tokens arrive.

    weights = softmax(cap(scale (q . k + relation)) + bias), output = weights . (v + relation's values). Memory
    grows with T + S, forward and backward: queries are taken in blocks.

    Args:
        q: [B, H, T, D], un-rotated.
        k: [B, K, S, D], un-rotated; K divides H.
        v: [B, K, S, any width].
        causal: a query sees keys at positions up to its own. Positions decide, in whatever order the keys stand.
        encoding: any `Encoding`; None for none. It is asked to rotate, for a bias and for a relation; its
            input door is the model's to ask.
        q_positions, k_positions: integers [T] or [B, T], [S] or [B, S]. Left out, keys stand at 0 .. S-1 and the
            queries are the last T of them, as when decoding with a cache.
        length: tokens in each whole sequence, or [B], for length-dependent scalings; the largest position + 1
            where left out.
        window: how many positions back a query sees, itself included; as many ahead where not causal.
        key_mask: [B, S], bool or 0/1, 1 = real.
        documents: numbers of the keys' documents, [S] or [B, S]; the queries are the last T of the keys. Tokens see
            their own document only.
        scale: of q . k, a plain number; head_dim^-0.5 where left out. Multiply q by one that is learned.
        softcap: c tanh(logits / c), before the bias is added (flash-attn's order).
        sinks: [H], a logit a head that takes a share of the weights and gives nothing (gpt-oss).
        dropout_p: share of weights to drop; it is applied whenever it is above 0.
        backend: "reference" (every encoding, float64), "sdpa", "flex", or "auto". A named backend that cannot express
            the call raises.
        explain: return the `Plan`, and compute nothing.

    Returns:
        [B, H, T, width of v], in the dtype of q; zeros for a query that sees nothing. Logits and softmax are in
        float32 (float64 for float64).

    Raises:
        RopewalkError: shapes, dtypes or options that do not fit, a backend that cannot express the call.

    Example:
        >>> import torch
        >>> from ropewalk import ALiBi
        >>> q, k = torch.ones(1, 8, 4, 16), torch.ones(1, 2, 4, 16)
        >>> attend(q, k, k, causal=True, encoding=ALiBi(8)).shape
        torch.Size([1, 8, 4, 16])
        >>> print(attend(q, k, k, causal=True, encoding=ALiBi(8), softcap=30.0, explain=True))
        reference, 4 queries at once: the fused kernels cannot express softcap

    Source: Vaswani et al. 2017 (arXiv 1706.03762), equation 1, with the doors of `Encoding`.
    """
    one_of("attend", "backend", backend, BACKENDS)
    check_tensors(q, k, v)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    check_options(q, scale, softcap, sinks, dropout_p)
    encoding = NoPE() if encoding is None else check_encoding("attend", encoding)
    where = sight(
        q,
        k,
        causal=causal,
        q_positions=q_positions,
        k_positions=k_positions,
        window=window,
        key_mask=key_mask,
        documents=documents,
        needed=causal or window is not None or any(door != "embed" for door in encoding.doors),
    )
    if not explain:
        q, k = encoding.rotate(q, k, where.q_positions, where.k_positions, length)
    job = Job(q, k, v, where, encoding, scale, softcap, sinks, dropout_p)
    plan, core = _plan(job, backend)
    return plan if explain else by_blocks(core, job, plan.rows)


def _plan(job: Job, backend: str) -> tuple[Plan, Core]:
    """What will be done, and what does it to a block of queries."""
    chosen, reason = (backend, "it was asked for") if backend != "auto" else _choose(job)
    refused = {"sdpa": _sdpa_refusals, "flex": flex.refusals}.get(chosen, lambda job: [])(job)
    if refused:
        raise RopewalkError(
            f"attend: backend={chosen!r} cannot express {', '.join(refused)}; leave backend out, or give 'reference'"
        )
    core, rows = _core(job, chosen)
    return Plan(chosen, reason, job.encoding.doors, rows), core


def _choose(job: Job) -> tuple[str, str]:
    refused = _sdpa_refusals(job)
    if refused:
        return "reference", f"the fused kernels cannot express {', '.join(refused)}"
    if job.bias_learns and _maskless(job) is None:
        return "reference", "the fused kernels give no gradient to a bias"
    if "bias" in job.encoding.doors and job.q.device.type != "cpu" and job.q.dtype.itemsize < 4:
        return "reference", f"the fused kernels of this device would round the bias to {job.q.dtype}"
    return "sdpa", "torch's kernels express all of it"


def _sdpa_refusals(job: Job) -> list[str]:
    return [] if _maskless(job) is not None else sdpa.refusals(job)


def _core(job: Job, backend: str) -> tuple[Core, int]:
    """A backend's function, and for how many queries at once: all where nothing of the size T x S is made."""
    queries = job.q.shape[-2]
    if backend == "flex":
        return flex.flex, queries
    if backend == "reference":
        return reference, min(rows_at_once(job), queries)
    maskless = _maskless(job)
    if maskless is not None:
        return maskless, queries
    unmasked = "bias" not in job.encoding.doors and (job.sight.everything or job.sight.triangle)
    return sdpa.sdpa, queries if unmasked and sdpa.is_fused(job) else min(rows_at_once(job), queries)


def _maskless(job: Job) -> Core | None:
    """The function that takes this bias, window or relation to the fused kernel without a mask, where there is one."""
    ways = (
        (distance.serves, distance.distance),
        (decay.serves, decay.decay),
        (clipped.serves, clipped.clipped),
        (remapped.serves, remapped.remapped),
    )
    return next((core for serves, core in ways if serves(job)), None)
