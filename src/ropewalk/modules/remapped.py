"""Rotary encodings that read far pairs as if they stood nearer: Self-Extend and dual chunk attention."""

from torch import Tensor

from ropewalk._checks import whole
from ropewalk._errors import RopewalkError
from ropewalk.functional.rotary import check_positions, full_precision
from ropewalk.modules.axial import AxialRotary
from ropewalk.modules.encoding import Encoding
from ropewalk.modules.rotary import Rotary


class Remapped(Encoding):
    """A rotary encoding with two maps of positions: their own for near pairs, `moved` for the others.

    A pair turns by the difference of two positions whichever they are, so frequencies and weights stay as they were
    trained. At the rotation all turn by their own positions; where a pair is far, the relation adds what the turn to
    the other positions changes. A subclass gives `near` and `moved`.

    Args:
        rope: the model's own encoding, of one coordinate and of frequencies that do not depend on the length.
    """

    heads_alike = True

    def __init__(self, rope: Rotary) -> None:
        super().__init__()
        owner = type(self).__name__
        if not isinstance(rope, Rotary) or isinstance(rope, AxialRotary):
            raise RopewalkError(
                f"{owner}: rope={rope!r} is no rotary encoding of one coordinate; give one, such as Rotary(64)"
            )
        if rope.scaling is not None and rope.scaling.depends_on_length:
            raise RopewalkError(
                f"{owner}: the frequencies of {rope.scaling} depend on the length, and keys turn from one position to "
                "another under one set of them; give a scaling that does not, or none"
            )
        self.rope = rope

    def near(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        """Which pairs stand where they stand: bool [..., T, S]."""
        raise NotImplementedError

    def moved(self, q_positions: Tensor, k_positions: Tensor) -> tuple[Tensor, Tensor]:
        """Where queries and keys stand to all that are far from them, of the shapes given."""
        raise NotImplementedError

    def rotate(
        self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor, length: int | Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """As `rope` does."""
        return self.rope.rotate(q, k, q_positions, k_positions, length)

    def turned(self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> tuple[Tensor, Tensor]:
        """q [B, H, T, D] and k [B, K, S, D], rotated at their own positions, turned on to where far pairs see them."""
        check_positions(q_positions)
        check_positions(k_positions)
        own = q_positions.long(), k_positions.long()
        q_moved, k_moved = self.moved(*own)
        return self.rope.shift(q, q_moved - own[0]), self.rope.shift(k, k_moved - own[1])

    def relation(
        self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor, visible: Tensor | None = None
    ) -> Tensor:
        """Of far pairs the product of q and k turned on, less that of q and k as they are; 0 of near ones."""
        far_q, far_k = self.turned(q, k, q_positions, k_positions)
        near = self.near(q_positions.long(), k_positions.long())
        with full_precision(q):
            change = far_q @ far_k.mT - q @ k.mT
        return change.masked_fill(near if near.dim() == 2 else near[:, None], 0.0)


class SelfExtend(Remapped):
    """Self-Extend: near pairs as they are, far pairs by the numbers of their groups of tokens.

    With G = group and w = window, a query i and a key j turn by i - j where that is below w, else by
    (floor(i / G) + w - floor(w / G)) - floor(j / G). A model of L tokens reads (L - w) G + w of them so; its authors
    advise to stay within 1/2 to 2/3 of that. The least G for a length is ceil((length - w) / (L - w)).

    A group larger than the text is ReRoPE: all far pairs are at distance w (Su 2023). It is a causal model's method:
    where keys ahead are seen, they stand where they stand.

    Args:
        rope: the model's own encoding.
        group: G, tokens that share a number; 1 is `rope` itself.
        window: w, how near a pair is that turns by its own distance.

    Raises:
        RopewalkError: no `Rotary`, one that depends on the length, a group or window that is no whole number above 0.

    Example:
        >>> import torch
        >>> from ropewalk import Rotary
        >>> where = torch.arange(10)
        >>> [moved.tolist() for moved in SelfExtend(Rotary(64), group=4, window=2).moved(where, where)]
        [[2, 2, 2, 2, 3, 3, 3, 3, 4, 4], [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]]

    Source: Jin et al. 2024 (arXiv 2401.01325), equations 3 and 4. Their code divides w by G without rounding down: the
    same where G divides w.
    """

    def __init__(self, rope: Rotary, *, group: int, window: int) -> None:
        super().__init__(rope)
        self.group = whole("SelfExtend", "group", group, least=1)
        self.window = whole("SelfExtend", "window", window, least=1)

    def near(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        """i - j < w."""
        return q_positions[..., :, None] - k_positions[..., None, :] < self.window

    def moved(self, q_positions: Tensor, k_positions: Tensor) -> tuple[Tensor, Tensor]:
        """The numbers of their groups, those of queries moved on so that the window joins them."""
        groups = (positions.div(self.group, rounding_mode="floor") for positions in (q_positions, k_positions))
        q_groups, k_groups = groups
        return q_groups + self.window - self.window // self.group, k_groups

    def extra_repr(self) -> str:
        """What `print(model)` shows."""
        return f"group={self.group}, window={self.window}"


class DualChunk(Remapped):
    """Dual chunk attention: positions within chunks of a text, so that no pair is farther apart than a chunk.

    With s = chunk_size - local_size, a query i and a key j turn by i - j where they are in one chunk of s tokens, or in
    neighbouring ones and i is at most local_size behind its chunk's first token; else by chunk_size - j mod s. Pairs up
    to local_size apart are therefore read as they are. It is a causal model's method: where keys ahead are seen,
    they stand where they stand.

    Args:
        rope: the model's own encoding.
        chunk_size: the farthest that two tokens stand apart; the authors take 3/4 of the native length.
        local_size: less than half of it; the authors take 1/16 or 1/8 of the native length, by release.

    Raises:
        RopewalkError: no `Rotary`, one that depends on the length, sizes that are no whole numbers or do not fit.

    Example:
        >>> import torch
        >>> from ropewalk import Rotary
        >>> where = torch.arange(10)
        >>> [moved.tolist() for moved in DualChunk(Rotary(64), chunk_size=5, local_size=1).moved(where, where)]
        [[5, 5, 5, 5, 5, 5, 5, 5, 5, 5], [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]]

    Source: An et al. 2024 (arXiv 2402.17463), section 3, as their code and vLLM's have it: far pairs are seen from
    chunk_size, where equations 4 and 6 say chunk_size - 1. Their temperature, cos and sin times 1 + 0.05 ln(factor), is
    a matter of the frequencies, as the factor of `YaRN` is, and here of `rope`.
    """

    def __init__(self, rope: Rotary, *, chunk_size: int, local_size: int) -> None:
        super().__init__(rope)
        self.chunk_size = whole("DualChunk", "chunk_size", chunk_size, least=1)
        self.local_size = whole("DualChunk", "local_size", local_size, least=0)
        if 2 * self.local_size >= self.chunk_size:
            raise RopewalkError(
                f"DualChunk: local_size={local_size} of chunk_size={chunk_size}; give less than half of it"
            )
        self._step = self.chunk_size - self.local_size

    def near(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        """In one chunk, or in neighbouring ones where the query is near its chunk's beginning."""
        chunks = (positions.div(self._step, rounding_mode="floor") for positions in (q_positions, k_positions))
        q_chunk, k_chunk = chunks
        apart = q_chunk[..., :, None] - k_chunk[..., None, :]
        return (apart <= 0) | ((apart == 1) & (q_positions % self._step <= self.local_size)[..., :, None])

    def moved(self, q_positions: Tensor, k_positions: Tensor) -> tuple[Tensor, Tensor]:
        """All queries at chunk_size, keys where they stand in their chunks."""
        return q_positions.new_full(q_positions.shape, self.chunk_size), k_positions % self._step

    def extra_repr(self) -> str:
        """What `print(model)` shows."""
        return f"chunk_size={self.chunk_size}, local_size={self.local_size}"
