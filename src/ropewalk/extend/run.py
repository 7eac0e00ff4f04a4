"""`extend`: from a plan to a folder that holds a checkpoint and its report."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ropewalk._errors import RopewalkError
from ropewalk.checkpoints.load import Checkpoint
from ropewalk.checkpoints.readers import writable
from ropewalk.checkpoints.verify import verify
from ropewalk.checkpoints.write import whole_folder, write_checkpoint, write_json
from ropewalk.extend.choose import choose
from ropewalk.extend.measuring import Progress, measure, prepare
from ropewalk.extend.methods import DEFAULT
from ropewalk.extend.plan import Plan
from ropewalk.extend.result import report_json
from ropewalk.report.html import write_report


@dataclass(frozen=True)
class Watch:
    """Callbacks for whoever watches: `stage` names what begins, `progress` counts tokens towards `begin`'s."""

    stage: Callable[[str], None] = lambda text: None
    begin: Callable[[int], None] = lambda documents: None
    progress: Progress = lambda method, tokens: None


def extend(plan: Plan, out: Path, *, watch: Watch = Watch()) -> dict[str, Any]:
    """Measure every method, choose, write the checkpoint to `out`, reload and verify it, and report.

    `out` appears when all of it is there. Where no method may be chosen it holds the report alone, and
    "chosen" is None.

    Raises:
        RopewalkError: bad input, before anything is written.
        VerificationError: the written checkpoint does not load as planned; nothing is left behind.
    """
    started = time.monotonic()
    if not any(writable(scaling) for scaling in plan.scalings.values()):
        named = ", ".join(map(repr, plan.scalings)) or "nothing"
        raise RopewalkError(f"no method to choose from: {named} cannot be written; give one of {', '.join(DEFAULT)}")
    with whole_folder(out) as folder:
        watch.stage("loading the model")
        documents, checkpoint = prepare(plan)
        watch.begin(len(documents))
        measurement = measure(plan, documents, checkpoint, watch.progress)
        chosen, verified = choose(plan, measurement), None
        if chosen is not None:
            watch.stage(f"writing and verifying {chosen.method}")
            verified = _write(plan, checkpoint, chosen.method, folder)
        report = report_json(plan, measurement, chosen, verified, time.monotonic() - started)
        write_json(folder / "report.json", report)
        write_report(report, folder / "report.html")
    return report


def _write(plan: Plan, checkpoint: Checkpoint, method: str, folder: Path) -> dict[str, Any]:
    planned = plan.spec.extended(plan.scalings[method], plan.target)
    write_checkpoint(checkpoint, planned, folder)
    return verify(folder, checkpoint, planned)
