"""The extension methods by name, with the parameters they take when nobody says otherwise."""

import difflib
import math
from collections.abc import Callable
from dataclasses import replace

import torch

from ropewalk._checks import one_of
from ropewalk._errors import RopewalkError
from ropewalk.extend.remapping import REMAPPINGS, Method
from ropewalk.scaling import (
    NTK,
    DynamicLinear,
    DynamicNTK,
    DynamicYaRN,
    Linear,
    Llama3,
    MrRoPE,
    NTKCritical,
    Scaling,
    Tempered,
    YaRN,
)
from ropewalk.scaling._base import longrope_attention_factor, yarn_attention_factor

METHODS: dict[str, Callable[[float, int], Scaling]] = {
    "linear": lambda factor, native: Linear(factor),
    "ntk": lambda factor, native: NTK(factor),
    "ntk-critical": lambda factor, native: NTKCritical(factor, native),
    "yarn": lambda factor, native: YaRN(factor, native, beta_fast=beta_fast(native)),
    "yarn-paper": lambda factor, native: YaRN(factor, native, beta_fast=beta_fast(native), ramp="paper"),
    "llama3": lambda factor, native: Llama3(factor, native),
    "mrrope": lambda factor, native: MrRoPE(factor, native, beta_fast=beta_fast(native)),
    "dynamic": lambda factor, native: DynamicNTK(1.0, native),
    "dynamic-linear": lambda factor, native: DynamicLinear(native),
    "yarn-dynamic": lambda factor, native: DynamicYaRN(native, beta_fast=beta_fast(native)),
}
TEMPERATURES: dict[str, Callable[[float, int], float]] = {
    "none": lambda factor, native: 1.0,
    "yarn": lambda factor, native: yarn_attention_factor(factor),
    "longrope": longrope_attention_factor,
}
DEFAULT = ("linear", "ntk", "ntk-critical", "yarn", "llama3", "mrrope")
BASELINES = ("none", "crop")  # always measured, never chosen


def beta_fast(native: int) -> float:
    """How many turns within the native length make a pair fast enough to keep: min(32, (L / 2 pi)^0.535).

    32 was fitted on models of 4096 tokens. Within 256 tokens hardly any pair turns 32 times, and YaRN would
    interpolate nearly all of them; the power passes through 32 at 4096.
    """
    return min(32.0, round((native / (2 * math.pi)) ** 0.535, 2))


def method_for(method: str, factor: float, native: int, temperature: str | None = None) -> Method:
    """What `method` means for a model of `native` tokens.

    Args:
        temperature: one of `TEMPERATURES`, in place of the method's own.

    Raises:
        RopewalkError: an unknown method; the message names the nearest. A temperature that is unknown, or given for a
            method that depends on the length.
    """
    if method not in REMAPPINGS:
        return scaling_for(method, factor, native, temperature)
    remapping = REMAPPINGS[method](factor, native)
    if temperature is None:
        return remapping
    return replace(remapping, scaling=_tempered(method, Linear(1.0), temperature, factor, native))


def scaling_for(method: str, factor: float, native: int, temperature: str | None = None) -> Scaling:
    """As `method_for`, of a method that is a scaling."""
    if method not in METHODS:
        known = (*METHODS, *REMAPPINGS)
        close = difflib.get_close_matches(method, known, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise RopewalkError(
            f"unknown method {method!r}{hint} Known are {', '.join(known)} (none and crop are always measured)"
        )
    scaling = METHODS[method](factor, native)
    return scaling if temperature is None else _tempered(method, scaling, temperature, factor, native)


def _tempered(method: str, scaling: Scaling, temperature: str, factor: float, native: int) -> Scaling:
    wanted = TEMPERATURES[one_of("extend", "temperature", temperature, tuple(TEMPERATURES))](factor, native)
    if scaling.depends_on_length:
        raise RopewalkError(
            f"temperature={temperature!r} cannot be given to {method!r}: its frequencies follow the length of the "
            "sequence, and one temperature, that of the target, would not; leave the method out, or the temperature"
        )
    own = scaling.apply(torch.ones(8), base=10_000.0).attention_factor  # of no method does it depend on frequencies
    return scaling if wanted == own else Tempered(scaling, wanted)
