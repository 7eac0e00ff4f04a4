"""Learned absolute positions."""

import torch
from torch import Tensor, nn

from ropewalk._checks import whole
from ropewalk._errors import RopewalkError
from ropewalk.modules.encoding import Added


class Learned(Added):
    """A learned row for each position, x + weight[position + offset]; there is none past the maximum.

    Models differ in where position 0 stands and in what padding gets:

    ============  ======  =====================================================================================
    model         offset  positions
    ============  ======  =====================================================================================
    GPT-2, BERT   0       `positions.arange`; padding is counted too
    BART          2       `positions.arange`; padding is counted too
    OPT, RoBERTa  2       `positions.from_attention_mask(mask).masked_fill(mask == 0, -1)`: padding has the row
                          before position 0, which RoBERTa does not train
    ============  ======  =====================================================================================

    RoBERTa's `max_position_embeddings` counts the offset (514 are 512 positions); OPT's and BART's do not.

    Args:
        max_length: positions that have a row, 0 .. max_length - 1.
        dim: width.
        offset: rows kept before position 0; positions down to -offset reach them.

    Attributes:
        weight: [offset + max_length, dim]; it starts at N(0, 0.02), as GPT-2's and BERT's.

    Raises:
        RopewalkError: sizes that are no whole numbers of their kind; when called, a position without a row.

    Example:
        >>> Learned(1024, 768)(torch.zeros(1, 10, 768)).shape
        torch.Size([1, 10, 768])

    Source: Gehring et al. 2017 (arXiv 1705.03122), section 3.1; Vaswani et al. 2017, table 3 row E.
    """

    def __init__(self, max_length: int, dim: int, *, offset: int = 0) -> None:
        super().__init__()
        self.max_length = whole("Learned", "max_length", max_length, least=1)
        self.offset = whole("Learned", "offset", offset, least=0)
        self.weight = nn.Parameter(torch.empty(self.offset + self.max_length, whole("Learned", "dim", dim, least=1)))
        nn.init.normal_(self.weight, std=0.02)

    def rows(self, positions: Tensor) -> Tensor:
        """The row of each position."""
        self._check(positions)
        return nn.functional.embedding(positions.long() + self.offset, self.weight)

    def resized(self, new_length: int) -> "Learned":
        """A copy with rows for `new_length` positions: the old rows bit for bit, then new ones at N(0, 0.02).

        The new rows are untrained, and a model that reads them needs training; a shorter length drops rows.

        Example:
            >>> Learned(8, 4).resized(16).weight.shape
            torch.Size([16, 4])
        """
        new = Learned(new_length, self.weight.shape[1], offset=self.offset).to(self.weight)
        kept = min(len(self.weight), len(new.weight))
        with torch.no_grad():
            new.weight[:kept] = self.weight[:kept]
        return new.requires_grad_(self.weight.requires_grad).train(self.training)

    def _check(self, positions: Tensor) -> None:
        if torch.compiler.is_compiling() or positions.is_meta or not positions.numel():
            return  # values cannot be looked at; the lookup itself refuses what has no row
        low, high = (int(value) for value in torch.aminmax(positions))
        if low < -self.offset or high >= self.max_length:
            raise RopewalkError(
                f"Learned: position {high if high >= self.max_length else low} has no row; this table holds positions "
                f"{-self.offset} .. {self.max_length - 1}. Shorten the input, or train after resized(new_length)"
            )

    def extra_repr(self) -> str:
        """What `print(model)` shows."""
        return f"{self.max_length}, {self.weight.shape[1]}, offset={self.offset}"
