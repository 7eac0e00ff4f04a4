"""The keys of a config under one set of names, and what was assumed where it is silent."""

from collections.abc import Mapping
from typing import Any

from ropewalk._checks import number, whole
from ropewalk._errors import RopewalkError
from ropewalk.checkpoints.errors import ConfigError
from ropewalk.checkpoints.rules import Rule

# A config.json states these; a sub-config may leave them to transformers.
STRUCTURE = ("hidden_size", "num_attention_heads", "num_hidden_layers", "max_position_embeddings")
LARGEST = 2**53  # no length or size is beyond what a float64 counts exactly


class Facts:
    """A config as its model type reads it.

    Attributes:
        assumed: the keys that were asked for and not stated, with what transformers takes for them.
        asked: every key that was looked for.
        overruled: key -> the other key that states the same fact otherwise, and wins.
    """

    def __init__(self, config: Mapping[str, Any], model_type: str, rule: Rule, *, is_part: bool = False) -> None:
        self.config, self.model_type, self.rule, self.is_part = config, model_type, rule, is_part
        self.assumed: dict[str, Any] = {}
        self.asked: set[str] = set()
        self.overruled: dict[str, str] = {}

    def key(self, name: str) -> str:
        """The key under which `name` stands in this config."""
        own = self.rule.names.get(name, name)
        return own if own in self.config or name not in self.config else name

    def stated(self, name: str) -> Any:
        """What the config says; None where it is silent or null."""
        own = self.rule.names.get(name, name)
        self.asked |= {own, name}
        values = [self.config[key] for key in {own, name} if self.config.get(key) is not None]
        if len(values) == 2 and values[0] != values[1]:
            raise ConfigError(
                "key-contradicted", f"config: {name!r} and {own!r} name one fact and differ", f"keep {own!r} alone"
            )
        return values[0] if values else None

    def get(self, name: str) -> Any:
        """What the config says, or else what transformers takes; None where there is neither."""
        value = self.stated(name)
        if value is not None:
            return value
        needed = name in STRUCTURE and name in self.rule.defaults and name not in self.rule.optional
        if needed and not self.is_part:
            raise ConfigError(
                "key-missing", f"config: the key {self.key(name)!r} is missing", "copy it from the model's config.json"
            )
        value = self.rule.defaults.get(name)
        return None if value is None else self.assume(self.key(name), value)

    def assume(self, key: str, value: Any) -> Any:
        """`value`, which transformers takes where `key` is silent or null; it is noted, so that a finding tells."""
        self.assumed[key] = value
        return value

    def count(self, name: str, *, least: int = 1) -> int | None:
        """`get` as a whole number."""
        value = self._checked(name, lambda value: whole("config", self.key(name), value, least=least))
        if value is not None and value > LARGEST:
            raise ConfigError("value-impossible", f"config: {self.key(name)}={value} is beyond any length or size", "")
        return value

    def number(self, name: str, *, least: float = 0) -> float | None:
        """`get` as a number above `least`."""
        return self._checked(name, lambda value: number("config", self.key(name), value, least=least, above=True))

    def switch(self, name: str) -> bool | None:
        """`get` as true or false."""
        value = self.get(name)
        if value is None or isinstance(value, bool):
            return value
        raise ConfigError("value-impossible", f"config: {self.key(name)}={value!r} is not true or false", "")

    def needed(self, name: str, *, least: int = 1) -> int:
        """`count` that must be there."""
        value = self.count(name, least=least)
        if value is None:
            raise ConfigError(
                "key-missing", f"config: the key {self.key(name)!r} is missing", "copy it from the model's config.json"
            )
        return value

    def _checked(self, name: str, check: Any) -> Any:
        value = self.get(name)
        return None if value is None else impossible_if(lambda: check(value))

    def under(self, overrides: Mapping[str, Any]) -> "Facts":
        """The same config with a layer's own values in place of the common ones."""
        own = Facts({**self.config, **overrides}, self.model_type, self.rule, is_part=self.is_part)
        own.assumed, own.asked, own.overruled = self.assumed, self.asked, self.overruled
        return own


def impossible_if(check: Any) -> Any:
    """The result of `check`; a refused value is a finding of its own."""
    try:
        return check()
    except ConfigError:
        raise
    except RopewalkError as error:
        raise ConfigError("value-impossible", str(error), "") from error
