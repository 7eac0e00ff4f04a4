"""The ways to do a job: ours, and other people's as they call it, their tables made beforehand as ours are."""

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

import torch
from torch import Tensor

from ropewalk.bench.jobs import Job
from ropewalk.kernels import rotate

Turn = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


class Way(NamedTuple):
    """Somebody's code for a job, and whose it is."""

    turn: Turn
    package: str


def ways(job: Job) -> dict[str, Way]:
    """Every way that can do this job here, by name."""
    positions = job.positions()
    cos, sin = job.tables()
    made = {
        "ropewalk": Way(lambda q, k: rotate(q, k, (cos, sin), layout=job.layout, axes=job.axes), "ropewalk"),
        "ropewalk, torch's operators": Way(
            lambda q, k: rotate(q, k, (cos, sin), layout=job.layout, axes=job.axes, impl="torch"), "ropewalk"
        ),
    }
    if job.axes == "bhtd" and job.layout == "half":
        made |= transformers(job, cos, sin) | compiled(job, cos, sin)
    if job.layout == "interleaved":
        made |= complex_multiply(job, cos, sin)
    return made | _rotary_embedding_torch(job, positions)


def transformers(job: Job, cos: Tensor, sin: Tensor) -> dict[str, Way]:
    """Its own function, as it is and compiled; the half layout, bhtd."""
    try:
        from transformers.models.llama.modeling_llama import apply_rotary_pos_emb
    except ImportError:
        return {}
    wide = wide_tables(job, cos, sin)
    made = torch.compile(apply_rotary_pos_emb, dynamic=False)
    return {
        "transformers": Way(lambda q, k: apply_rotary_pos_emb(q, k, *wide), "transformers"),
        "transformers, compiled": Way(lambda q, k: made(q, k, *wide), "transformers"),
    }


def wide_tables(job: Job, cos: Tensor, sin: Tensor) -> list[Tensor]:
    """As transformers makes them: [1, T, D], both halves, in the dtype of q."""
    return [torch.cat((table, table), dim=-1)[None].to(job.dtype) for table in (cos, sin)]


def compiled(job: Job, cos: Tensor, sin: Tensor) -> dict[str, Way]:
    """What a reader of torch.compile's guides would write: half-width tables, in float32, either layout."""
    half = job.layout == "half"
    cos, sin = _beside_heads(job, cos), _beside_heads(job, sin)

    def turn(x: Tensor) -> Tensor:
        a, b = x.float().chunk(2, dim=-1) if half else x.float().unflatten(-1, (-1, 2)).unbind(-1)
        turned = a * cos - b * sin, b * cos + a * sin
        return (torch.cat(turned, dim=-1) if half else torch.stack(turned, dim=-1).flatten(-2)).to(x.dtype)

    made = torch.compile(lambda q, k: (turn(q), turn(k)), dynamic=False)
    return {f"{'chunk and cat' if half else 'unbind and stack'}, compiled": Way(made, "torch")}


def _beside_heads(job: Job, table: Tensor) -> Tensor:
    return table if job.axes == "bhtd" else table[:, None]


def complex_multiply(job: Job, cos: Tensor, sin: Tensor) -> dict[str, Way]:
    """Llama's own code: pairs as complex numbers; the interleaved layout."""
    table = _beside_heads(job, torch.complex(cos, sin))

    def turn(x: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * table).flatten(-2).type_as(x)

    return {"complex multiply": Way(lambda q, k: (turn(q), turn(k)), "torch")}


def _rotary_embedding_torch(job: Job, positions: Tensor) -> dict[str, Way]:
    """As its README calls it, where positions count from 0: tables are made in each call, or taken from its cache."""
    try:
        from rotary_embedding_torch import RotaryEmbedding
    except ImportError:
        return {}
    if job.layout != "interleaved" or job.axes != "bhtd" or job.positions()[0] != 0:
        return {}
    rope = RotaryEmbedding(dim=job.shape[-1])
    rope.eval()
    return {
        "rotary-embedding-torch": Way(
            lambda q, k: (rope.rotate_queries_or_keys(q), rope.rotate_queries_or_keys(k)), "rotary-embedding-torch"
        )
    }


def installed(package: str) -> str:
    """Its version."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
