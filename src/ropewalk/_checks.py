"""Checks of arguments, so that every method words its refusals alike.

Under `torch.compile` a number may be a symbol, whose value is not known: it passes as it is.
"""

import math
from numbers import Integral, Real

import torch

from ropewalk._errors import RopewalkError

LONGEST = 63  # bits of a whole number that torch computes with


def number(owner: str, name: str, value: object, *, least: float, above: bool = False) -> float:
    """`value` as a finite float that is at least `least` (or strictly above it)."""
    if torch.compiler.is_compiling():
        return value  # type: ignore[return-value]
    rule = f"a number {'above' if above else 'of at least'} {least:g}"
    try:
        usable = not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)
    except OverflowError:  # an integer beyond every float
        usable = False
    usable = usable and not (isinstance(value, int) and value.bit_length() > LONGEST)
    if not usable or not isinstance(value, Real):
        raise RopewalkError(f"{owner}: {name}={value!r} is not {rule}")
    if value < least or (above and value == least):
        raise RopewalkError(f"{owner}: {name}={value!r} is not {rule}")
    return float(value)


def whole(owner: str, name: str, value: object, *, least: int) -> int:
    """`value` as an int of at least `least`."""
    if torch.compiler.is_compiling():
        return value  # type: ignore[return-value]
    is_whole = isinstance(value, Integral) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not is_whole or int(value) < least:  # type: ignore[call-overload]
        raise RopewalkError(f"{owner}: {name}={value!r} is not a whole number of at least {least}")
    return int(value)  # type: ignore[call-overload]


def ordered(owner: str, low: tuple[str, float], high: tuple[str, float], *, equal: bool = False) -> None:
    """Refuse a lower end that is not below the higher one; `equal` ends are allowed on demand."""
    if torch.compiler.is_compiling() or low[1] < high[1] or (equal and low[1] == high[1]):
        return
    rule = "more than" if equal else "not below"
    raise RopewalkError(f"{owner}: {low[0]}={low[1]!r} is {rule} {high[0]}={high[1]!r}")


def one_of(owner: str, name: str, value: object, allowed: tuple[str, ...]) -> str:
    """`value` when it is one of `allowed`."""
    if value not in allowed:
        raise RopewalkError(f"{owner}: {name}={value!r} is not one of {', '.join(map(repr, allowed))}")
    return str(value)
