"""Which axis and which frequency each pair has in encodings whose positions have several coordinates."""

from collections.abc import Sequence

from ropewalk.checkpoints.errors import ConfigError


def section_axes(rule: str, sections: Sequence[int] | None, pairs: int) -> tuple[int, ...]:
    """The axis of each pair of an M-RoPE: 0 time, 1 height, 2 width.

    Args:
        rule: "blocks" (Qwen2-VL: first all of time), "strided" (Qwen3-VL: height and width at every third pair of a
            series that is else time's), "ernie" (height and width alternate, then time), "alternating" (two axes).
        sections: how many pairs look at time, height and width.
        pairs: P.
    """
    whole_numbers = isinstance(sections, list | tuple) and all(type(size) is int and size >= 0 for size in sections)
    if sections is not None and not whole_numbers:
        raise ConfigError(
            "sections-do-not-fit", f"config: mrope_section={sections!r} is not a list of sizes", "list three"
        )
    if rule == "alternating":
        return tuple(pair % 2 for pair in range(pairs))
    fits = rule == "strided" or sum(sections or ()) == pairs  # strided sections only say where height and width end
    if sections is None or len(sections) != 3 or not fits:
        raise ConfigError(
            "sections-do-not-fit",
            f"config: mrope_section={sections and list(sections)} does not split {pairs} pairs in three",
            "give three numbers with that sum in rope_scaling or rope_parameters, or check head_dim, hidden_size and "
            "num_attention_heads",
        )
    if rule == "blocks":
        return tuple(axis for axis, size in enumerate(sections) for _ in range(size))
    if rule == "ernie":
        return (1, 2) * sections[0] + (0,) * sections[2]
    axes = [0] * pairs
    for axis in (1, 2):
        for pair in range(axis, min(3 * sections[axis], pairs), 3):
            axes[pair] = axis
    return tuple(axes)


def axial_pairs(rule: str, head_dim: int) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Axes [P], slots [P] and the grid of a vision tower: see `AxialRotary`.

    Args:
        rule: "blocks" (all pairs of the height, then those of the width), "reversed" (width first), "alternating"
            (width and height of each frequency side by side), "three" (time, height, width), or "pixtral" (the even
            frequencies of the whole head for the height, the odd ones for the width).
        head_dim: the width of a head.
    """
    each = head_dim // 3 // 2 if rule == "three" else head_dim // 4
    order = {"three": (0, 1, 2), "reversed": (1, 0), "alternating": (1, 0)}.get(rule, (0, 1))
    if each < 1:
        raise ConfigError("value-impossible", f"config: a head of {head_dim} has no pair for each axis", "")
    if rule == "alternating":
        return order * each, tuple(slot for slot in range(each) for _ in order), 2 * each
    axes = tuple(axis for axis in order for _ in range(each))
    if rule == "pixtral":
        return axes, (*range(0, 2 * each, 2), *range(1, 2 * each, 2)), 4 * each
    return axes, tuple(range(each)) * len(order), 2 * each
