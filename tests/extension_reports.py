"""Reports of extensions, made by hand: small, with every part there is, and names that try to break out."""

import json
import math
from typing import Any

NATIVE, TARGET = 64, 256
HOSTILE = (
    "</script><script>alert(1)</script>",
    "<!-- <b>`x`</b>|*y*",
    "a\nb\u2028\\|[l](javascript:alert(1))",
    "# `` $x$ _z_ <a href='https://evil'>",
)
PAIRS = [1.0, 0.3, 0.05, 0.01, 0.0]


def buckets(excess: list[float], *, band: bool = True) -> list[dict[str, Any]]:
    rows = []
    for n, value in enumerate(excess):
        nll = 2.0 + 0.01 * n + value
        row = {"start": 32 * n, "end": 32 * n + 32, "nll": nll, "perplexity": math.exp(nll), "tokens": 64 - (n == 0),
               "documents": 2, "excess": value}  # fmt: skip
        rows.append(row | ({"low": value - 0.0123, "high": value + 0.0456} if band else {}))
    return rows


def method(name: str, rate: float, factor: float | None, *, holds: int | None = None) -> dict[str, Any]:
    baseline = name == "crop"
    return {
        "method": name,
        "scaling": None if factor is None else {"name": "Linear", "factor": factor},
        "inv_freq": None if factor is None else [f / factor for f in PAIRS],
        "buckets": buckets([rate * n for n in range(8)]),
        "holds_to": None if baseline else {"value": holds, "low": holds - 32, "high": holds},
        "reads_to": None if baseline else 123,
        "reading": [] if baseline else [
            {"distance": d, "context": d + 32, "gain": 3.21 - d / 100, "strings": 2} for d in (32, 96)
        ],
        "usable_length": None if baseline else min(123, holds),
        "short_cost": rate / 7,
        "can_be_chosen": factor is not None,
        "retrieval": [] if baseline else [
            {"length": length, "depth": depth, "gain": length / 100 - depth, "exact": exact, "needles": needles}
            for needles in (1, 4) for length in (64, 256) for depth, exact in ((0.0, 0.875), (0.5, None))
        ],
    }  # fmt: skip


def made(names: tuple[str, str] = ("linear", "yarn"), model: str = "a-model") -> dict[str, Any]:
    """A whole report: crop, none and two methods, of which the second was chosen."""
    report = {
        "schema_version": 1, "model": model, "model_type": "llama", "base": 10000.0, "inv_freq": PAIRS,
        "native_length": NATIVE, "target_length": TARGET, "factor": 4.0, "tolerance": 0.1,
        "protocol": {
            "documents": 2, "tokens": 512, "length": TARGET, "sources": [f"{model}.txt@0"], "bucket": 32,
            "pass": "one a document", "bos": "none", "crop_mean_context": 60.5, "mean": "over tokens",
            "interval": "95 % bootstrap over documents, 1000 draws", "weights_dtype": "float32",
            "reading": {"strings": "16 tokens", "trials": 2, "gain": 1.0, "measurable": True},
        },
        "methods": [
            method("crop", 0.0, None), method("none", 0.5, None, holds=64),
            method(names[0], 0.2, 4.0, holds=96), method(names[1], 0.015, 2.0, holds=256),
        ],
        "chosen": names[1],
        "config": {"rope_theta": 10000.0, "rope_scaling": {"rope_type": names[1], "factor": 4.0}},
        "verified": {"reader": "transformers 5.23.0", "frequencies_bit_equal": True, "logits_changed": True,
                     "frequencies_max_relative_error": 0.0, "attention_factor": 1.0, "logits_max_error": 0.0},
        "readers": {"transformers 5": "yes", "llama.cpp converter (Llama)": f"no: {names[0]}"},
        "recipes": [
            {"engine": "vLLM", "status": "docs", "text": f"serve ```{model}```", "source": "x.y", "reason": None},
            {"engine": "llama.cpp", "status": "not possible", "text": None, "source": None, "reason": f"no {names[0]}"},
        ],
        "versions": {"ropewalk": "0.1.0", "torch": "2.13.0", "transformers": "5.23.0", "python": "3.11",
                     "machine": "x86_64", "date": "2026-12-03"},
        "seconds": 12.3,
    }  # fmt: skip
    return json.loads(json.dumps(report))


def old() -> dict[str, Any]:
    """As first written: no bands, no retrieval, no recipes, and nothing that may be chosen."""
    report = made()
    for key in ("recipes",):
        del report[key]
    for one in report["methods"]:
        del one["retrieval"]
        one["buckets"] = buckets([bucket["excess"] for bucket in one["buckets"]], band=False)
    return report | {"chosen": None, "config": None, "verified": None, "readers": None}


def quick(names: tuple[str, str] = ("linear", "yarn")) -> dict[str, Any]:
    """A screening: the probe and no full pass."""
    report = made(names)
    nothing = {
        "buckets": [],
        "holds_to": None,
        "reads_to": None,
        "usable_length": None,
        "reading": [],
        "short_cost": None,
    }
    for one in report["methods"]:
        one |= nothing
        del one["retrieval"]
    parts = [{"end": end, "nll": 2.5 + end / 1000, "windowed": 2.5} for end in (208, 256)]
    probed = [
        {
            "method": name,
            "parts": parts,
            "excess": 0.232,
            "excess_stderr": 0.0171,
            "short_cost": 0.0234,
            "short_cost_stderr": 0.001,
            "behind_best": {"value": 0.5 - n / 2, "stderr": 0.01},
            "rank": 2 - n,
        }
        for n, name in enumerate(names)
    ]
    probe = {"protocol": {"length": 256, "end": 64}, "methods": probed}
    nothing = {"config": None, "verified": None, "readers": None}
    confirm = "ropewalk extend MODEL --to 256 --out DIR"
    return report | nothing | {"chosen": names[1], "quick": True, "probe": probe, "confirm": confirm}
