"""All that the page says, one table a language."""

import json
from functools import cache
from importlib import resources

LANGUAGES = {"en": "English", "ko": "한국어"}


class Words:
    """The words of one language, by key.

    Attributes:
        language: its code, a key of `LANGUAGES`.
        table: what each key says, with places for numbers in braces.
    """

    def __init__(self, language: str) -> None:
        text = resources.files("ropewalk.explorer").joinpath(f"strings_{language}.json").read_text(encoding="utf-8")
        self.language, self.table = language, json.loads(text)

    def __call__(self, key: str, **values: object) -> str:
        """What `key` says, with `values` in its places."""
        return self.table[key].format(**values) if values else self.table[key]

    def option(self, key: str, value: object) -> str:
        """The words for an option; a name that all languages share, such as a model's, stands for itself."""
        return self.table.get(f"{key}.{value}", str(value))


@cache
def words(language: str) -> Words:
    """The table of a language; of English where there is none."""
    return Words(language if language in LANGUAGES else "en")
