"""Checks of attention against the formula written out: one query at a time, one key at a time, in float64."""

import math
from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

import torch
from torch import Tensor

from ropewalk.attention import attend
from ropewalk.modules import ALiBi, CoPE, DualChunk, Encoding, NoPE, Rotary, SelfExtend, Shaw, T5Bias, TransformerXL
from ropewalk.testing import rotate_complex
from ropewalk.verify.biases import bucket
from ropewalk.verify.check import Check
from ropewalk.verify.encodings import vivid
from ropewalk.verify.samples import apart, plain_inv_freq, sample

HEADS, GROUPS, TOKENS, WIDTH = 12, 4, 20, 16
PLACES = 6 * torch.arange(TOKENS)  # far enough for T5's last buckets
Bias = Callable[[int, int], float]  # of a head and a distance, key - query
Relation = Callable[[int, int, int], float]  # of a head, a query and a key
Vector = Callable[[int], Tensor]  # of a distance
Sees = Callable[[int, int], bool]  # of a query and a key


def qkv(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    """q with 12 heads, k and v with 4, of one sequence."""
    q, k, v = (sample(1, heads, TOKENS, WIDTH, seed=heads + i) for i, heads in enumerate((HEADS, GROUPS, GROUPS)))
    return q.to(dtype), k.to(dtype), v.to(dtype)


def attended(encoding: Encoding, *, causal: bool = True, places: Tensor = PLACES, **options: Any) -> Tensor:
    """What `attend` gives, in float32."""
    out = attend(*qkv(), causal=causal, encoding=encoding, q_positions=places, k_positions=places, **options)
    assert isinstance(out, Tensor)
    return out


def written_out(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    bias: Bias = lambda head, ahead: 0.0,
    relation: Relation = lambda head, i, j: 0.0,
    beside_key: Vector = lambda ahead: torch.zeros(WIDTH),
    beside_value: Vector = lambda ahead: torch.zeros(WIDTH),
    sees: Sees = lambda i, j: j <= i,
) -> Tensor:
    """softmax((q . (k + a) + relation) / sqrt(D) + bias) over the keys that a query sees, times (v + b)."""
    rows = []
    for head, i in product(range(HEADS), range(TOKENS)):
        group, out, total = head * GROUPS // HEADS, torch.zeros(WIDTH, dtype=torch.float64), 0.0
        for j in (j for j in range(TOKENS) if sees(i, j)):
            ahead = int(PLACES[j] - PLACES[i])
            logit = (q[0, head, i] @ (k[0, group, j] + beside_key(ahead))).item() + relation(head, i, j)
            logit = logit / WIDTH**0.5 + bias(head, ahead)
            out, total = out + math.exp(logit) * (v[0, group, j] + beside_value(ahead)), total + math.exp(logit)
        rows.append(out / total if total else out)
    return torch.stack(rows).reshape(1, HEADS, TOKENS, WIDTH)


def plain() -> float:
    """No encoding."""
    return apart(attended(NoPE()), written_out(*qkv(torch.float64)))


def rotary() -> float:
    """Queries and keys turned as complex numbers."""
    q, k, v = qkv(torch.float64)
    angles = PLACES.double()[:, None] * plain_inv_freq(WIDTH, 10_000.0)
    return apart(attended(Rotary(WIDTH)), written_out(rotate_complex(q, angles), rotate_complex(k, angles), v))


def alibi() -> float:
    """12 heads: the slopes of 8, then every other one of 16."""
    slopes = [2.0**-h for h in range(1, 9)] + [2.0 ** -(h / 2) for h in (1, 3, 5, 7)]
    want = written_out(*qkv(torch.float64), bias=lambda head, ahead: slopes[head] * ahead)
    return apart(attended(ALiBi(HEADS)), want)


def t5(*, both: bool) -> float:
    """The table's rows looked up by the listed borders."""
    encoding = vivid(T5Bias(HEADS, bidirectional=both), 1.0)
    table = encoding.weight.tolist()
    want = written_out(
        *qkv(torch.float64),
        bias=lambda head, ahead: table[bucket(ahead, both=both)][head],
        sees=lambda i, j: both or j <= i,
    )
    return apart(attended(encoding, causal=not both), want)


def shaw() -> float:
    """Vectors of clipped distances beside keys and values."""
    encoding, clip = vivid(Shaw(WIDTH, max_distance=20), 0.5), lambda ahead: max(-20, min(20, ahead))
    keys, values = (vectors.double() for vectors in encoding.parameters())
    want = written_out(
        *qkv(torch.float64),
        beside_key=lambda ahead: keys[clip(ahead) + 20],
        beside_value=lambda ahead: values[clip(ahead) + 20],
        sees=lambda i, j: True,
    )
    return apart(attended(encoding, causal=False), want)


def transformer_xl() -> float:
    """Sines and cosines of each distance, projected for each head."""
    encoding, (q, k, v) = vivid(TransformerXL(WIDTH, HEADS, dim=8), 0.3), qkv(torch.float64)
    content, distance, weight = (learned.double() for learned in encoding.parameters())
    weight, rates = weight.unflatten(0, (HEADS, WIDTH)), plain_inv_freq(8, 10_000.0)

    @cache
    def projected(head: int, behind: int) -> Tensor:
        angles = behind * rates
        return weight[head] @ torch.cat((angles.sin(), angles.cos()))

    def relation(head: int, i: int, j: int) -> float:
        by_content = content[head] @ k[0, head * GROUPS // HEADS, j]
        by_distance = (q[0, head, i] + distance[head]) @ projected(head, int(PLACES[i] - PLACES[j]))
        return (by_content + by_distance).item()

    return apart(attended(encoding, causal=False), written_out(q, k, v, relation=relation, sees=lambda i, j: True))


def cope() -> float:
    """Gates added up key by key; every third key is hidden and does not count."""
    encoding, (q, k, v) = vivid(CoPE(WIDTH, max_position=5), 0.5), qkv(torch.float64)
    vectors, hidden = encoding.weight.double(), torch.arange(TOKENS) % 3 == 1

    def relation(head: int, i: int, j: int) -> float:
        keys, query = k[0, head * GROUPS // HEADS], q[0, head, i]
        seen = (t for t in range(j, i + 1) if not hidden[t])
        counted = min(sum(1 / (1 + math.exp(-(query @ keys[t]).item() / WIDTH**0.5)) for t in seen), 4.0)
        below, above = math.floor(counted), math.ceil(counted)
        share = counted - below
        return WIDTH**0.5 * (query @ (share * vectors[above] + (1 - share) * vectors[below])).item()

    want = written_out(q, k, v, relation=relation, sees=lambda i, j: j <= i and not bool(hidden[j]))
    return apart(attended(encoding, key_mask=~hidden[None]), want)


def remapped(encoding: Encoding, distance: Callable[[int, int], int]) -> float:
    """Each query turned by `distance` of its position and the key's, pair by pair."""
    (q, k, v), rates = qkv(torch.float64), plain_inv_freq(WIDTH, 10_000.0)

    def relation(head: int, i: int, j: int) -> float:
        query, key = q[0, head, i], k[0, head * GROUPS // HEADS, j]
        turned = rotate_complex(query, distance(int(PLACES[i]), int(PLACES[j])) * rates)
        return (turned @ key - query @ key).item()

    return apart(attended(encoding), written_out(q, k, v, relation=relation))


def self_extend() -> float:
    """Windows of 20, groups of 8."""
    encoding = SelfExtend(Rotary(WIDTH), group=8, window=20)
    return remapped(encoding, lambda i, j: i - j if i - j < 20 else i // 8 + 20 - 2 - j // 8)


def dual_chunk() -> float:
    """Chunks of 25, seen from 30."""

    def distance(i: int, j: int) -> int:
        chunks = i // 25 - j // 25
        return (i % 25, min(i % 25 + 25, 30), 30)[min(chunks, 2)] - j % 25

    return remapped(DualChunk(Rotary(WIDTH), chunk_size=30, local_size=5), distance)


def sight() -> float:
    """A window of 5, padding and two documents at once; the first query of the second sees nothing."""
    real, documents = torch.arange(TOKENS) % 10 != 2, (torch.arange(TOKENS) >= 12).long()
    got = attended(NoPE(), places=torch.arange(TOKENS), window=5, key_mask=real[None], documents=documents)
    want = written_out(
        *qkv(torch.float64),
        sees=lambda i, j: i - 5 < j <= i and bool(real[j]) and bool(documents[i] == documents[j]),
    )
    return apart(got, want)


def _check(name: str, statement: str, error: Callable[[], float]) -> Check:
    return Check(f"attend: {name}", statement, "float64 twin", 5e-6, error)


CHECKS = (
    _check("no encoding", "softmax(q . k / sqrt(D)) over the past, times v, with 3 query heads a key head.", plain),
    _check("rotary", "The same with q and k turned.", rotary),
    _check("alibi", "The same less slope times distance, for 12 heads.", alibi),
    _check(
        "t5, one way",
        "The same plus what the table holds for the distance's bucket and the head.",
        lambda: t5(both=False),
    ),
    _check("t5, both ways", "Without a mask past and future have buckets of their own.", lambda: t5(both=True)),
    _check("shaw", "A vector for each clipped distance, past and future, is added to keys and values.", shaw),
    _check(
        "transformer-xl",
        "The sinusoid of the distance, projected, meets query and bias; another bias meets the key.",
        transformer_xl,
    ),
    _check("cope", "q meets the vector at the gates' sum over what is seen from a key up to the query.", cope),
    _check("self-extend", "Far pairs turn by the distance of their groups, near ones by their own.", self_extend),
    _check("dual chunk", "Pairs turn by the distance within a chunk, to the one before, to all others.", dual_chunk),
    _check("who sees whom", "Window, padding and packed documents hide what they should, and nothing else.", sight),
)
