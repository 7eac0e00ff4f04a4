"""The address of a state: `?lang=ko&panel=grid&dim=64`."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

from ropewalk.explorer.words import LANGUAGES


def read(query: str | None, panels: Mapping[str, Any], first: str) -> tuple[str, str, dict[str, str]]:
    """The language, the panel's name and the values of its controls; what cannot be used gives way to the first."""
    given = dict(parse_qsl((query or "").removeprefix("?"), keep_blank_values=True))
    language, name = given.pop("lang", "en"), given.pop("panel", first)
    return language if language in LANGUAGES else "en", name if name in panels else first, given


def address(language: str, panel: str, values: Mapping[str, Any] | None = None) -> str:
    """The link to a panel with some of its controls set."""
    return "?" + urlencode({"lang": language, "panel": panel, **(values or {})})
