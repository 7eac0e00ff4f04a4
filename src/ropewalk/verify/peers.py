"""Checks against transformers, which is imported when they run and not before."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from ropewalk.checkpoints.load import SHIPPED
from ropewalk.checkpoints.load import load as load_in_transformers
from ropewalk.functional import alibi_slopes, sinusoidal, t5_bucket
from ropewalk.models import load
from ropewalk.modules import Rotary
from ropewalk.scaling import DynamicNTK, Linear, Llama3, LongRoPE, Scaling, YaRN
from ropewalk.verify.check import Check
from ropewalk.verify.samples import apart, by_entry, relative, sample, worst

HEAD, NATIVE, BASE = 128, 4096, 500_000.0
SHORT, LONG = [1.0 + i / 64 for i in range(HEAD // 2)], [1.0 + i for i in range(HEAD // 2)]
ORIGINAL = {"original_max_position_embeddings": NATIVE}
METHODS: dict[str, list[tuple[Scaling, dict[str, Any]]]] = {  # ours, and the keys of theirs
    "linear": [(Linear(4.0), {"factor": 4.0})],
    "dynamic": [(DynamicNTK(4.0, NATIVE), {"factor": 4.0})],
    "yarn": [
        (YaRN(4.0, NATIVE), {"factor": 4.0, **ORIGINAL}),
        (YaRN(32.0, NATIVE, truncate=False), {"factor": 32.0, "truncate": False, **ORIGINAL}),
    ],
    "llama3": [(Llama3(8.0, NATIVE), {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, **ORIGINAL})],
    "longrope": [
        (
            LongRoPE(SHORT, LONG, NATIVE, factor=4.0),
            {"short_factor": SHORT, "long_factor": LONG, "factor": 4.0, **ORIGINAL},
        )
    ],
}


def llama(kind: str = "default", **keys: Any) -> Any:
    """A config of theirs, in a spelling that all their versions read and none complains of."""
    from transformers import LlamaConfig

    make: Any = LlamaConfig
    longest = int(keys["factor"] * NATIVE) if ORIGINAL.keys() <= keys.keys() else NATIVE
    sizes = {"hidden_size": 2 * HEAD, "num_attention_heads": 2, "head_dim": HEAD, "max_position_embeddings": longest}
    return make(**sizes, **ORIGINAL, rope_theta=BASE, rope_scaling={"rope_type": kind, **keys})


def rotary() -> float:
    """Their tables and ours."""
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    where = torch.tensor([[0, 1, 17, 8191, 1_000_003]])
    theirs = LlamaRotaryEmbedding(llama())(torch.zeros(1), where)
    ours = Rotary(HEAD, base=BASE, numerics="float32").tables(where)
    return worst(apart(a, b[..., : HEAD // 2]) for a, b in zip(ours, theirs, strict=True))


def rotation() -> float:
    """Queries and keys turned by their function and by ours."""
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    q, k, where = sample(2, 4, 33, HEAD), sample(2, 2, 33, HEAD, seed=1), torch.arange(33)[None] + 40_000
    theirs = apply_rotary_pos_emb(q, k, *LlamaRotaryEmbedding(llama())(q, where))
    ours = Rotary(HEAD, base=BASE, numerics="float32")(q, k, where)
    return worst(apart(a, b) for a, b in zip(ours, theirs, strict=True))


def frequencies(kind: str) -> float:
    """Frequencies and attention factor, within the native length and past it."""
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    errors = []
    for scaling, keys in METHODS[kind]:
        for length in (NATIVE, 4 * NATIVE):
            theirs, factor = ROPE_INIT_FUNCTIONS[kind](llama(kind, **keys), torch.device("cpu"), seq_len=length)
            ours = Rotary(HEAD, base=BASE, scaling=scaling, numerics="float32").frequencies(length)
            errors += [by_entry(ours.inv_freq, theirs), abs(ours.attention_factor - factor)]
    return worst(errors)


def bloom() -> float:
    """Their slopes are the bias of position 1."""
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    theirs = (build_alibi_tensor(torch.ones(1, 2), heads, torch.float32)[:, 0, 1] for heads in range(1, 65))
    return worst(by_entry(alibi_slopes(len(slopes)), slopes) for slopes in theirs)


def mpt() -> float:
    """Their slopes are what the bias changes from one key to the next."""
    from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

    theirs = (build_mpt_alibi_tensor(heads, 2)[:, 0].diff(dim=-1)[:, 0] for heads in range(1, 65))
    return worst(by_entry(alibi_slopes(len(slopes)), slopes) for slopes in theirs)


def t5() -> float:
    """How many distances fall into another bucket."""
    from transformers.models.t5.modeling_t5 import T5Attention

    where, wrong = torch.arange(-2000, 2001), 0
    for both in (False, True):
        for buckets, farthest in ((32, 128), (64, 256), (32, 512), (8, 20)):
            theirs = T5Attention._relative_position_bucket(where, both, buckets, farthest)
            ours = t5_bucket(where, buckets=buckets, max_distance=farthest, bidirectional=both)
            wrong += int((ours != theirs).sum())
    return wrong


def marian() -> float:
    """Their table of 300 positions."""
    from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

    module: Any = MarianSinusoidalPositionalEmbedding(300, 64)
    if hasattr(module, "create_weight"):
        table = module.create_weight()
    else:  # before version 5
        module._init_weight()
        table = module.weight
    return apart(sinusoidal(torch.arange(300), 64, order="sin_cos"), table)


def shipped() -> float:
    """Logits of both, as a share of the largest."""
    import transformers  # noqa: F401  # where it is missing this check is not run, rather than refused

    text = (SHIPPED / "heldout-macbeth.txt").read_bytes()[:256]
    tokens = torch.tensor([list(text)])
    theirs = load_in_transformers(SHIPPED).model(input_ids=tokens, use_cache=False).logits
    return relative(load(SHIPPED, numerics="float32")(tokens), theirs)


def _check(name: str, statement: str, tolerance: float, error: Callable[[], float]) -> Check:
    return Check(name, statement, "transformers", tolerance, error)


CHECKS = (
    _check("llama: tables", "Llama's cos and sin, bit for bit under numerics='float32'.", 0.0, rotary),
    _check("llama: rotation", "Queries and keys as Llama's own function turns them.", 2e-6, rotation),
    *(
        _check(f"{kind}: frequencies", f"Those of rope_type '{kind}', bit for bit.", 0.0, partial(frequencies, kind))
        for kind in METHODS
    ),
    _check("bloom: slopes", "BLOOM's ALiBi slopes, for 1 to 64 heads.", 2e-6, bloom),
    _check("mpt: slopes", "MPT's ALiBi slopes, for 1 to 64 heads.", 2e-6, mpt),
    _check("t5: buckets", "T5's buckets of 4001 distances, in four sizes; those that differ are counted.", 0.0, t5),
    _check("marian: sinusoids", "Marian's table: all sines, then all cosines.", 1e-7, marian),
    _check("shipped model: logits", "Read by models.load, the model that ships gives their logits.", 1e-5, shipped),
)
