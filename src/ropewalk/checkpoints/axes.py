"""Which axis and which frequency each pair has, as configs state it: what does not fit is refused."""

from collections.abc import Sequence

from ropewalk.checkpoints.errors import ConfigError
from ropewalk.modules import axes


def section_axes(rule: str, sections: Sequence[int] | None, pairs: int) -> tuple[int, ...]:
    """`modules.axes.section_axes` of the `mrope_section` of a config, or none."""
    whole_numbers = isinstance(sections, list | tuple) and all(type(size) is int and size >= 0 for size in sections)
    if sections is not None and not whole_numbers:
        raise ConfigError(
            "sections-do-not-fit", f"config: mrope_section={sections!r} is not a list of sizes", "list three"
        )
    fits = rule == "strided" or sum(sections or ()) == pairs  # strided sections only say where height and width end
    if rule != "alternating" and (sections is None or len(sections) != 3 or not fits):
        raise ConfigError(
            "sections-do-not-fit",
            f"config: mrope_section={sections and list(sections)} does not split {pairs} pairs in three",
            "give three numbers with that sum in rope_scaling or rope_parameters, or check head_dim, hidden_size and "
            "num_attention_heads",
        )
    return axes.section_axes(rule, sections or (), pairs)


def axial_pairs(rule: str, head_dim: int) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """`modules.axes.axial_pairs` of a vision tower: two axes, or with "three" time, height and width in blocks."""
    rule, count = ("blocks", 3) if rule == "three" else (rule, 2)
    if head_dim < 2 * count:
        raise ConfigError("value-impossible", f"config: a head of {head_dim} has no pair for each axis", "")
    return axes.axial_pairs(rule, head_dim, count)
