"""All runs of a comparison, side by side in processes of their own, each kept as it ends."""

import json
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any
from urllib.parse import quote

import torch
from safetensors.torch import save_model

from ropewalk._errors import RopewalkError
from ropewalk._files import alone, replace_text
from ropewalk.compare.claims import claims
from ropewalk.compare.contestants import code_digest, contestant
from ropewalk.compare.protocol import Protocol
from ropewalk.compare.result import comparison
from ropewalk.compare.scalings import score_scalings
from ropewalk.compare.scoring import score, used_frequencies
from ropewalk.compare.text import Text
from ropewalk.compare.timing import tokens_per_second
from ropewalk.compare.training import train, untrained

SCALED = "rope"  # whose trained weights the scalings are tried on
Ended = Callable[[str, int, int], None]  # the run's name, runs that have ended, runs in all


def compare(
    protocol: Protocol,
    text: Text,
    names: Sequence[str],
    seeds: Sequence[int],
    out: Path,
    *,
    jobs: int | None = None,
    resume: bool = False,
    ended: Ended = lambda name, done, total: None,
) -> dict[str, Any]:
    """Train and measure each encoding with each seed, and put the runs together.

    Args:
        protocol: what all share.
        text: to learn from and to be measured on.
        names: keys of `CONTESTANTS`, or "module:Class" of an `Encoding` of your own.
        seeds: one run each; intervals need two.
        out: a folder that keeps every run as it ends, in `runs/`.
        jobs: processes; as many as cores where left out. Each computes with one thread.
        resume: go on with what `out` holds.
        ended: told of each run that has ended.

    Returns:
        The content of comparison.json, but for versions.

    Raises:
        RopewalkError: an unknown encoding, a folder of another protocol or text, a run that failed.
    """
    for name in names:
        untrained(contestant(name), protocol, 0)
    folder = _opened(out, protocol, text, names, resume)
    with alone(folder, f"{out}: another comparison"):
        return _all_runs(folder, protocol, text, names, seeds, jobs, ended)


def _all_runs(
    folder: Path,
    protocol: Protocol,
    text: Text,
    names: Sequence[str],
    seeds: Sequence[int],
    jobs: int | None,
    ended: Ended,
) -> dict[str, Any]:
    """Those that the folder does not hold, then the clock, then all of it together."""
    wanted = {_file(folder, name, seed): (name, seed) for seed in seeds for name in dict.fromkeys(names)}
    missing = {path: run for path, run in wanted.items() if not path.is_file()}
    _work_off(missing, protocol, text, jobs or os.cpu_count() or 1, ended, len(wanted))
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in wanted]
    with _processes(1) as pool:
        speeds = pool.submit(tokens_per_second, list(dict.fromkeys(names)), protocol, text.train).result()
    return comparison(protocol, text.to_dict(), runs, speeds, claims())


def one_run(name: str, seed: int, protocol: Protocol, text: Text, weights: Path) -> dict[str, Any]:
    """Train one encoding with one seed and measure it: the content of a file in `runs/`, its weights beside it."""
    torch.set_num_threads(1)
    chosen, started = contestant(name), time.monotonic()
    trained = train(chosen, protocol, text.train, seed)
    parameters, plain = (_parameters(model) for model in (trained.model, untrained(contestant("none"), protocol, seed)))
    save_model(trained.model, str(weights))
    found = {
        "name": name, "seed": seed, "parameters_added": parameters - plain,
        "peak_memory_mb": trained.peak_memory_mb,
        **score(trained.model, protocol, text.held_out),
    }  # fmt: skip
    if name == SCALED:
        found["scalings"] = score_scalings(trained.model, protocol, text.held_out)
        found["frequencies"] = used_frequencies(trained.model, protocol, text.held_out)
    return {**found, "seconds": time.monotonic() - started}


def _parameters(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _opened(out: Path, protocol: Protocol, text: Text, names: Sequence[str], resume: bool) -> Path:
    """The folder of runs, new or of the same protocol, text and code of people's own encodings."""
    own = {name: code_digest(name) for name in names if ":" in name}
    stated, path = {"protocol": protocol.to_dict(), "text": text.digest, "own": own}, out / "protocol.json"
    if path.is_file():
        if not resume:
            raise RopewalkError(f"{out} holds a comparison; add --resume to go on with it, or give a new folder")
        held = json.loads(path.read_text(encoding="utf-8"))
        if difference := _difference(held, stated):
            raise RopewalkError(f"{out} holds runs of another {difference}; give a new folder")
        stated["own"] = {**held["own"], **own}
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RopewalkError(f"{out} is no folder of a comparison, and is not empty; give a new one")
    (out / "runs").mkdir(parents=True, exist_ok=True)
    replace_text(path, json.dumps(stated, indent=2))
    return out / "runs"


def _difference(held: dict[str, Any], stated: dict[str, Any]) -> str | None:
    if held.get("text") != stated["text"]:
        return "text"
    if held.get("protocol") != stated["protocol"]:
        names = [key for key, value in stated["protocol"].items() if held.get("protocol", {}).get(key) != value]
        return f"protocol ({', '.join(names)})"
    changed = [name for name, digest in stated["own"].items() if held["own"].get(name, digest) != digest]
    return f"{changed[0]}, whose file has changed" if changed else None


def _file(folder: Path, name: str, seed: int) -> Path:
    """Two names never share a file."""
    return folder / f"{quote(name, safe='')}-{seed}.json"


def _work_off(
    missing: dict[Path, tuple[str, int]], protocol: Protocol, text: Text, jobs: int, ended: Ended, total: int
) -> None:
    """Each run in a fresh process, so that one's memory and threads are not another's."""
    pool = _processes(min(jobs, max(1, len(missing))))
    futures = {
        pool.submit(one_run, name, seed, protocol, text, path.with_suffix(".safetensors")): path
        for path, (name, seed) in missing.items()
    }
    done = total - len(missing)
    try:
        for future in as_completed(futures):
            path, done = futures[future], done + 1
            replace_text(path, json.dumps(_result(future, missing[path][0])))
            ended(missing[path][0], done, total)
    except BaseException:
        for process in list((pool._processes or {}).values()):  # else they would train on to their end
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _processes(workers: int) -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(workers, mp_context=context, max_tasks_per_child=1, initializer=_end_with_parent)


def _end_with_parent() -> None:
    """A process whose parent was killed would else train on for nobody."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: multiprocessing.process.BaseProcess) -> None:
    parent.join()
    os._exit(1)


def _result(future: Future[dict[str, Any]], name: str) -> dict[str, Any]:
    try:
        return future.result()
    except RopewalkError:
        raise
    except Exception as error:
        raise RopewalkError(f"compare: the run of {name!r} failed: {type(error).__name__}: {error}") from error
