"""Keys that look like another."""

from collections.abc import Iterable


def meant(key: str, names: Iterable[str]) -> str | None:
    """The first of `names` that `key` is a slip of; None where it is none."""
    return next((name for name in sorted(names) if is_typo(key, name)), None)


def is_typo(key: str, name: str) -> bool:
    """Whether one letter too many, too few or wrong, or two that changed places, make the whole difference."""
    if len(name) < 6 or key == name:
        return False
    if len(key) == len(name):
        wrong = [index for index, pair in enumerate(zip(key, name, strict=True)) if pair[0] != pair[1]]
        swapped = len(wrong) == 2 and wrong[1] - wrong[0] == 1 and sorted(key) == sorted(name)
        return len(wrong) == 1 or swapped
    short, long = sorted((key, name), key=len)
    return any(long[:index] + long[index + 1 :] == short for index in range(len(long)))
