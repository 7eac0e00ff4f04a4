"""report.json: the whole of what was planned, measured and written, as plain JSON."""

import math
import platform
import shlex
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import torch

import ropewalk
from ropewalk.checkpoints.load import SHIPPED
from ropewalk.checkpoints.readers import readers
from ropewalk.checkpoints.spec import position_keys
from ropewalk.extend.choose import allowed, eligible, usable_length
from ropewalk.extend.measuring import Measured, Measurement
from ropewalk.extend.plan import Plan
from ropewalk.measure.reading import GAIN, SKIPPED, STRING, reads_to
from ropewalk.measure.verdict import RESAMPLES, resampling_unit

SCHEMA_VERSION = 1


def method_result(plan: Plan, measurement: Measurement, measured: Measured) -> dict[str, Any]:
    """One method, as `measure --json` prints it and `extend` lists it."""
    verdict = measured.verdict
    pairs = zip(measured.curve.buckets(), verdict.excess.tolist(), strict=True)
    buckets = [{**bucket, "excess": excess} for bucket, excess in pairs]
    crop = measured.method == "crop"
    return {
        **_frequencies(plan, measured.method),
        "buckets": buckets,
        "holds_to": None if crop else {"value": verdict.holds_to, "low": verdict.low, "high": verdict.high},
        "reads_to": reads_to(list(measured.readings)) if measurement.native_reads and not crop else None,
        "reading": [asdict(reading) for reading in measured.readings],
        "usable_length": None if crop else usable_length(measured, measurement),
        "short_cost": verdict.short_cost,
        "can_be_chosen": eligible(plan, measured),
    }


def probed_method(plan: Plan, row: dict[str, Any]) -> dict[str, Any]:
    """One method of a probe in the same keys: what takes full passes is null, or empty."""
    unknown: dict[str, Any] = {"buckets": [], "holds_to": None, "reads_to": None, "reading": [], "usable_length": None}
    can_be_chosen = allowed(plan, row["method"], row["short_cost"])
    return {
        **_frequencies(plan, row["method"]),
        **unknown,
        "short_cost": row["short_cost"],
        "can_be_chosen": can_be_chosen,
    }


def _frequencies(plan: Plan, method: str) -> dict[str, Any]:
    scaling = plan.scalings.get(method)
    return {
        "method": method,
        "scaling": None if scaling is None else {"name": type(scaling).__name__, **vars(scaling)},
        "inv_freq": None if scaling is None else plan.at_target(scaling).inv_freq.tolist(),
    }


def protocol(plan: Plan, measurement: Measurement) -> dict[str, Any]:
    """How it was measured: what must be equal for two results to be compared."""
    documents = measurement.documents
    return {
        "documents": len(documents),
        "tokens": documents.tokens.numel(),
        "length": documents.length,
        "sources": list(documents.sources),
        "bucket": plan.edges[1],
        "pass": "one a document for static methods; one a bucket end for length-dependent ones",
        "bos": "none: stretches start in the middle of a text",
        "crop_mean_context": None if math.isnan(measurement.crop_context) else measurement.crop_context,
        "mean": "over tokens",
        "interval": f"95 % bootstrap over {resampling_unit(len(documents), plan.edges[1])}, {RESAMPLES} draws",
        "reading": {
            "strings": f"{STRING} tokens drawn uniformly from those of the documents, the first {SKIPPED} not scored",
            "trials": plan.trials,
            "gain": GAIN,
            "measurable": measurement.native_reads,
        },
        "weights_dtype": "float32",
    }


def full_result(plan: Plan, measurement: Measurement) -> dict[str, Any]:
    """What full passes add to report.json."""
    methods = [method_result(plan, measurement, measured) for measured in measurement.methods]
    return {"quick": False, "protocol": protocol(plan, measurement), "methods": methods}


def quick_result(plan: Plan, probe: dict[str, Any], chosen: str | None) -> dict[str, Any]:
    """What a quick run adds to report.json: the probe, and the command that confirms it."""
    given = [str(plan.model), *(word for text in plan.texts for word in ("--text", str(text)))]
    if plan.model == SHIPPED and plan.texts == tuple(sorted(SHIPPED.glob("heldout-*.txt"))):
        given = []
    command = ["ropewalk", "extend", *given, "--to", str(plan.target), "--out", "DIR"]
    return {
        "quick": True,
        "protocol": probe["protocol"],
        "methods": [probed_method(plan, row) for row in probe["methods"]],
        "probe": probe,
        "confirm": shlex.join([*command, "--methods", chosen or ",".join(plan.scalings)]),
    }


def report_json(
    plan: Plan, found: dict[str, Any], chosen: str | None, verified: dict[str, Any] | None, seconds: float
) -> dict[str, Any]:
    """The content of report.json, of which `full_result` or `quick_result` is a part."""
    scaling = plan.scalings[chosen] if chosen else None
    return {
        "schema_version": SCHEMA_VERSION,
        "model": plan.model.resolve().name,
        "model_type": plan.spec.model_type,
        "base": plan.spec.layers[0].base,
        "inv_freq": plan.spec.layers[0].rotary().inv_freq.tolist(),
        "native_length": plan.native,
        "target_length": plan.target,
        "factor": plan.target / plan.native,
        "tolerance": plan.tolerance,
        **found,
        "chosen": chosen,
        "config": position_keys(plan.spec.extended(scaling, plan.target).to_config()) if scaling else None,
        "verified": verified,
        "readers": readers(scaling) if scaling else None,
        "versions": versions(),
        "seconds": round(seconds, 1),
    }


def versions() -> dict[str, str]:
    """What the numbers were made with, and when."""
    import transformers

    return {
        "ropewalk": ropewalk.__version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
        "date": datetime.now(UTC).date().isoformat(),
    }
