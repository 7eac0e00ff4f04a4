"""Public models by name: their published config, their facts, and where each stands."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import Any

from ropewalk._errors import RopewalkError


@dataclass(frozen=True)
class Preset:
    """What is public about how a model encodes position.

    Attributes:
        context: tokens of its training context; None where that is not published.
        claimed: tokens that it is sold as reading; None where that is not published.
        encoding, extended: in words; "undisclosed" where nothing is published.
        note: where popular tables err.
        sources: what stands where.
        confidence: "published config read", or "documentation" for facts out of papers, cards and derived copies.
        config: the position keys of its config.json, as published; None where there is none.
    """

    name: str
    title: str
    by: str
    year: int | None
    context: int | None
    claimed: int | None
    encoding: str
    extended: str
    note: str | None
    sources: tuple[Mapping[str, str], ...]
    confidence: str
    config: Mapping[str, Any] | None

    def published_config(self) -> dict[str, Any]:
        """A copy of `config`.

        Raises:
            RopewalkError: a model without one.
        """
        if self.config is None:
            raise RopewalkError(
                f"{self.name}: no config of {self.title} is public ({self.encoding}); there is none to read"
            )
        return json.loads(json.dumps(dict(self.config)))


def _read() -> dict[str, Preset]:
    text = resources.files("ropewalk.checkpoints").joinpath("presets.json").read_text(encoding="utf-8")
    found = {}
    for name, facts in json.loads(text).items():
        sources = tuple(facts.pop("source"))
        found[name] = Preset(name=name, sources=sources, **facts)
    return found


PRESETS: Mapping[str, Preset] = MappingProxyType(_read())
