"""The order of a head's features under the other pairing."""

import torch
from torch import Tensor

from ropewalk._checks import one_of
from ropewalk.functional.rotary import LAYOUTS


def order(head_dim: int, rotary_dim: int, to: str, block: str = "leading") -> Tensor:
    """Where each feature of a head comes from when its pairs are laid out as `to` says: new[i] = old[order[i]].

    half -> interleaved puts feature i at 2i and its partner i + P at 2i + 1; interleaved -> half undoes that. Features
    that do not rotate stay.

    Args:
        head_dim: D, the features of a head.
        rotary_dim: R, how many of them rotate.
        to: "half" or "interleaved", the pairing that is wanted.
        block: "leading" or "trailing", where the R stand.

    Returns:
        [D] int64, a permutation.

    Example:
        >>> order(8, 6, "interleaved")
        tensor([0, 3, 1, 4, 2, 5, 6, 7])

    Source: the permutation of Llama's weights in transformers' convert_llama_weights_to_hf.py, which is the one to
        "half" for whole heads.
    """
    first = 0 if block == "leading" else head_dim - rotary_dim
    features = torch.arange(head_dim)
    turning = features[first : first + rotary_dim]
    if one_of("order", "to", to, LAYOUTS) == "interleaved":
        turning = turning.view(2, -1).T.flatten()
    else:
        turning = turning.view(-1, 2).T.flatten()
    return torch.cat((features[:first], turning, features[first + rotary_dim :]))
