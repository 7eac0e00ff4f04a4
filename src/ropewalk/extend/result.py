"""report.json: the whole of what was planned, measured and written, as plain JSON."""

import math
import platform
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import torch

import ropewalk
from ropewalk.checkpoints.readers import readers
from ropewalk.checkpoints.spec import position_keys
from ropewalk.extend.choose import eligible, usable_length
from ropewalk.extend.measuring import Measured, Measurement
from ropewalk.extend.plan import Plan
from ropewalk.measure.reading import GAIN, SKIPPED, STRING, reads_to
from ropewalk.measure.verdict import RESAMPLES, resampling_unit

SCHEMA_VERSION = 1


def method_result(plan: Plan, measurement: Measurement, measured: Measured) -> dict[str, Any]:
    """One method, as `measure --json` prints it and `extend` lists it."""
    verdict = measured.verdict
    scaling = plan.scalings.get(measured.method)
    bands = zip(verdict.excess.tolist(), verdict.excess_low.tolist(), verdict.excess_high.tolist(), strict=True)
    buckets = [
        {**bucket, "excess": excess, "low": low, "high": high}
        for bucket, (excess, low, high) in zip(measured.curve.buckets(), bands, strict=True)
    ]
    crop = measured.method == "crop"
    return {
        "method": measured.method,
        "scaling": None if scaling is None else {"name": type(scaling).__name__, **vars(scaling)},
        "inv_freq": None if scaling is None else plan.at_target(scaling).inv_freq.tolist(),
        "buckets": buckets,
        "holds_to": None if crop else {"value": verdict.holds_to, "low": verdict.low, "high": verdict.high},
        "reads_to": reads_to(list(measured.readings)) if measurement.native_reads and not crop else None,
        "reading": [asdict(reading) for reading in measured.readings],
        "usable_length": None if crop else usable_length(measured, measurement),
        "short_cost": verdict.short_cost,
        "can_be_chosen": eligible(plan, measured),
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


def report_json(
    plan: Plan, measurement: Measurement, chosen: Measured | None, verified: dict[str, Any] | None, seconds: float
) -> dict[str, Any]:
    """The content of report.json."""
    scaling = plan.scalings[chosen.method] if chosen else None
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
        "protocol": protocol(plan, measurement),
        "methods": [method_result(plan, measurement, measured) for measured in measurement.methods],
        "chosen": chosen.method if chosen else None,
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
