"""The encodings that are compared: the library's by name, and anybody's as module:Class."""

import hashlib
import importlib
import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ropewalk._errors import RopewalkError
from ropewalk.compare.protocol import Protocol
from ropewalk.modules import (
    ALiBi,
    CoPE,
    Encoding,
    Fire,
    Kerple,
    Learned,
    NoPE,
    Rotary,
    Sandwich,
    Shaw,
    Sinusoidal,
    T5Bias,
    TransformerXL,
    XPos,
)
from ropewalk.scaling import Proportional


@dataclass(frozen=True)
class Contestant:
    """How an encoding joins: `build` makes it for a protocol, `window` is the share of the training length seen."""

    build: Callable[[Protocol], Encoding]
    window: float | None = None


# Distances that are told apart scale with the training length as in the papers' models: T5 512 to 128, Shaw 64 to 16;
# T5's is twice that, since below 16 all of its buckets are exact. CoPE counts as far as Shaw tells apart. xPos has 512
# for 1,024.
CONTESTANTS: dict[str, Contestant] = {
    "none": Contestant(lambda p: NoPE()),
    "sinusoidal": Contestant(lambda p: Sinusoidal(p.dim)),
    "learned": Contestant(lambda p: Learned(p.longest, p.dim)),  # rows past the training length stay as they start
    "shaw": Contestant(lambda p: Shaw(p.head_dim, max_distance=p.length // 4)),
    "transformer-xl": Contestant(lambda p: TransformerXL(p.head_dim, p.heads, p.dim)),
    "cope": Contestant(lambda p: CoPE(p.head_dim, max_position=p.length // 4)),
    "t5": Contestant(lambda p: T5Bias(p.heads, max_distance=max(17, p.length // 2))),
    "alibi": Contestant(lambda p: ALiBi(p.heads)),
    "kerple": Contestant(lambda p: Kerple(p.heads)),
    "sandwich": Contestant(lambda p: Sandwich(p.heads)),
    "fire": Contestant(lambda p: Fire(p.heads, threshold=float(p.length))),
    "rope": Contestant(lambda p: Rotary(p.head_dim)),
    "rope-partial": Contestant(lambda p: Rotary(p.head_dim, rotary_dim=max(2, p.head_dim // 8 * 2))),
    "rope-proportional": Contestant(lambda p: Rotary(p.head_dim, scaling=Proportional(0.75))),
    "rope-window": Contestant(lambda p: Rotary(p.head_dim), window=0.5),
    "xpos": Contestant(lambda p: XPos(p.head_dim, scale_base=p.length / 2)),
}
QUICK = ("none", "sinusoidal", "alibi", "rope")


def contestant(name: str) -> Contestant:
    """The one called `name`, or the class that "module:Class" names.

    A class is called with those of `dim`, `heads`, `head_dim` and `max_length` that it asks for. Modules are looked up
    from the working directory on, as by `python -m`.

    Raises:
        RopewalkError: no such name, module or class, or a class that is no `ropewalk.Encoding`.
    """
    if ":" in name:
        made = _loaded(name)
        return Contestant(lambda protocol: _called(name, made, protocol))
    if name not in CONTESTANTS:
        raise RopewalkError(
            f"compare: unknown encoding {name!r}; known are {', '.join(CONTESTANTS)}, and your own as module:Class"
        )
    return CONTESTANTS[name]


def code_digest(name: str) -> str:
    """Of the file that holds "module:Class": what has to stay as it is for runs to be gone on with."""
    return hashlib.sha256(Path(inspect.getfile(_loaded(name))).read_bytes()).hexdigest()


def _loaded(name: str) -> type[Encoding]:
    module, _, attribute = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        made = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise RopewalkError(f"compare: {name!r} cannot be imported: {error}; give module:Class") from error
    if not (isinstance(made, type) and issubclass(made, Encoding)):
        raise RopewalkError(f"compare: {name!r} is no subclass of ropewalk.Encoding")
    return made


def _called(name: str, made: type[Encoding], protocol: Protocol) -> Encoding:
    offered = {"dim": protocol.dim, "heads": protocol.heads, "head_dim": protocol.head_dim,
               "max_length": protocol.longest}  # fmt: skip
    asked = inspect.signature(made).parameters
    try:
        return made(**{key: value for key, value in offered.items() if key in asked})
    except TypeError as error:
        raise RopewalkError(f"compare: {name!r} takes more than {', '.join(offered)}: {error}") from error
