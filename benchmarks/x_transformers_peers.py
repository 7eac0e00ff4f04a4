"""x-transformers' rotary and ALiBi as encodings of ours, for `ropewalk compare --encoding`: other people's code."""

from torch import Tensor
from x_transformers.x_transformers import AlibiPositionalBias, RotaryEmbedding, apply_rotary_pos_emb

import ropewalk as rw


class Rotary(rw.Encoding):
    """Its rotary: pairs interleaved."""

    def __init__(self, head_dim: int) -> None:
        super().__init__()
        self.theirs = RotaryEmbedding(head_dim)

    def rotate(
        self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor, length: int | Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """q and k, turned by its code."""
        turned = (apply_rotary_pos_emb(x, self.theirs(at)[0]) for x, at in ((q, q_positions), (k, k_positions)))
        return tuple(turned)


class ALiBi(rw.DistanceBias):
    """Its ALiBi: the slopes of its code, on the distance."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.theirs = AlibiPositionalBias(heads, heads)

    def by_distance(self, relative: Tensor) -> Tensor:
        """Minus slope times distance."""
        return -self.theirs.slopes * relative.abs()[..., None, :, :]
