"""Sandwich: the inner products of sinusoidal vectors as a bias."""

import torch
from torch import Tensor

from ropewalk._checks import whole
from ropewalk.functional.sandwich import sinusoidal_product
from ropewalk.modules.encoding import DistanceBias, float32


class Sandwich(DistanceBias):
    """logits + PE(i) . PE(j) / (8h / H): what is left of sinusoidal positions when only their products are kept.

    The bias falls with the distance, and more slowly the farther away, with waves; nothing is learned.

    Args:
        heads: H; head h = 1 .. H divides by 8h / H.
        dim: the width of the sinusoidal vectors; a property of the bias, not of the model.

    Raises:
        RopewalkError: heads below 1, an odd `dim`.

    Example:
        >>> Sandwich(8).bias(torch.tensor([16]), torch.tensor([0, 16]))[7].tolist()
        [[4.962..., 8.0]]

    Source: Chi et al. 2022 (arXiv 2212.10356), equation 5 and the listing of its appendix. As there the value at
    distance 0 is kept, though a constant a row changes no weight.
    """

    def __init__(self, heads: int, dim: int = 128) -> None:
        super().__init__()
        whole("Sandwich", "heads", heads, least=1)
        self.dim = dim
        sinusoidal_product(torch.zeros(1, dtype=torch.int64, device="cpu"), dim)  # refuses what has no pairs
        self.ratios = torch.tensor([8 * h / heads for h in range(1, heads + 1)], dtype=torch.float32, device="cpu")

    def by_distance(self, relative: Tensor) -> Tensor:
        """The product of both vectors over each head's ratio, float32."""
        products = sinusoidal_product(relative, self.dim)[..., None, :, :]
        return products / float32(self.ratios, relative.device)[:, None, None]

    def extra_repr(self) -> str:
        """What `print(model)` shows."""
        return f"{len(self.ratios)}, dim={self.dim}"
