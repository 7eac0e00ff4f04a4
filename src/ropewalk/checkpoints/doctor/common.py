"""What the checks share."""

from collections.abc import Iterator, Mapping
from typing import Any

from ropewalk.checkpoints.errors import Finding
from ropewalk.checkpoints.facts import Facts
from ropewalk.checkpoints.rope_dicts import is_nested, spelled
from ropewalk.checkpoints.rope_keys import HF_NAMES

Found = Iterator[Finding]
ORIGINAL = HF_NAMES["original_length"]


def rope_dict_sets(facts: Facts) -> list[dict[str, Any]]:
    """Each set of rope keys that the config states."""
    stated = spelled(facts)
    if not is_nested(stated):
        return [stated] if stated else []
    return [dict(keys) for keys in stated.values() if isinstance(keys, Mapping)]


def kind_of(keys: Mapping[str, Any]) -> str:
    """The rope type as it is written."""
    return str(keys.get("rope_type") or keys.get("type") or "default")
