"""ALiBi's slopes."""

import torch
from torch import Tensor

from ropewalk._checks import one_of, whole

RULES = ("reference", "paper")


def alibi_slopes(heads: int, *, rule: str = "reference") -> Tensor:
    """The slope of each head, 2^(-8h / H) for h = 1 .. H where H is a power of two.

    Args:
        heads: H.
        rule: what to do about other numbers of heads. "reference", the authors' code and every released model
            (BLOOM, MPT): the slopes of the largest power of two below H, then every other slope of twice that
            power. "paper": the formula as it stands, for any H.

    Returns:
        float32 [H] on the CPU.

    Raises:
        RopewalkError: heads below 1, an unknown rule.

    Example:
        >>> alibi_slopes(8)[:3].tolist(), round(alibi_slopes(12)[8].item(), 4)
        ([0.5, 0.25, 0.125], 0.7071)

    Source: Press, Smith and Lewis 2021 (arXiv 2108.12409), section 3; their code's `get_slopes`.
    """
    one_of("alibi_slopes", "rule", rule, RULES)
    whole("alibi_slopes", "heads", heads, least=1)
    power = heads if rule == "paper" else 2 ** (heads.bit_length() - 1)
    slopes = _geometric(power) + _geometric(2 * power)[0::2][: heads - power]
    return torch.tensor(slopes, dtype=torch.float32, device="cpu")


def _geometric(heads: int) -> list[float]:
    return [2.0 ** (-8.0 * h / heads) for h in range(1, heads + 1)]
