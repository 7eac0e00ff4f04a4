"""Methods that change where far tokens stand and no frequency: measured beside the others, and stated by no config."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ropewalk.modules.remapped import DualChunk, Remapped, SelfExtend
from ropewalk.modules.rotary import Rotary
from ropewalk.scaling import Scaling


@dataclass(frozen=True)
class Remapping:
    """Other positions for far tokens.

    Attributes:
        kind, options: the encoding, and its arguments beside the model's own.
        scaling: what is done to frequencies besides; None leaves them as they are.
    """

    kind: type[SelfExtend] | type[DualChunk]
    options: dict[str, int]
    scaling: Scaling | None = None
    depends_on_length = False

    def encoding(self, rope: Rotary) -> Remapped:
        """Around a model's own rotation."""
        return self.kind(rope, **self.options)


Method = Scaling | Remapping


def self_extend(factor: float, native: int) -> Remapping:
    """A window of a quarter of the native length, and groups by which the target comes to two thirds of it.

    Source: Jin et al. 2024 (arXiv 2401.01325): 1024 of 4096 in their code, and 1/2 to 2/3 by their advice.
    """
    window, target = max(1, native // 4), round(factor * native)
    return Remapping(SelfExtend, {"group": -(-3 * (target - window) // (2 * native - 3 * window)), "window": window})


def dual_chunk(factor: float, native: int) -> Remapping:
    """Source: An et al. 2024 (arXiv 2402.17463), whose code takes 3/4 and 1/16 of the native length."""
    return Remapping(DualChunk, {"chunk_size": max(1, native * 3 // 4), "local_size": native // 16})


REMAPPINGS: dict[str, Callable[[float, int], Remapping]] = {"self-extend": self_extend, "dual-chunk": dual_chunk}


def stated(method: Method) -> dict[str, Any]:
    """A method by its name and parameters; a scaling inside it likewise."""
    if isinstance(method, Remapping):
        scaling = {} if method.scaling is None else {"scaling": stated(method.scaling)}
        return {"name": method.kind.__name__, **method.options, **scaling}
    own = {key: stated(value) if isinstance(value, Scaling) else value for key, value in vars(method).items()}
    return {"name": type(method).__name__, **own}
