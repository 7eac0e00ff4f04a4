"""Language models written as plain functions, whose losses are known without running anything of ours."""

import torch
from torch import Tensor

from ropewalk.measure import LanguageModel

VOCABULARY = 64
SURE = 12.0  # the logit of the token that a copier expects


def copier(reach: int, order: int = 3) -> LanguageModel:
    """Expects what followed the latest occurrence of the last `order` tokens within `reach` tokens, else anything."""

    def hidden(tokens: Tensor, positions: Tensor | None = None) -> Tensor:
        states = torch.zeros(*tokens.shape, VOCABULARY)
        for row, sequence in enumerate(tokens.tolist()):
            seen: dict[tuple[int, ...], int] = {}
            for t in range(order - 1, len(sequence)):
                key = tuple(sequence[t - order + 1 : t + 1])
                if key in seen and t - seen[key] <= reach:
                    states[row, t, sequence[seen[key] + 1]] = SURE
                seen[key] = t
        return states

    return LanguageModel(hidden, lambda states: states)


def recent(window: int) -> LanguageModel:
    """Its loss depends on the number of tokens before it, up to `window`: 1 / min(t, window)."""

    def hidden(tokens: Tensor, positions: Tensor | None = None) -> Tensor:
        context = torch.arange(1, tokens.shape[1] + 1).clamp(max=window).float()
        wanted = torch.roll(tokens, -1, dims=1)
        # logit l of the right token among V: loss = ln(1 + (V - 1) exp(-l)), solved for the loss 1 / context
        logit = torch.log((VOCABULARY - 1) / torch.expm1(1 / context))
        return torch.nn.functional.one_hot(wanted, VOCABULARY) * logit[None, :, None]

    return LanguageModel(hidden, lambda states: states)
