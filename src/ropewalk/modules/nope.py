"""No position encoding at all."""

from ropewalk.modules.encoding import Encoding


class NoPE(Encoding):
    """The encoding that answers at no door: order enters by the causal mask alone.

    Example:
        >>> NoPE().doors
        ()

    Source: Haviv et al. 2022 (arXiv 2203.16634); Kazemnejad et al. 2023 (arXiv 2305.19466).
    """
