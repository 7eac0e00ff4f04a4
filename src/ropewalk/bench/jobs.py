"""What is timed: rotations of q and k as prefill, training and decoding call them, and the tables they need."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ropewalk.modules import Rotary


@dataclass(frozen=True)
class Job:
    """One row of the result.

    Attributes:
        name: "prefill", "in place", "train", "train with backward", "decode", "decode of 32", "packed".
        shape: B, H, K, T, D.
        dtype, layout, axes: of q and k; "thd" is one row of packed documents.
        target: the ratio to the limit that is aimed at.
        device: where q and k are.
    """

    name: str
    shape: tuple[int, int, int, int, int]
    dtype: torch.dtype
    layout: str
    axes: str
    target: float
    device: str = "cpu"

    @property
    def differentiates(self) -> bool:
        """Whether the backward pass is timed too; the limit is two copies then."""
        return self.name.endswith("with backward")

    def inputs(self) -> tuple[Tensor, Tensor]:
        """Random q and k, laid out as `axes` names them."""
        batch, heads, kv_heads, tokens, width = self.shape
        random = torch.Generator().manual_seed(0)
        shape: dict[str, Callable[[int], tuple[int, ...]]] = {
            "bhtd": lambda h: (batch, h, tokens, width),
            "bthd": lambda h: (batch, tokens, h, width),
            "thd": lambda h: (tokens, h, width),
        }
        q, k = (
            torch.randn(shape[self.axes](h), generator=random).to(self.device, self.dtype) for h in (heads, kv_heads)
        )
        return q, k

    def by_heads(self, x: Tensor) -> Tensor:
        """q, k or what was made of them as [B, H, T, D]."""
        if self.axes == "thd":
            return x.transpose(0, 1)[None]
        return x if self.axes == "bhtd" else x.transpose(1, 2)

    def documents(self) -> list[tuple[int, int]]:
        """The first position and the number of tokens of each document of a packed row; one document elsewhere."""
        tokens = self.shape[3]
        if self.axes != "thd":
            return [(1000 if tokens == 1 else 0, tokens)]  # decoding, behind a thousand others
        lengths = tokens // 2, tokens // 4, tokens - tokens // 2 - tokens // 4
        return [(1000 * n, length) for n, length in enumerate(lengths)]

    def positions(self) -> Tensor:
        """Where the tokens stand, [T], on the CPU."""
        return torch.cat([torch.arange(length) + first for first, length in self.documents()])

    def tables(self) -> tuple[Tensor, Tensor]:
        """cos and sin, [T, P], on the job's device."""
        cos, sin = self.rotary().tables(self.positions())
        return cos.to(self.device), sin.to(self.device)

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
