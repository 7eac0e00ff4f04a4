"""Contextual position encoding of Golovneva et al."""

import torch
from torch import Tensor, nn

from ropewalk._checks import whole
from ropewalk.functional.rotary import check_positions, full_precision
from ropewalk.modules.encoding import Encoding, check_heads, float32


class CoPE(Encoding):
    """Positions that count what the query counts: words, sentences, whatever its gates open for.

    logit = q_i . k_j / sqrt(D) + q_i . e(p_ij), p_ij = the sum of gates sigmoid(q_i . k_t / sqrt(D)) of the keys t
    that the query sees, from j up to i, at most max_position - 1; between whole numbers q . e is interpolated.

    Keys are counted by their positions, in whatever order they stand, and those hidden by padding, packing or a window
    do not count. Keys ahead of the query have p = 0 where they are seen: the paper has causal attention alone.

    Args:
        head_dim: D.
        max_position: how many vectors there are, for p of 0 .. max_position - 1.

    Attributes:
        weight: e, [max_position, D], shared by the heads; it starts at 0.

    Raises:
        RopewalkError: a width or number of positions that is no whole number above 0.

    Example:
        >>> CoPE(64, max_position=16).weight.shape
        torch.Size([16, 64])

    Source: Golovneva et al. 2024 (arXiv 2405.18719), equations 3 to 6, with the scales of their listing in appendix B:
    gates see scaled logits, and q . e is added beside them. The relation door is scaled by attention, so it is given
    sqrt(D) q . e, which is that listing where `attend` has its own scale.
    """

    heads_alike = True

    def __init__(self, head_dim: int, max_position: int) -> None:
        super().__init__()
        self.head_dim = whole("CoPE", "head_dim", head_dim, least=1)
        self.max_position = whole("CoPE", "max_position", max_position, least=1)
        self.weight = nn.Parameter(torch.zeros(self.max_position, self.head_dim))

    def relation(
        self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor, visible: Tensor | None = None
    ) -> Tensor:
        """sqrt(D) q . e(p)."""
        check_heads(self, q, self.head_dim)
        counted = self._counts(q, k, q_positions, k_positions, visible).clamp(max=self.max_position - 1)
        weight = float32(self.weight, q.device).to(q.dtype)
        with full_precision(q):
            products = q @ weight.mT * self.head_dim**0.5
        steps = nn.functional.pad(products.diff(dim=-1), (0, 1))  # to the next whole number; none past the last
        below = counted.detach().floor().long()
        return products.gather(-1, below) + (counted - below) * steps.gather(-1, below)

    def _counts(self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor, visible: Tensor | None) -> Tensor:
        """p [B, H, T, S]: gates are summed from the nearest key on, and keys at one position have one p."""
        check_positions(q_positions)
        check_positions(k_positions)
        behind = k_positions.long()[..., None, :] <= q_positions.long()[..., :, None]
        behind = behind[None, None] if behind.dim() == 2 else behind[:, None]
        with full_precision(q):
            gates = torch.sigmoid(q @ k.mT * self.head_dim**-0.5)
        gates = gates * (behind if visible is None else behind & visible)
        back, order = (-k_positions.long()).sort(dim=-1)
        last = torch.searchsorted(back, -k_positions.long(), right=True) - 1  # of those at a key's position
        return _taken(_taken(gates, order).cumsum(-1), last)

    def extra_repr(self) -> str:
        """What `print(model)` shows."""
        return f"{self.head_dim}, max_position={self.max_position}"


def _taken(by_key: Tensor, index: Tensor) -> Tensor:
    """Columns of [B, H, T, S] by `index`, [S] or one [B, S] for each row."""
    if index.dim() == 1:
        return by_key.index_select(-1, index)
    return by_key.gather(-1, index[:, None, None].expand_as(by_key))
