"""Which axis and which frequency each pair has in encodings whose positions have several coordinates."""

from collections.abc import Sequence

AXIAL = ("blocks", "reversed", "alternating", "pixtral")


def section_axes(rule: str, sections: Sequence[int], pairs: int) -> tuple[int, ...]:
    """The axis of each pair of an M-RoPE: 0 time, 1 height, 2 width.

    Args:
        rule: "blocks" (Qwen2-VL: first all of time), "strided" (Qwen3-VL: height and width at every third pair of a
            series that is else time's), "ernie" (height and width alternate, then time), "alternating" (two axes).
        sections: how many pairs look at time, height and width; "alternating" asks for none.
        pairs: P.
    """
    if rule == "alternating":
        return tuple(pair % 2 for pair in range(pairs))
    if rule == "blocks":
        return tuple(axis for axis, size in enumerate(sections) for _ in range(size))
    if rule == "ernie":
        return (1, 2) * sections[0] + (0,) * sections[2]
    axes = [0] * pairs
    for axis in (1, 2):
        for pair in range(axis, min(3 * sections[axis], pairs), 3):
            axes[pair] = axis
    return tuple(axes)


def axial_pairs(rule: str, head_dim: int, count: int = 2) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Axes [P], slots [P] and the grid of an axial encoding: see `AxialRotary`. Each axis has as many pairs.

    Args:
        rule: "blocks" (all pairs of the first axis, then those of the next), "reversed" (the last axis first),
            "alternating" (the last axis to the first at each frequency, side by side), or "pixtral" (axes take turns at
            the frequencies of the whole head: the even ones of two for the height, the odd ones for the width).
        head_dim: the width of a head.
        count: how many axes.
    """
    each = head_dim // count // 2
    order = tuple(reversed(range(count))) if rule in ("reversed", "alternating") else tuple(range(count))
    if rule == "alternating":
        return order * each, tuple(slot for slot in range(each) for _ in order), 2 * each
    axes = tuple(axis for axis in order for _ in range(each))
    if rule == "pixtral":
        return axes, tuple(slot for axis in order for slot in range(axis, count * each, count)), 2 * count * each
    return axes, tuple(range(each)) * count, 2 * each
