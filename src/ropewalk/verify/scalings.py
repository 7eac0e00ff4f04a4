"""Checks of the context-extension methods."""

from ropewalk.scaling import (
    NTK,
    DynamicLinear,
    DynamicNTK,
    DynamicYaRN,
    Linear,
    Llama3,
    LongRoPE,
    MrRoPE,
    NTKCritical,
    Proportional,
    Tempered,
    YaRN,
)
from ropewalk.verify.check import Check
from ropewalk.verify.samples import by_entry, plain_inv_freq, worst

BASE, DIM, NATIVE = 10_000.0, 64, 4096
ONES = [1.0] * (DIM // 2)


def factor_one() -> float:
    """Every method, asked for no extension, against the plain frequencies."""
    plain = plain_inv_freq(DIM, BASE)
    methods = (
        Linear(1), NTK(1), NTKCritical(1, NATIVE), YaRN(1, NATIVE), YaRN(1, NATIVE, ramp="paper"), Llama3(1, NATIVE),
        MrRoPE(1, NATIVE), Proportional(1.0), LongRoPE(ONES, ONES, NATIVE),
        DynamicNTK(1, NATIVE), DynamicLinear(NATIVE), DynamicYaRN(NATIVE), Tempered(Linear(1), 1.0),
    )  # fmt: skip
    errors = []
    for method in methods:
        scaled = method.apply(plain, base=BASE, length=NATIVE)
        errors += [by_entry(scaled.inv_freq, plain), abs(scaled.attention_factor - 1)]
    return worst(errors)


def factor_four() -> float:
    """The slowest pair against a quarter of its pace, the fastest one against its own."""
    plain, errors = plain_inv_freq(DIM, BASE), []
    banded = (YaRN(4, NATIVE), YaRN(4, NATIVE, ramp="paper"), Llama3(4, NATIVE), MrRoPE(4, NATIVE))
    for method in (Linear(4), NTK(4), *banded):
        scaled = method.apply(plain, base=BASE).inv_freq
        fastest = 4 if isinstance(method, Linear) else 1
        errors += [by_entry(4 * scaled[-1:], plain[-1:]), by_entry(fastest * scaled[:1], plain[:1])]
    return worst(errors)


CHECKS = (
    Check(
        "scaling: factor 1", "Extended by a factor of 1, no method changes a frequency.", "identity", 1e-14, factor_one
    ),
    Check(
        "scaling: factor 4",
        "Extended by 4, the slowest pair turns 4 times slower and the fastest keeps its pace (but under linear).",
        "identity",
        1e-14,
        factor_four,
    ),
)
