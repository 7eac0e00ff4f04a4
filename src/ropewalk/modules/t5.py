"""T5's relative position bias."""

import torch
from torch import Tensor, nn

from ropewalk._checks import whole
from ropewalk.functional.t5 import t5_bucket
from ropewalk.modules.encoding import DistanceBias, float32


class T5Bias(DistanceBias):
    """A learned bias for each bucket of distances and each head.

    T5 does not divide its logits by sqrt(head_dim): pass `scale=1.0` to `attend` for a T5 checkpoint. It owns one
    table for all layers: give every layer the same object.

    Args:
        heads: H.
        buckets, max_distance, bidirectional: see `functional.t5_bucket`.

    Attributes:
        weight: [buckets, H], the layout of T5's `relative_attention_bias.weight`; it starts at N(0, 0.02).

    Raises:
        RopewalkError: heads below 1, buckets or distances that `t5_bucket` refuses.

    Example:
        >>> T5Bias(8).bias(torch.arange(3), torch.arange(3)).shape
        torch.Size([8, 3, 3])

    Source: Raffel et al. 2019 (arXiv 1910.10683), section 2.1.
    """

    def __init__(self, heads: int, buckets: int = 32, max_distance: int = 128, bidirectional: bool = False) -> None:
        super().__init__()
        whole("T5Bias", "heads", heads, least=1)
        self.buckets, self.max_distance, self.bidirectional = buckets, max_distance, bidirectional
        self._bucket(torch.zeros(1, dtype=torch.int64, device="cpu"))  # refuses what cannot be bucketed
        self.weight = nn.Parameter(torch.empty(buckets, heads))
        nn.init.normal_(self.weight, std=0.02)

    def by_distance(self, relative: Tensor) -> Tensor:
        """The weight of each distance's bucket."""
        rows = nn.functional.embedding(self._bucket(relative), float32(self.weight, relative.device))
        return rows.movedim(-1, -3)

    def _bucket(self, relative: Tensor) -> Tensor:
        return t5_bucket(
            relative, buckets=self.buckets, max_distance=self.max_distance, bidirectional=self.bidirectional
        )

    def extra_repr(self) -> str:
        """What `print(model)` shows."""
        heads = self.weight.shape[1]
        return f"{heads}, buckets={self.buckets}, max_distance={self.max_distance}, bidirectional={self.bidirectional}"
