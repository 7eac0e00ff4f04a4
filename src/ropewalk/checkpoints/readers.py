"""Which reader of a checkpoint takes which method: what each one's code computes from the keys that are written."""

import math
from collections.abc import Callable

import torch

from ropewalk.scaling import NTK, Linear, Llama3, LongRoPE, MrRoPE, NTKCritical, Scaling, Tempered, YaRN

YES = "yes"
NOT_WRITTEN = "no: not written; a no-op once the maximum is raised, and wrong with a cache"
UNNAMED = "no: no rope type of a config states it"
SAME = 1e-6  # relative; a temperature that differs by less moves no logit that float32 would show


def readers(scaling: Scaling) -> dict[str, str]:
    """What each reader does with `scaling` once written.

    Returns:
        Reader -> "yes", "yes, " and on what condition, or "no: " and the reason.
    """
    if scaling.depends_on_length and not isinstance(scaling, LongRoPE):
        return dict.fromkeys(READERS, NOT_WRITTEN)
    if not isinstance(scaling, NTK | NTKCritical | Linear | Llama3 | YaRN | MrRoPE | LongRoPE | Tempered):
        return dict.fromkeys(READERS, UNNAMED)
    return {reader: answer(scaling) for reader, answer in READERS.items()}


def writable(scaling: Scaling) -> bool:
    """Whether a checkpoint can state `scaling` at all."""
    return readers(scaling)["transformers 5"] == YES


def _transformers(scaling: Scaling) -> str:
    return YES


def _vllm(scaling: Scaling) -> str:
    """Reads `attn_factor` beside yarn and the two mscales beside longrope, and `attention_factor` nowhere."""
    if _by_factors(scaling):
        return YES if _one_set(scaling) else "no: it keeps the long factors at every length, short prompts included"
    return _own_temperature(scaling, "it takes no attention_factor beside yarn")


def _sglang(scaling: Scaling) -> str:
    if _by_factors(scaling):
        return (
            "no: written as longrope factors, with which it turns the token just past the native length as if it "
            "were the first, where no later token stands in the batch"
        )
    return _own_temperature(scaling, "it takes no attention_factor beside yarn")


def _llama_cpp(scaling: Scaling) -> str:
    """The converter writes the betas, but the loader of the Llama architecture leaves them at 32 and 1."""
    if _by_factors(scaling):
        return "no: written as longrope factors, which it drops"
    if not isinstance(scaling, YaRN):
        return YES
    if not scaling.truncate:
        return "no: it rounds the ends of YaRN's ramp to whole pairs, which this one does not"
    if (answer := _own_temperature(scaling, "it overwrites yarn_attn_factor")) != YES:
        return answer
    flags = yarn_flags(scaling)
    return f"yes, with {flags}: it does not read them from the file" if flags else YES


def _megatron(scaling: Scaling) -> str:
    """What pretrain_gpt.py can be told by flags; a config object of its own can hold more."""
    match scaling:
        case NTK() | NTKCritical():
            return "yes, if the larger base is a whole number: --rotary-base takes no other"
        case Llama3(factor=8, original_length=8192, low_freq_factor=1, high_freq_factor=4):
            return YES
        case Llama3():
            return "no: --use-rope-scaling is Llama 3.1's own (factor 8, native length 8192, bands 1 and 4)"
        case Linear():
            return "no: --rotary-seq-len-interpolation-factor is not handed on to the model"
        case YaRN(ramp="code"):
            return "no: no flag of pretrain_gpt.py sets YaRN's parameters"
        case _:
            return "no: it has no per-pair factors"


READERS: dict[str, Callable[[Scaling], str]] = {
    "transformers 5": _transformers,
    "transformers 4.57": _transformers,
    "vLLM": _vllm,
    "SGLang": _sglang,
    "llama.cpp converter (Llama)": _llama_cpp,
    "Megatron": _megatron,
}


def yarn_flags(scaling: YaRN) -> str:
    """llama.cpp's flags for betas other than its defaults."""
    if (scaling.beta_fast, scaling.beta_slow) == (32, 1):
        return ""
    return f"--yarn-beta-fast {scaling.beta_fast:.9g} --yarn-beta-slow {scaling.beta_slow:.9g}"


def _by_factors(scaling: Scaling) -> bool:
    """Whether it is written as `longrope`: one divisor a pair."""
    return isinstance(scaling, MrRoPE | LongRoPE | Tempered) or (isinstance(scaling, YaRN) and scaling.ramp == "paper")


def _one_set(scaling: Scaling) -> bool:
    return not isinstance(scaling, LongRoPE) or list(scaling.short_factor) == list(scaling.long_factor)


def _own_temperature(scaling: Scaling, reason: str) -> str:
    """YaRN's published temperature is the only one that a reader without `attention_factor` computes."""
    if not isinstance(scaling, YaRN):
        return YES
    published = 0.1 * math.log(scaling.factor) + 1
    stated = scaling.apply(torch.ones(2), base=10_000.0).attention_factor
    if math.isclose(stated, published, rel_tol=SAME):
        return YES
    return f"no: {reason}, and computes {published:.6g} where {stated:.6g} is meant"
