"""From single runs to the comparison: means and intervals over seeds."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

from ropewalk.compare.protocol import Protocol

SCHEMA_VERSION = 1
# Student's t, 97.5 %, by degrees of freedom; past ten the normal's value is near enough.
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


def comparison(
    protocol: Protocol,
    text: dict[str, Any],
    runs: Sequence[dict[str, Any]],
    speeds: dict[str, list[float]],
    claims: dict[str, Any],
) -> dict[str, Any]:
    """The content of comparison.json, but for versions; docs/comparing.md describes it."""
    names = dict.fromkeys(run["name"] for run in runs)
    by_name = {name: [run for run in runs if run["name"] == name] for name in names}
    seeds = sorted({run["seed"] for run in runs})
    scaled = [run["scalings"] for run in runs if "scalings" in run]
    frequencies = [run["frequencies"] for run in runs if "frequencies" in run]
    return {
        "schema_version": SCHEMA_VERSION,
        "protocol": {**protocol.to_dict(), "seeds": seeds},
        "text": text,
        "encodings": [_encoding(name, own, speeds[name], text["bigram_bits"]) for name, own in by_name.items()],
        "scalings": _merged(scaled) if scaled else [],
        "seconds": round(sum(run["seconds"] for run in runs), 1),  # however often it was stopped and gone on with
        "claims": {**claims, "frequencies": _mean_of(frequencies) if frequencies else []},
    }


def interval(values: Sequence[float]) -> dict[str, float | None]:
    """The mean over seeds or turns, and its 95 % interval by Student's t where there are two values or more."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return {"value": mean, "low": None, "high": None}
    t = STUDENT[len(values) - 2] if len(values) - 2 < len(STUDENT) else 1.96
    half = t * statistics.stdev(values) / math.sqrt(len(values))
    return {"value": mean, "low": mean - half, "high": mean + half}


def _encoding(name: str, runs: list[dict[str, Any]], speeds: list[float], bigram: float) -> dict[str, Any]:
    bits = _merged([run["bits"] for run in runs])
    curves = [interval(at) for at in zip(*(run["curve"]["bits"] for run in runs), strict=True)]
    holds = [run["holds_to"] for run in runs]
    one = len(runs) == 1
    return {
        "name": name,
        # the gate: every seed knows more than pairs of bytes; before that a curve says nothing about position
        "passed": all(run["bits"][0]["mean"] < bigram for run in runs),
        "seeds": [run["seed"] for run in runs],
        "parameters_added": runs[0]["parameters_added"],
        "tokens_per_second": interval(speeds),
        "peak_memory_mb": interval([run["peak_memory_mb"] for run in runs]),
        "bits": bits,
        "curve": {
            "ends": runs[0]["curve"]["ends"],
            "bits": [at["value"] for at in curves],
            "low": None if one else [at["low"] for at in curves],
            "high": None if one else [at["high"] for at in curves],
        },
        "holds_to": {"value": statistics.median_low(holds), "low": min(holds), "high": max(holds)},
        "copy": _merged([run["copy"] for run in runs]),
    }


MEASURED = ("mean", "last_quarter", "crop", "within", "copy", "accuracy")


def _merged(lists: Sequence[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Entry by entry over seeds: measured numbers become intervals, lists are merged in turn, the rest is alike."""
    merged = []
    for entries in zip(*lists, strict=True):
        one: dict[str, Any] = {}
        for key, value in entries[0].items():
            each = [entry[key] for entry in entries]
            if isinstance(value, list):
                one[key] = _merged(each)
            else:
                one[key] = interval(each) if key in MEASURED and value is not None else value
        merged.append(one)
    return merged


def _mean_of(runs: Sequence[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Each pair's share, the mean over seeds."""
    return [
        {**layers[0], "share": [statistics.fmean(at) for at in zip(*(layer["share"] for layer in layers), strict=True)]}
        for layers in zip(*runs, strict=True)
    ]
