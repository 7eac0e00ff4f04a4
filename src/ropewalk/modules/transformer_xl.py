"""Relative position encoding of Transformer-XL."""

import torch
from torch import Tensor, nn

from ropewalk._checks import whole
from ropewalk._errors import RopewalkError
from ropewalk.functional.rotary import check_positions, cos_sin, full_precision
from ropewalk.functional.sinusoidal import sinusoidal_frequencies
from ropewalk.modules.encoding import Encoding, check_heads, float32


class TransformerXL(Encoding):
    """The sinusoid of the distance, projected for each head, meets the content of the query.

    logit = ((q_i + u) . k_j + (q_i + v) . W r(i - j)) / sqrt(D), r(n) = [sin(n w_0) .. | cos(n w_0) ..] of width `dim`.

    The original shares u and v among layers and has a W in each; an object is one layer's, and layers that are given
    the same object share all three. Where keys ahead are seen, their distances are negative, as in XLNet.

    Args:
        head_dim: D.
        heads: H.
        dim: width of the sinusoid, even; that of the model, head_dim x heads, where left out.

    Attributes:
        content_bias, distance_bias: u and v, [H, D] (`r_w_bias` and `r_r_bias` in the original's code).
        weight: W of all heads, [H x D, dim], the layout of the original's `r_net.weight`. All start at N(0, 0.02).

    Raises:
        RopewalkError: a width or number of heads that is no whole number above 0, an odd `dim`.

    Example:
        >>> TransformerXL(64, heads=8).weight.shape
        torch.Size([512, 512])

    Source: Dai et al. 2019 (arXiv 1901.02860), section 3.3. They shift rows of a table of distances into place, which
    asks for neighbouring positions. Here no distance is tabled: the sinusoid of a difference is a rotation, so that
    W^T (q_i + v), turned by i, meets the sinusoid of j. Positions may be any, at a cost of T + S sinusoids.
    """

    def __init__(self, head_dim: int, heads: int, dim: int | None = None) -> None:
        super().__init__()
        self.head_dim = whole("TransformerXL", "head_dim", head_dim, least=1)
        self.heads = whole("TransformerXL", "heads", heads, least=1)
        self.dim = self.head_dim * self.heads if dim is None else whole("TransformerXL", "dim", dim, least=2)
        if self.dim % 2:
            raise RopewalkError(f"TransformerXL: dim={self.dim} is odd; give an even one: a sine has its cosine")
        self.content_bias = nn.Parameter(torch.empty(self.heads, self.head_dim))
        self.distance_bias = nn.Parameter(torch.empty(self.heads, self.head_dim))
        self.weight = nn.Parameter(torch.empty(self.heads * self.head_dim, self.dim))
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.02)

    def relation(
        self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor, visible: Tensor | None = None
    ) -> Tensor:
        """u . k and (q + v) . W r."""
        check_heads(self, q, self.head_dim, self.heads)
        check_positions(q_positions)
        check_positions(k_positions)
        learned = self.content_bias, self.distance_bias, self.weight
        u, v, weight = (float32(parameter, q.device).to(q.dtype) for parameter in learned)
        # Counted from the first key, so that nothing depends on where all of them stand. No key, no matter.
        origin = k_positions.long()[..., :1].sum(-1, keepdim=True)
        (q_cos, q_sin), (k_cos, k_sin) = (self._tables(p.long() - origin, q.dtype) for p in (q_positions, k_positions))
        with full_precision(q):
            sines, cosines = ((q + v[:, None]) @ weight.unflatten(0, (self.heads, -1))).chunk(2, dim=-1)
            turned = torch.cat((sines * q_sin + cosines * q_cos, cosines * q_sin - sines * q_cos), dim=-1)
            return (k @ u[..., None]).mT + turned @ torch.cat((k_cos, k_sin), dim=-1).mT

    def _tables(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Cosines and sines, [T, dim / 2] or [B, 1, T, dim / 2]."""
        cos, sin = cos_sin(positions, sinusoidal_frequencies(self.dim), dtype=dtype)
        return (cos, sin) if positions.dim() == 1 else (cos[:, None], sin[:, None])

    def extra_repr(self) -> str:
        """What `print(model)` shows."""
        return f"{self.head_dim}, heads={self.heads}, dim={self.dim}"
