"""The rotary encoding as a module."""

import torch
from torch import Tensor

from ropewalk import positions as _positions
from ropewalk._checks import one_of, whole
from ropewalk._errors import RopewalkError
from ropewalk.functional.rotary import LAYOUTS, check_positions, inv_freq
from ropewalk.kernels import rotate, tables
from ropewalk.kernels.rotate import Tables
from ropewalk.modules.cached_keys import CachedKeys
from ropewalk.scaling import Scaled, Scaling

NUMERICS = {"float64": torch.float64, "float32": torch.float32}
BLOCKS = ("leading", "trailing")


class Rotary(CachedKeys):
    """Rotary position embedding: q, k -> R(position) q, R(position) k.

    Stateless: the output depends on the arguments alone. The frequencies are no buffer, so neither
    `.to(bfloat16)` nor the meta device nor a state_dict touches them.

    Args:
        head_dim: D, the width of a head.
        base: the base of the frequencies (Hugging Face: `rope_theta`).
        rotary_dim: R, how many features rotate; even, at most `head_dim`, which is the default. Its frequencies are
            those of a head of R features; `scaling=Proportional(fraction)` is the other convention, which keeps
            the full head's and stops the slow ones.
        layout: "half" (Llama, NeoX) or "interleaved" (GPT-J).
        scaling: a context-extension method, such as `YaRN(factor=4.0, original_length=4096)`.
        block: which R features rotate, the "leading" or the "trailing" ones (DeepSeek's).
        reverse: turn by -angle (nanochat): a score sees i - j where the plain rotation sees j - i, so weights trained
            one way are wrong the other way.
        numerics: "float64" is exact to float32 rounding at any position; "float32" gives transformers' bits.

    Raises:
        RopewalkError: an odd or too large rotary_dim, an unknown layout, block or numerics.

    Example:
        >>> rope = Rotary(head_dim=64, base=500_000.0)
        >>> q, k = torch.ones(1, 8, 10, 64), torch.ones(1, 2, 10, 64)
        >>> q, k = rope(q, k)
        >>> q.shape, k.shape
        (torch.Size([1, 8, 10, 64]), torch.Size([1, 2, 10, 64]))

    Source: Su et al. 2021 (arXiv 2104.09864).
    """

    def __init__(
        self,
        head_dim: int,
        *,
        base: float = 10000.0,
        rotary_dim: int | None = None,
        layout: str = "half",
        scaling: Scaling | None = None,
        block: str = "leading",
        reverse: bool = False,
        numerics: str = "float64",
    ) -> None:
        super().__init__()
        self.head_dim = whole("Rotary", "head_dim", head_dim, least=2)
        self.rotary_dim = self.head_dim if rotary_dim is None else whole("Rotary", "rotary_dim", rotary_dim, least=2)
        if self.rotary_dim > self.head_dim:
            raise RopewalkError(f"Rotary: rotary_dim={rotary_dim} is wider than the head, head_dim={head_dim}")
        self.layout = one_of("Rotary", "layout", layout, LAYOUTS)
        self.block = one_of("Rotary", "block", block, BLOCKS)
        self._first = 0 if block == "leading" else self.head_dim - self.rotary_dim
        self.reverse = reverse
        self.numerics = one_of("Rotary", "numerics", numerics, tuple(NUMERICS))
        if scaling is not None and not isinstance(scaling, Scaling):
            raise RopewalkError(
                f"Rotary: scaling={scaling!r} is no scaling; give an object such as YaRN(factor=4.0, ...)"
            )
        self.base, self.scaling = base, scaling
        self._unscaled = inv_freq(self.rotary_dim, base, dtype=NUMERICS[numerics])
        self._native = self.frequencies(None)

    @property
    def inv_freq(self) -> Tensor:
        """[P] at the native length, on the CPU: float64, or float32 under numerics="float32"."""
        return self._native.inv_freq

    @property
    def attention_factor(self) -> float:
        """What multiplies cos and sin, at the native length."""
        return self._native.attention_factor

    def frequencies(self, length: int | Tensor | None) -> Scaled:
        """The frequencies for a sequence of `length` tokens; a tensor of lengths [B] gives [B, P]."""
        if self.scaling is None:
            return Scaled(self._unscaled, 1.0)
        return self.scaling.apply(self._unscaled, base=self.base, length=length)

    def tables(self, positions: Tensor, length: int | Tensor | None = None) -> tuple[Tensor, Tensor]:
        """cos, sin for integer positions [T] or [B, T]: float32 [..., T, P], attention_factor inside.

        Args:
            positions: where the tokens stand.
            length: for length-dependent scalings, tokens in the whole sequence, or [B]; left out, it is each
                row's largest position + 1. Who decodes with a cache passes it. Static scalings ignore it.
        """
        check_positions(positions)
        scaled = self._native
        if self.scaling is not None and self.scaling.depends_on_length and not positions.is_meta:
            scaled = self.frequencies(_lengths(positions) if length is None else length)
        return self._tables(positions, scaled)

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        length: int | Tensor | None = None,
        *,
        q_positions: Tensor | None = None,
        k_positions: Tensor | None = None,
        tables: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Rotate q [B, H, T, D] and k [B, K, S, D].

        Args:
            q, k: un-rotated; K key heads may be fewer than H.
            positions: of both, [T] or [B, T]; left out, 0 .. T-1.
            length: see `tables`.
            q_positions, k_positions: given together in place of `positions` where the two differ.
            tables: the result of `tables(...)`, in place of any positions: made once, shared by all layers.

        Returns:
            q and k, in their own dtypes.
        """
        given = [positions is not None, tables is not None, q_positions is not None or k_positions is not None]
        if sum(given) > 1 or (q_positions is None) != (k_positions is None):
            raise RopewalkError("Rotary: give positions, or tables, or q_positions together with k_positions")
        if q_positions is not None and k_positions is not None:
            return self.rotate(q, k, q_positions, k_positions, length)
        if tables is None:
            where = _positions.arange(q.shape[-2], device=q.device) if positions is None else positions
            tables = self.tables(where, length)
        return self._turn(q, k, tables, tables)

    def rotate(
        self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor, length: int | Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """q and k turned, each by its own positions; `length` left out is the largest position of both + 1."""
        if q_positions is k_positions:
            return self.forward(q, k, q_positions, length)
        if length is None:  # one sequence has one length, however it is cut into queries and keys
            length = torch.maximum(_lengths(q_positions), _lengths(k_positions))
        return self._turn(q, k, self.tables(q_positions, length), self.tables(k_positions, length))

    def _tables(self, positions: Tensor, scaled: Scaled) -> Tables:
        cos, sin = tables(positions, scaled.inv_freq, scaled.attention_factor)
        return cos, -sin if self.reverse else sin

    def _turn(self, q: Tensor, k: Tensor, q_tables: Tables, k_tables: Tables) -> tuple[Tensor, Tensor]:
        for x, (cos, _) in ((q, q_tables), (k, k_tables)):
            if x.shape[-1] != self.head_dim:
                raise RopewalkError(
                    f"Rotary: a head of width {x.shape[-1]} was given to an encoding of {self.head_dim}"
                )
            if 2 * cos.shape[-1] != self.rotary_dim:
                raise RopewalkError(f"Rotary: tables of {cos.shape[-1]} pairs, not {self.rotary_dim // 2}")
        return rotate(q, k, q_tables, k_tables, layout=self.layout, first=self._first)

    def extra_repr(self) -> str:
        """What `print(model)` shows."""
        width = "" if self.rotary_dim == self.head_dim else f", rotary_dim={self.rotary_dim}, block={self.block!r}"
        turn = ", reverse=True" if self.reverse else ""
        return f"{self.head_dim}, base={self.base:g}{width}, layout={self.layout!r}{turn}, scaling={self.scaling}"


def _lengths(positions: Tensor) -> Tensor:
    """Each row's largest position + 1: [] for [T], [B] for [B, T]."""
    positions = positions.long()  # the largest of a small dtype, and one more, has no place in it
    return positions.amax(-1) + 1 if positions.shape[-1] else positions.new_zeros(positions.shape[:-1])
