"""The rotary encoding of models that read text, images and video."""

from collections.abc import Sequence

from ropewalk._checks import whole
from ropewalk._errors import RopewalkError
from ropewalk.modules.axes import section_axes
from ropewalk.modules.axial import AxialRotary
from ropewalk.scaling import Scaling


class MRoPE(AxialRotary):
    """Multimodal rotary: each pair looks at the time, the height or the width of its token.

    Positions are [3, T] or [3, B, T], as `positions.mrope` makes them. Text has three equal coordinates and turns as
    plain `Rotary` does. `attend` takes one position a token, so turn first: `q, k = rope(q, k, where)`, and then
    `attend(q, k, v, causal=True)`, which goes by the order of the tokens.

    Args:
        head_dim: D.
        sections: [t, h, w], how many pairs look at each; their sum is rotary_dim / 2.
        interleaved: False for blocks (Qwen2-VL, [16, 24, 24]: first all of time); True for Qwen3-VL's order ([24, 20,
            20]: t h w t h w .., and what is left is time's).
        base, rotary_dim, layout, scaling, numerics: as in `Rotary`. A length-dependent scaling asks for `length`.

    Raises:
        RopewalkError: sections that are no three whole numbers with that sum.

    Example:
        >>> import torch
        >>> from ropewalk import positions
        >>> rope = MRoPE(128, sections=[16, 24, 24], base=1e6)
        >>> where = positions.mrope([3, (1, 4, 4), 2], merge=2)
        >>> q, k = rope(torch.ones(1, 4, 9, 128), torch.ones(1, 1, 9, 128), where)
        >>> q.shape
        torch.Size([1, 4, 9, 128])

    Source: Wang et al. 2024 (Qwen2-VL, arXiv 2409.12191), section 2.1; transformers' Qwen3-VL for the other order.
    """

    def __init__(
        self,
        head_dim: int,
        sections: Sequence[int],
        *,
        interleaved: bool = False,
        base: float = 10000.0,
        rotary_dim: int | None = None,
        layout: str = "half",
        scaling: Scaling | None = None,
        numerics: str = "float64",
    ) -> None:
        pairs = whole("MRoPE", "rotary_dim", head_dim if rotary_dim is None else rotary_dim, least=2) // 2
        sizes = [whole("MRoPE", "sections", size, least=0) for size in sections]
        if len(sizes) != 3 or sum(sizes) != pairs:
            raise RopewalkError(f"MRoPE: sections={list(sections)} does not split {pairs} pairs into three")
        own = section_axes("strided" if interleaved else "blocks", sizes, pairs)
        super().__init__(head_dim, axes=own, base=base, layout=layout, scaling=scaling, numerics=numerics)
