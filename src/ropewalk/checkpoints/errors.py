"""What is wrong with a config, in a form that a person reads and a program can tell apart."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ropewalk._errors import RopewalkError

SEVERITIES = ("error", "warning", "note")


@dataclass(frozen=True)
class Finding:
    """Something about a config that its user should know.

    Attributes:
        code: a name that stays, such as "base-contradicted".
        severity: "error" (some reader computes something else than stated, or stops), "warning" (right, but likely
            not what is wanted) or "note".
        message: what was found, with the keys and values.
        fix: what to do.
    """

    code: str
    severity: str
    message: str
    fix: str

    def to_dict(self) -> dict[str, Any]:
        """The finding as `inspect --json` prints it."""
        return {"code": self.code, "severity": self.severity, "message": self.message, "fix": self.fix}


@contextmanager
def placed_at(place: str) -> Iterator[None]:
    """Put where in the config a refused key stands before the refusal."""
    try:
        yield
    except ConfigError as error:
        found = error.finding
        raise ConfigError(found.code, f"{place}: {found.message.removeprefix('config: ')}", found.fix) from error


class ConfigError(RopewalkError):
    """A config from which no encoding follows: the finding that stopped the reading."""

    def __init__(self, code: str, message: str, fix: str) -> None:
        super().__init__(f"{message}; {fix}" if fix else message)
        self.finding = Finding(code, "error", message, fix)

    def __reduce__(self) -> tuple[Any, ...]:  # worker processes hand errors on by pickling them
        return type(self), (self.finding.code, self.finding.message, self.finding.fix)
