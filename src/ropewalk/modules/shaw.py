"""Relative position representations of Shaw et al."""

import torch
from torch import Tensor, nn

from ropewalk._checks import whole
from ropewalk.modules.encoding import ClippedRelation


class Shaw(ClippedRelation):
    """A learned vector for each clipped distance, beside the keys and beside the values.

    logit = q_i . (k_j + a_c) / sqrt(D), output = sum of weights x (v_j + b_c), c = the distance j - i clipped to
    [-max_distance, max_future].

    Args:
        head_dim: D.
        max_distance: how far back distances are told apart.
        max_future: how far ahead; `max_distance` where left out.
        values: whether values have vectors too; the paper's ablation finds those of the keys enough.

    Attributes:
        keys, values: [max_distance + 1 + max_future, D], shared by the heads, ordered from the far past to the far
            future; they start at N(0, 1/D). `values` is None where there are none.

    Raises:
        RopewalkError: a width or distance that is no whole number of its kind.

    Example:
        >>> Shaw(64, max_distance=16).keys.shape
        torch.Size([33, 64])

    Source: Shaw et al. 2018 (arXiv 1803.02155), equations 3 to 5. Their [T, S, D] tensor is never made: q meets the
    2k + 1 vectors first, and weights are summed by distance before they meet the vectors.
    """

    def __init__(self, head_dim: int, max_distance: int, max_future: int | None = None, *, values: bool = True) -> None:
        super().__init__()
        whole("Shaw", "head_dim", head_dim, least=1)
        self.max_distance = whole("Shaw", "max_distance", max_distance, least=0)
        self.max_future = self.max_distance if max_future is None else whole("Shaw", "max_future", max_future, least=0)
        shape, std = (self.max_distance + 1 + self.max_future, head_dim), head_dim**-0.5
        self.keys = nn.Parameter(torch.randn(shape) * std)
        self.values = nn.Parameter(torch.randn(shape) * std) if values else None

    def vectors(self) -> tuple[Tensor, Tensor | None]:
        """`keys` and `values`."""
        return self.keys, self.values

    def extra_repr(self) -> str:
        """What `print(model)` shows."""
        values = self.values is not None
        return f"{self.keys.shape[1]}, max_distance={self.max_distance}, max_future={self.max_future}, values={values}"
