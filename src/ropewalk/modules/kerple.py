"""KERPLE: learned kernels of the distance."""

import torch
from torch import Tensor, nn

from ropewalk._checks import one_of, whole
from ropewalk.modules.encoding import DistanceBias, float32

FORMS = ("log", "power")
LEAST, LARGEST_POWER = 0.01, 2.0


class Kerple(DistanceBias):
    """A kernel of the distance d with two learned numbers a head: -p log(1 + a d), or -a d^p.

    Args:
        heads: H.
        form: "log" or "power".

    Attributes:
        p, a: [H], used as at least 0.01, and `p` of "power" as at most 2, beyond which it is no kernel. They start
            evenly spread, `p` in 0 .. 2 and `a` in 0 .. 1.

    Raises:
        RopewalkError: heads below 1, an unknown form.

    Example:
        >>> kernel = Kerple(2)
        >>> _ = nn.init.ones_(kernel.p), nn.init.ones_(kernel.a)
        >>> kernel.bias(torch.tensor([3]), torch.tensor([0, 3]))[0].tolist()
        [[-1.386..., -0.0]]

    Source: Chi et al. 2022 (arXiv 2205.09921), equations 7 (log) and 6 (power). Their code writes the bounds into the
    parameters at each pass; here they are left alone and bounded where they are used, with the gradient of the bounded
    value, so that one beyond a bound can come back.
    """

    def __init__(self, heads: int, form: str = "log") -> None:
        super().__init__()
        whole("Kerple", "heads", heads, least=1)
        self.form = one_of("Kerple", "form", form, FORMS)
        self.p, self.a = nn.Parameter(2 * torch.rand(heads)), nn.Parameter(torch.rand(heads))

    def by_distance(self, relative: Tensor) -> Tensor:
        """The kernel of |relative|."""
        p = _bounded(float32(self.p, relative.device), None if self.form == "log" else LARGEST_POWER)
        a = _bounded(float32(self.a, relative.device), None)
        distance = relative[..., None, :, :].abs().to(p.dtype)
        return -p * torch.log1p(a * distance) if self.form == "log" else -a * distance**p

    def extra_repr(self) -> str:
        """What `print(model)` shows."""
        return f"{len(self.p)}, form={self.form!r}"


def _bounded(x: Tensor, most: float | None) -> Tensor:
    """[H, 1, 1] within its bounds; the gradient passes as if there were none."""
    return (x + (x.clamp(LEAST, most) - x).detach())[:, None, None]
