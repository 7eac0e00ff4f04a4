"""One call of attention, checked: what every backend is given."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ropewalk._checks import number
from ropewalk._errors import RopewalkError
from ropewalk.attention.sight import Sight
from ropewalk.modules.encoding import Encoding


@dataclass(frozen=True)
class Job:
    """q [B, H, T, D], k and v [B, K, S, D], rotated, and all that decides their weights."""

    q: Tensor
    k: Tensor
    v: Tensor
    sight: Sight
    encoding: Encoding
    scale: float
    softcap: float | None = None
    sinks: Tensor | None = None
    dropout_p: float = 0.0

    @property
    def bias_learns(self) -> bool:
        """Whether a gradient has to reach the bias door's parameters."""
        learns = torch.is_grad_enabled() and any(parameter.requires_grad for parameter in self.encoding.parameters())
        return "bias" in self.encoding.doors and learns

    def block(self, rows: slice) -> "Job":
        """The same for some of the queries, and the keys that these can see."""
        columns = self.sight.columns(rows)
        return replace(
            self,
            q=self.q[:, :, rows],
            k=self.k[:, :, columns],
            v=self.v[:, :, columns],
            sight=self.sight.block(rows, columns),
        )

    def bias(self) -> Tensor | None:
        """The encoding's bias, [1 or B, 1 or H, T, S]."""
        bias = self.encoding.bias(self.sight.q_positions, self.sight.k_positions)
        return None if bias is None else self.checked(bias)

    def checked(self, bias: Tensor) -> Tensor:
        """An encoding's bias with all four axes, where it fits the heads."""
        if bias.dim() not in (3, 4) or bias.shape[-3] not in (1, self.q.shape[1]):
            raise RopewalkError(
                f"attend: {type(self.encoding).__name__} gave a bias of shape {tuple(bias.shape)} for "
                f"{self.q.shape[1]} heads; give [heads, queries, keys] or [batch, heads, queries, keys]"
            )
        return bias if bias.dim() == 4 else bias[None]


def check_tensors(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Shapes that fit together: [B, H, T, D] with [B, K, S, D] and [B, K, S, any], K a divisor of H."""
    fits = q.dim() == k.dim() == v.dim() == 4 and q.shape[0] == k.shape[0] and k.shape[:3] == v.shape[:3]
    if not fits or q.shape[-1] != k.shape[-1] or k.shape[1] == 0 or q.shape[1] % k.shape[1]:
        raise RopewalkError(
            f"attend: q {tuple(q.shape)}, k {tuple(k.shape)} and v {tuple(v.shape)} do not fit; give [batch, heads, "
            "queries, width], [batch, kv heads, keys, width] and the same for v, heads a multiple of kv heads"
        )
    if not q.dtype == k.dtype == v.dtype or not q.is_floating_point():
        raise RopewalkError(f"attend: q, k and v are {q.dtype}, {k.dtype} and {v.dtype}; give one floating-point dtype")


def check_options(q: Tensor, scale: float, softcap: float | None, sinks: Tensor | None, dropout_p: float) -> None:
    """A plain number of a scale, a softcap above 0, sinks [H], a share of weights to drop below 1."""
    number("attend", "scale", scale, least=-math.inf)
    if softcap is not None:
        number("attend", "softcap", softcap, least=0, above=True)
    if sinks is not None and sinks.shape != (q.shape[1],):
        raise RopewalkError(f"attend: sinks of shape {tuple(sinks.shape)}; give one a head, [{q.shape[1]}]")
    if number("attend", "dropout_p", dropout_p, least=0) >= 1:
        raise RopewalkError(f"attend: dropout_p={dropout_p!r} is not a share below 1")
