"""What a panel is: controls, and a pure function from their state to pictures and facts."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ropewalk.explorer.words import Words

State = Mapping[str, Any]


@dataclass(frozen=True)
class Slider:
    """A whole number.

    Attributes:
        shared: the values it takes on an exported page; none leaves it at its default there.
    """

    name: str
    default: int
    least: int
    most: int
    step: int = 1
    shared: tuple[int, ...] = ()

    def read(self, given: object) -> int:
        """What a page or a link has given, as a value that the slider can take."""
        try:
            asked = int(float(str(given)))
        except (ValueError, OverflowError):
            return self.default
        return self.least + (min(max(asked, self.least), self.most) - self.least) // self.step * self.step


@dataclass(frozen=True)
class Choice:
    """One of a few names; `shared` as in `Slider`."""

    name: str
    default: str
    options: tuple[str, ...]
    shared: tuple[str, ...] = ()

    def read(self, given: object) -> str:
        """An option, the default where something else was given."""
        return str(given) if str(given) in self.options else self.default


@dataclass(frozen=True)
class Text:
    """Something typed or pasted; an exported page has none."""

    name: str
    default: str = ""
    lines: int = 1
    shared: tuple[str, ...] = ()

    def read(self, given: object) -> str:
        """What was given, as text."""
        return self.default if given is None else str(given)


Control = Slider | Choice | Text


@dataclass(frozen=True)
class Drawn:
    """What a panel shows in one state.

    Attributes:
        pictures: plotly's JSON by name, in the colours of a light page.
        facts: numbers as they are printed, by name.
        limits: the largest values that sliders can take in this state, where another control decides about them.
    """

    pictures: Mapping[str, dict[str, Any]]
    facts: Mapping[str, str]
    limits: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Panel:
    """One subject: its controls, the names of its pictures, and what draws them.

    Attributes:
        draw: from the values of all controls, and the words of a language.
    """

    name: str
    controls: tuple[Control, ...]
    pictures: tuple[str, ...]
    draw: Callable[[State, Words], Drawn]

    def state(self, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """A value for every control: what was given where it can be used, the default elsewhere."""
        given = given or {}
        return {control.name: control.read(given.get(control.name, control.default)) for control in self.controls}

    def shared_states(self) -> Iterator[dict[str, Any]]:
        """Every state that an exported page holds."""
        states = [self.state()]
        for control in self.controls:
            states = [
                {**state, control.name: value} for state in states for value in control.shared or [control.default]
            ]
        yield from states
