"""The claims about position encodings that a comparison measures beside its encodings."""

from collections.abc import Mapping
from typing import Any

from ropewalk.report.table import Table


def claims_table(result: Mapping[str, Any]) -> Table:
    """What is commonly said of position encodings, and what was found."""
    claims = result["claims"]
    near, order = claims["uniqueness"], claims["shuffling"]
    apart = f"{near['nearest']:.3g} apart, at a shift of {near['shift']:,}"
    rows = (
        ("RoPE's scores decay with distance", _decays(claims["decay"])),
        (
            "sinusoidal rows are unique",
            f"of {near['positions']:,} positions in {near['dim']} dimensions the two nearest are {apart}",
        ),
        (
            "attention without positions does not see order",
            f"its output for shuffled tokens is its shuffled output to {order['attention']:.1e} of its size; an RNN's "
            f"strays by {order['rnn']:.2g}, a convolution's by {order['convolution']:.2g}",
        ),
    )
    return Table("Claims", ("what is said", "what was found"), rows, prose=True)


def _decays(decay: Mapping[str, Any]) -> str:
    first, farthest = decay["first_negative"], decay["distances"][-1]
    turns = f"first turns negative at distance {first:,}" if first is not None else f"stays positive to {farthest:,}"
    random = max(map(abs, decay["random_mean"]))
    return (
        f"for a query and a key that are aligned (head width {decay['head_dim']}) the score {turns}; "
        f"the mean over random ones is within ±{random:.2g} at every distance"
    )


def decay_table(result: Mapping[str, Any]) -> Table:
    """At powers of two: near distances matter more than far ones."""
    decay = result["claims"]["decay"]
    rows = tuple(
        (f"{distance:,}", f"{aligned:.3f}", f"{random:.3f}")
        for distance, aligned, random in zip(decay["distances"], decay["aligned"], decay["random_mean"], strict=True)
        if distance & (distance - 1) == 0
    )
    return Table("RoPE's score by distance", ("distance", "aligned", "mean over random"), rows)


def frequency_table(result: Mapping[str, Any]) -> Table:
    """Each layer of the trained RoPE: the pair that it leans on, and how much of it turns at all."""
    length = result["protocol"]["length"]
    rows = tuple(_layer(layer, length) for layer in result["claims"]["frequencies"])
    shares = ("wavelength of the largest share", "largest share", f"share that turns within {length:,}")
    note = (
        "share: a pair's part of |q||k| in the RoPE trained here; it turns within a length that holds its wavelength."
    )
    return Table("The frequencies that RoPE uses", ("layer", "pairs", *shares), rows, note)


def _layer(layer: Mapping[str, Any], length: int) -> tuple[str, ...]:
    pairs = list(zip(layer["share"], layer["wavelengths"], strict=True))
    share, wavelength = max(pairs)
    turning = sum(share for share, wavelength in pairs if wavelength <= length)
    return (str(layer["layer"]), str(len(pairs)), f"{wavelength:,.1f}", f"{share:.0%}", f"{turning:.0%}")
