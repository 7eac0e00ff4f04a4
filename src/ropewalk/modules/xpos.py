"""xPos: a rotation whose scores fade with distance."""

import math

import torch
from torch import Tensor

from ropewalk import positions as _positions
from ropewalk._checks import number, one_of, whole
from ropewalk._errors import RopewalkError
from ropewalk.functional import rotary
from ropewalk.functional.rotary import LAYOUTS, check_positions, full_precision, inv_freq
from ropewalk.kernels import rotate, tables
from ropewalk.kernels.rotate import Tables
from ropewalk.modules.encoding import Encoding

# Half of the span may grow a feature by 2^50, and so a score of the two ends by 2^100 of float32's 2^127. float16 ends
# at 2^16, and it is each feature that has to fit: scores are float32.
GROWTH = {torch.float16: 8}
WIDE_GROWTH = 50


class XPos(Encoding):
    """Rotary with a decay: q, k -> R(i) q zeta^((i - c) / S), R(j) k zeta^((c - j) / S), zeta = (2p / D + 0.4) / 1.4.

    Pair p of a score then has the factor zeta^((i - j) / S): it falls as a key recedes into the past, in fast pairs
    first. It grows as much towards the future, so xPos is for causal attention. The centre c cancels: it is the middle
    of the positions of one call, row by row, and keeps the factors in range. Keys therefore stay un-rotated until
    `rotate` sees them with their queries, as in `attend` and in `models.Cache`; there are no `tables` to share.

    The span, the largest position less the smallest of a row, padding included, is bounded: between its ends the factor
    is 3.5^(span / S), and no float32 holds it for long. At S = 512 that is 28,328 positions, and 4,532 for float16;
    the bound grows with S. Under `torch.compile` nothing is looked at, and scores too far out are NaN.

    Args:
        head_dim: D, the width of a head, even.
        base: the base of the frequencies.
        scale_base: S, how many positions one power of zeta is worth.
        layout: "half", or "interleaved", as in torchscale and x-transformers.

    Raises:
        RopewalkError: an odd width, an unknown layout; when called, a span beyond the bound.

    Example:
        >>> q, k = XPos(64)(torch.ones(1, 8, 10, 64), torch.ones(1, 2, 10, 64))
        >>> q.shape, k.shape
        (torch.Size([1, 8, 10, 64]), torch.Size([1, 2, 10, 64]))

    Source: Sun et al. 2022 (arXiv 2212.10554), algorithm 1; S and the 0.4 are torchscale's. Its centre is half of the
    length; ours is taken from the positions, so that no call depends on another.
    """

    def __init__(
        self, head_dim: int, *, base: float = 10000.0, scale_base: float = 512.0, layout: str = "half"
    ) -> None:
        super().__init__()
        self.head_dim = whole("XPos", "head_dim", head_dim, least=2)
        self.base, self.layout = base, one_of("XPos", "layout", layout, LAYOUTS)
        self.scale_base = number("XPos", "scale_base", scale_base, least=0, above=True)
        self._inv_freq = inv_freq(self.head_dim, base)
        pairs = torch.arange(0, self.head_dim, 2, device="cpu", dtype=torch.float64)
        self._log2_zeta = ((pairs / self.head_dim + 0.4) / 1.4).log2()

    def longest_span(self, dtype: torch.dtype = torch.float32) -> int:
        """How far apart the positions of a row may lie for queries and keys of `dtype`.

        Example:
            >>> XPos(64).longest_span(), XPos(64).longest_span(torch.float16)
            (28328, 4532)
        """
        bits = GROWTH.get(dtype, WIDE_GROWTH)
        return int(2 * self.scale_base * bits * math.log(2) / math.log(3.5))

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        *,
        q_positions: Tensor | None = None,
        k_positions: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Turn q [B, H, T, D] and k [B, K, S, D] at `positions` [T] or [B, T], or each at its own; else at 0 .. T-1."""
        if (q_positions is None) != (k_positions is None) or (positions is not None and q_positions is not None):
            raise RopewalkError("XPos: give positions, or q_positions together with k_positions")
        if q_positions is None or k_positions is None:
            where = _positions.arange(q.shape[-2], device=q.device) if positions is None else positions
            q_positions = k_positions = where
        return self.rotate(q, k, q_positions, k_positions)

    def rotate(
        self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor, length: int | Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """q and k turned and scaled about the middle of both; `length` is not asked."""
        for x, positions in ((q, q_positions), (k, k_positions)):
            check_positions(positions)
            if x.shape[-1] != self.head_dim:
                raise RopewalkError(f"XPos: a head of width {x.shape[-1]} was given to an encoding of {self.head_dim}")
        low, high = _ends(q_positions, k_positions)
        self._check_span(low, high, q.dtype)
        q_tables = self._scaled(q_positions, low + high, 1.0)
        return rotate(q, k, q_tables, self._scaled(k_positions, low + high, -1.0), layout=self.layout)

    def _scaled(self, positions: Tensor, twice_centre: Tensor, sign: float) -> Tables:
        """cos and sin, float32 [..., T, P], times zeta^(sign (position - centre) / S).

        The centre's own power is rounded to one of two for each pair. It cancels all the same, and moves no digit but
        the exponent: scores are the same to the bit whatever the centre, and so however tokens arrive.
        """
        home = positions.device
        if home.type in rotary.WITHOUT_FLOAT64:
            positions, twice_centre = positions.cpu(), twice_centre.cpu()
        bits = self._log2_zeta.to(positions.device) * (sign / self.scale_base)
        with full_precision(positions):
            powers = positions.double()[..., None] * bits
            whole_bits = powers.floor()
            shift = whole_bits - (0.5 * twice_centre.double()[..., None, None] * bits).round()
            factor = (powers - whole_bits).exp2() * shift.exp2()
            cos, sin = tables(positions, self._inv_freq, 1.0)
            return (cos * factor).float().to(home), (sin * factor).float().to(home)

    def _check_span(self, low: Tensor, high: Tensor, dtype: torch.dtype) -> None:
        if torch.compiler.is_compiling() or low.is_meta or not low.numel():
            return  # values cannot be looked at
        span, most = int((high - low).max()), self.longest_span(dtype)
        if span > most:
            raise RopewalkError(
                f"XPos: positions span {span}, and at scale_base={self.scale_base:g} {dtype} holds {most}; cut the "
                "text, or train with a larger scale_base"
            )

    def extra_repr(self) -> str:
        """What `print(model)` shows."""
        return f"{self.head_dim}, base={self.base:g}, scale_base={self.scale_base:g}, layout={self.layout!r}"


def _ends(*positions: Tensor) -> tuple[Tensor, Tensor]:
    """Each row's smallest and largest position, int64: [], or [B] where any are by row."""
    filled = [where.long() for where in positions if where.shape[-1]]
    if not filled:
        none = torch.zeros((), dtype=torch.int64, device=positions[0].device)
        return none, none
    low, high = filled[0].amin(-1), filled[0].amax(-1)
    for where in filled[1:]:
        low, high = torch.minimum(low, where.amin(-1)), torch.maximum(high, where.amax(-1))
    return low, high
