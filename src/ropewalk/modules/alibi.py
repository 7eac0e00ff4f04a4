"""Attention with linear biases."""

import torch
from torch import Tensor

from ropewalk._checks import one_of
from ropewalk._errors import RopewalkError
from ropewalk.functional.alibi import alibi_slopes
from ropewalk.modules.encoding import DistanceBias, float32

FORMS = ("symmetric", "halves")


class ALiBi(DistanceBias):
    """Attention with linear biases: logits - slope x |distance|, a slope a head.

    Built in float32 from the distance, never from absolute positions: in bfloat16 those merge from 257 on.

    Args:
        heads: H.
        rule: the slopes of head counts that are no power of two; see `functional.alibi_slopes`.
        form: what happens to the future where attention is not causal. "symmetric": penalised like the past.
            "halves": the first half of the heads sees the past only and the second half the future only, each
            with the slopes of H / 2 heads, so that left and right can be told apart.

    Raises:
        RopewalkError: heads below 1, an odd number of heads in "halves", an unknown rule or form.

    Example:
        >>> ALiBi(8).bias(torch.tensor([2]), torch.arange(3))[0].tolist()
        [[-1.0, -0.5, -0.0]]

    Source: Press, Smith and Lewis 2021 (arXiv 2108.12409), section 3. Their causal code adds slope x key position,
    which differs by a constant a row and so gives the same weights. Falcon divides its bias by sqrt(head_dim) with the
    logits: multiply `slopes` by head_dim^-0.5 for its checkpoints. "halves" is one of the two encoder forms that the
    authors propose in their repository (issue 5).
    """

    def __init__(self, heads: int, *, rule: str = "reference", form: str = "symmetric") -> None:
        super().__init__()
        self.form = one_of("ALiBi", "form", form, FORMS)
        self.rule = rule
        if form == "halves":
            if heads % 2:
                raise RopewalkError(f"ALiBi: heads={heads} is odd; form='halves' needs an even number")
            self.slopes = alibi_slopes(heads // 2, rule=rule).repeat(2)
        else:
            self.slopes = alibi_slopes(heads, rule=rule)

    def by_distance(self, relative: Tensor) -> Tensor:
        """-slope |relative|, float32."""
        relative = relative[..., None, :, :]
        bias = -float32(self.slopes, relative.device)[:, None, None] * relative.abs()
        if self.form == "symmetric":
            return bias
        direction = torch.ones_like(self.slopes, device=relative.device)
        direction[: len(direction) // 2] = -1
        return bias.masked_fill(relative * direction[:, None, None] < 0, -torch.inf)

    def extra_repr(self) -> str:
        """What `print(model)` shows."""
        return f"{len(self.slopes)}, rule={self.rule!r}, form={self.form!r}"
