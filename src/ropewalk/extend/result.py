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
from ropewalk.checkpoints.recipes import recipes
from ropewalk.checkpoints.spec import position_keys
from ropewalk.extend.choose import allowed, eligible, usable_length
from ropewalk.extend.measuring import Measured, Measurement
from ropewalk.extend.placing import described
from ropewalk.extend.plan import Plan
from ropewalk.extend.remapping import stated
from ropewalk.measure.reading import GAIN, SKIPPED, STRING, reads_to
from ropewalk.measure.retrieval import GAIN as RETRIEVAL_GAIN
from ropewalk.measure.retrieval import finds_to
from ropewalk.measure.verdict import RESAMPLES, resampling_unit, short_cost
from ropewalk.report.quick import not_told_apart

SCHEMA_VERSION = 1


def method_result(plan: Plan, measurement: Measurement, measured: Measured) -> dict[str, Any]:
    """One method, as `measure --json` prints it and `extend` lists it."""
    verdict = measured.verdict
    bands = zip(verdict.excess.tolist(), verdict.excess_low.tolist(), verdict.excess_high.tolist(), strict=True)
    buckets = [
        {**bucket, "excess": excess, "low": low, "high": high}
        for bucket, (excess, low, high) in zip(measured.curve.buckets(), bands, strict=True)
    ]
    crop = measured.method == "crop"
    return {
        **_frequencies(plan, measured.method),
        "buckets": buckets,
        "holds_to": None if crop else {"value": verdict.holds_to, "low": verdict.low, "high": verdict.high},
        "reads_to": reads_to(list(measured.readings)) if measurement.native_reads and not crop else None,
        "reading": [asdict(reading) for reading in measured.readings],
        "finds_to": finds_to(list(measured.retrievals)) if measurement.native_finds and not crop else None,
        "retrieval": [asdict(cell) for cell in measured.retrievals],
        "usable_length": None if crop else usable_length(measured, measurement),
        "short_cost": verdict.short_cost,
        "short_cost_by_length": _by_length(plan, measurement, measured),
        "can_be_chosen": eligible(plan, measured),
    }


def probed_method(plan: Plan, row: dict[str, Any]) -> dict[str, Any]:
    """One method of a probe in the same keys: what takes full passes is null, or empty."""
    return {
        **_frequencies(plan, row["method"]),
        **dict.fromkeys(("holds_to", "reads_to", "finds_to", "usable_length")),
        **{key: [] for key in ("buckets", "reading", "retrieval", "short_cost_by_length")},
        "short_cost": row["short_cost"],
        "can_be_chosen": allowed(plan, row["method"], row["short_cost"]),
    }


def _frequencies(plan: Plan, method: str) -> dict[str, Any]:
    named = plan.methods.get(method)
    return {
        "method": method,
        "scaling": None if named is None else stated(named),
        "attention_factor": None if named is None else plan.at_target(named).attention_factor,
        "inv_freq": None if named is None else plan.at_target(named).inv_freq.tolist(),
    }


def _by_length(plan: Plan, measurement: Measurement, measured: Measured) -> list[dict[str, float | int]]:
    """What texts of an eighth of the native length pay, of a quarter, of half of it and of all."""
    none = next(each for each in measurement.methods if each.method == "none")
    lengths = sorted({max(2, plan.native // share) for share in (8, 4, 2, 1)})
    return [{"length": n, "cost": short_cost(measured.curve, none.curve, n)} for n in lengths]


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
        "retrieval": {
            "prompt": "the published passkey prompt, in running text"
            + ("" if plan.needles == 1 else ", with two named keys a depth, one asked for and one the control"),
            "scored": "teacher-forced; exact is what greedy decoding gives",
            "needles": plan.needles,
            "gain": RETRIEVAL_GAIN,
            "control": "a guess" if plan.needles == 1 else "the other key, for a name that does not occur",
            "measurable": measurement.native_finds,
        },
        "weights_dtype": plan.weights_dtype,
        "device": described(plan.device),
    }


def full_result(plan: Plan, measurement: Measurement) -> dict[str, Any]:
    """What full passes add to report.json."""
    methods = [method_result(plan, measurement, measured) for measured in measurement.methods]
    return {"quick": False, "protocol": protocol(plan, measurement), "methods": methods}


def quick_result(plan: Plan, probe: dict[str, Any], chosen: str | None) -> dict[str, Any]:
    """What a quick run adds to report.json: the probe, and a command for full passes of the chosen and its like."""
    given = [str(plan.model), *(word for text in plan.texts for word in ("--text", str(text)))]
    if plan.model == SHIPPED and plan.texts == tuple(sorted(SHIPPED.glob("heldout-*.txt"))):
        given = []
    if plan.dtype != torch.float32:
        given += ["--dtype", str(plan.dtype).removeprefix("torch.")]
    command = ["ropewalk", "extend", *given, "--to", str(plan.target), "--out", "DIR"]
    open_still = [chosen, *not_told_apart(probe["methods"], chosen)] if chosen else plan.methods
    return {
        "quick": True,
        "protocol": probe["protocol"],
        "methods": [probed_method(plan, row) for row in probe["methods"]],
        "probe": probe,
        "confirm": shlex.join([*command, "--methods", ",".join(open_still)]),
    }


def report_json(
    plan: Plan,
    found: dict[str, Any],
    chosen: str | None,
    verified: dict[str, Any] | None,
    seconds: float,
    memory: dict[str, int],
) -> dict[str, Any]:
    """The content of report.json, of which `full_result` or `quick_result` is a part."""
    scaling = plan.scaling(chosen) if chosen else None
    planned = plan.spec.extended(scaling, plan.target) if scaling else None
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
        "config": position_keys(planned.to_config()) if planned else None,
        "verified": verified,
        "readers": readers(scaling) if scaling else None,
        "recipes": [recipe.to_dict() for recipe in recipes(planned, "DIR")] if planned else [],
        "versions": versions(),
        "seconds": round(seconds, 1),
        "memory": memory,
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
