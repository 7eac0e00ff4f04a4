"""FIRE: a learned function of the distance, as a share of the query's position."""

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ropewalk._checks import number, whole
from ropewalk.functional.rotary import check_positions, full_precision
from ropewalk.modules.encoding import Encoding, float32


class Fire(Encoding):
    """b(i, j) = f(psi(|i - j|) / psi(max(i, L))), psi(x) = log(1 + |c x|), f a small network with an output a head.

    The share lies between 0 and 1 whatever the length, so that longer texts show f no new input. It goes by the
    query's own position: queries moved with their keys see another bias.

    Args:
        heads: H.
        hidden: width of f, which is Linear(1, hidden), ReLU, Linear(hidden, H) without a bias: a constant a head would
            change no weight.
        threshold: L at the start; nearer the beginning of a text than this, distances are not shares of all before.
        c: where psi bends, at the start.

    Attributes:
        network: f.
        c, multiplier: [1], since FSDP shards no scalar; L is |multiplier x threshold|, the multiplier starts at 1.

    Raises:
        RopewalkError: heads or hidden below 1, a threshold or c that is not above 0.

    Example:
        >>> Fire(8).bias(torch.arange(4), torch.arange(4)).shape
        torch.Size([8, 4, 4])

    Source: Li et al. 2023 (arXiv 2310.04418), equations 3 and 4, for causal attention; ahead the distance counts
    alike and its share may pass 1. Positions count from 0, so a position's share is of one token less than the paper's.
    """

    def __init__(self, heads: int, hidden: int = 32, *, threshold: float = 512.0, c: float = 0.1) -> None:
        super().__init__()
        self.heads, self.hidden = whole("Fire", "heads", heads, least=1), whole("Fire", "hidden", hidden, least=1)
        self.threshold = number("Fire", "threshold", threshold, least=0, above=True)
        self.network = nn.Sequential(
            nn.Linear(1, self.hidden), nn.ReLU(), nn.Linear(self.hidden, self.heads, bias=False)
        )
        self.c = nn.Parameter(torch.tensor([number("Fire", "c", c, least=0, above=True)]))
        self.multiplier = nn.Parameter(torch.ones(1))

    def bias(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        """[H, T, S], or [B, H, T, S] where either is per row; in float32 whatever the module was cast to."""
        check_positions(q_positions)
        check_positions(k_positions)
        queries, keys = q_positions.long()[..., :, None], k_positions.long()[..., None, :]
        with full_precision(queries):
            wide = {name: float32(value, queries.device) for name, value in self.named_parameters()}
            c, least = wide["c"], (wide["multiplier"] * self.threshold).abs()
            whole = torch.maximum(queries.to(c.dtype), least).clamp(min=1e-6)  # a share of nothing has no gradient
            share = _bent(c, (queries - keys).abs().to(c.dtype)) / (_bent(c, whole) + torch.finfo(c.dtype).tiny)
            network = {name.removeprefix("network."): value for name, value in wide.items() if "." in name}
            return functional_call(self.network, network, share[..., None]).movedim(-1, -3)

    def extra_repr(self) -> str:
        """What `print(model)` shows."""
        return f"{self.heads}, hidden={self.hidden}, threshold={self.threshold:g}"


def _bent(c: Tensor, x: Tensor) -> Tensor:
    return torch.log1p((c * x).abs())
