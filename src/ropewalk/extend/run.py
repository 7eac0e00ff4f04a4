"""`extend`: from a plan to a folder that holds a checkpoint and its report."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ropewalk._errors import RopewalkError
from ropewalk.checkpoints.load import Checkpoint
from ropewalk.checkpoints.verify import verify
from ropewalk.checkpoints.write import whole_folder, write_checkpoint, write_json
from ropewalk.extend.choose import choose, writable
from ropewalk.extend.kept import REPORT, Kept, arguments, keeping
from ropewalk.extend.measuring import measure, prepare
from ropewalk.extend.memory import Memory
from ropewalk.extend.methods import DEFAULT
from ropewalk.extend.passes import Passes
from ropewalk.extend.plan import Plan
from ropewalk.extend.probing import probe, probe_result
from ropewalk.extend.progress import Progress
from ropewalk.extend.result import full_result, quick_result, report_json
from ropewalk.extend.world import ALONE, World
from ropewalk.measure.documents import Documents
from ropewalk.report.html import write_report


@dataclass(frozen=True)
class Watch:
    """Callbacks for whoever watches: `stage` names what begins, `progress` is told of every pass, `memory` of what the
    run will need, before it begins."""

    stage: Callable[[str], None] = lambda text: None
    progress: Progress = lambda step: None
    memory: Callable[[Memory], None] = lambda memory: None


def extend(
    plan: Plan, out: Path, *, resume: bool = False, watch: Watch = Watch(), world: World = ALONE
) -> dict[str, Any]:
    """Measure every method, choose, write the checkpoint to `out`, reload and verify it, and report.

    `out` appears when all of it is there. Until then a hidden folder beside it keeps every finished pass through the
    model. Where no method may be chosen `out` holds the report alone, and "chosen" is None. A `quick` plan chooses by
    the probe.

    Args:
        plan: what to measure.
        out: a new folder.
        resume: go on with the passes that a run to `out` had finished when it was stopped; it may have had other
            methods, needles and another tolerance, and must agree in all else.
        watch: told how far it is.
        world: the ranks that share the passes; each of them calls this, and the first writes.

    Returns:
        The content of report.json. With `resume` it is what an unstopped run would have given, and its `seconds`
        count what was taken over.

    Raises:
        RopewalkError: bad input, before anything is written; something to resume, and no `resume`.
        VerificationError: the written checkpoint does not load as planned; it is removed, the passes are kept.
    """
    if not any(map(writable, plan.methods.values())):
        named = ", ".join(map(repr, plan.methods)) or "nothing"
        raise RopewalkError(f"no method to choose from: {named} cannot be written; give one of {', '.join(DEFAULT)}")
    if not world.is_first:
        return _helped(plan, world)
    with keeping(out, arguments(plan), resume=resume) as kept:
        finished = world.of_first(kept.finished(out))
        return finished or world.of_first(_extended(plan, out, kept, watch, world))


def _helped(plan: Plan, world: World) -> dict[str, Any]:
    """What another rank than the first does: its share of the passes."""
    if finished := world.of_first(None):
        return finished
    with Memory.of(plan) as memory:
        documents, checkpoint = prepare(plan)
        (_probed if plan.quick else _measured)(plan, documents, checkpoint, Passes(world=world))
    world.of_all(memory.peak)
    return world.of_first({})


def _extended(plan: Plan, out: Path, kept: Kept, watch: Watch, world: World) -> dict[str, Any]:
    started = time.monotonic()
    with whole_folder(out, kept.folder) as folder:
        memory = Memory.of(plan)
        watch.memory(memory)
        watch.stage("loading the model")
        with memory:
            documents, checkpoint = prepare(plan)
            passes = Passes(kept, watch.progress, world)
            chosen, found = (_probed if plan.quick else _measured)(plan, documents, checkpoint, passes)
            verified = None
            if chosen is not None:
                watch.stage(f"writing and verifying {chosen}")
                verified = _write(plan, checkpoint, chosen, folder)
        peak = max(world.of_all(memory.peak))
        seconds = time.monotonic() - started + passes.taken_over
        report = report_json(plan, found, chosen, verified, seconds, memory.result(peak))
        write_json(folder / REPORT, report)
        write_report(report, folder / "report.html")
        kept.ends_with(folder / REPORT)
    return report


Found = tuple[str | None, dict[str, Any]]  # the method to write, and what the report says of all


def _measured(plan: Plan, documents: Documents, checkpoint: Checkpoint, passes: Passes) -> Found:
    measurement = measure(plan, documents, checkpoint, passes)
    chosen = choose(plan, measurement)
    return chosen.method if chosen else None, full_result(plan, measurement)


def _probed(plan: Plan, passages: Documents, checkpoint: Checkpoint, passes: Passes) -> Found:
    probing = probe(plan, passages, checkpoint, passes)
    chosen = probing.choose(plan)
    return chosen, quick_result(plan, probe_result(plan, probing), chosen)


def _write(plan: Plan, checkpoint: Checkpoint, method: str, folder: Path) -> dict[str, Any]:
    planned = plan.spec.extended(plan.scaling(method), plan.target)
    write_checkpoint(checkpoint, planned, folder)
    return verify(folder, checkpoint, planned)
