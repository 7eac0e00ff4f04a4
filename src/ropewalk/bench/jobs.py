"""What is timed: rotations of q and k as prefill, training and decoding call them, and the tables they need."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ropewalk.modules import Rotary


@dataclass(frozen=True)
class Job:
    """One row of the result.

    Attributes:
        name: "prefill", "in place", "train", "train with backward", "decode", "decode of 32".
        shape: B, H, K, T, D.
        dtype, layout, axes: of q and k.
        target: the ratio to the limit that is aimed at.
    """

    name: str
    shape: tuple[int, int, int, int, int]
    dtype: torch.dtype
    layout: str
    axes: str
    target: float

    @property
    def differentiates(self) -> bool:
        """Whether the backward pass is timed too; the limit is two copies then."""
        return self.name == "train with backward"

    def inputs(self) -> tuple[Tensor, Tensor]:
        """Random q and k, laid out as `axes` names them."""
        batch, heads, kv_heads, tokens, width = self.shape
        random = torch.Generator().manual_seed(0)
        shapes = [
            (batch, h, tokens, width) if self.axes == "bhtd" else (batch, tokens, h, width) for h in (heads, kv_heads)
        ]
        q, k = (torch.randn(shape, generator=random).to(self.dtype) for shape in shapes)
        return q, k

    def positions(self) -> Tensor:
        """Where the tokens stand; decoding, behind a thousand others."""
        return torch.arange(self.shape[3]) + (1000 if self.shape[3] == 1 else 0)

    def rotary(self) -> Rotary:
        """The encoding that is timed."""
        return Rotary(self.shape[-1], layout=self.layout)

    def describe(self) -> dict[str, object]:
        """As the result holds it."""
        return {
            "job": self.name, "shape": list(self.shape), "dtype": str(self.dtype).removeprefix("torch."),
            "layout": self.layout, "axes": self.axes, "target": self.target,
        }  # fmt: skip


PREFILL, TRAIN, DECODE, MANY = (1, 32, 8, 4096, 128), (8, 16, 16, 1024, 64), (1, 32, 8, 1, 128), (32, 32, 8, 1, 128)
FLOAT, BRAIN = torch.float32, torch.bfloat16


def jobs() -> list[Job]:
    """All of them; the targets are those of an uncontended machine whose memory is the limit."""
    made = []
    for dtype, forward, backward in ((FLOAT, 1.1, 1.1), (BRAIN, 1.3, 1.35)):
        for layout in ("half", "interleaved"):
            made += [Job("prefill", PREFILL, dtype, layout, axes, forward) for axes in ("bhtd", "bthd")]
            made.append(Job("train", TRAIN, dtype, layout, "bhtd", forward))
            made.append(Job("train with backward", TRAIN, dtype, layout, "bhtd", backward))
        made.append(Job("decode", DECODE, dtype, "half", "bhtd", 1.6))
        made.append(Job("decode of 32", MANY, dtype, "half", "bhtd", 1.5))
    return [*made, Job("in place", PREFILL, FLOAT, "half", "bhtd", 1.0)]
