"""The page as one file to share: every panel in a grid of states, drawn beforehand, in all languages."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup
from plotly.offline import get_plotlyjs

from ropewalk.explorer.charts import DARK
from ropewalk.explorer.look import shared
from ropewalk.explorer.panel import Control, Panel
from ropewalk.explorer.quiz import QUESTIONS, QUIZ
from ropewalk.explorer.words import LANGUAGES, Words, words
from ropewalk.report.page import embedded, filled


def render(panels: Mapping[str, Panel]) -> str:
    """The page, as text; it fetches nothing."""
    return filled(
        "export.html",
        room="ropewalk.explorer",
        languages={code: words(code) for code in LANGUAGES},
        names=LANGUAGES,
        panels=panels,
        controls={name: _shown(panel) for name, panel in panels.items()},
        questions=QUESTIONS,
        quiz=QUIZ,
        css=Markup(shared("css")),
        scripts=Markup(shared("js", "exported.js")),
        plotly=Markup(get_plotlyjs()),
        embedded=embedded({"panels": {name: _drawn(panel) for name, panel in panels.items()}, "dark": DARK}),
    )


def _shown(panel: Panel) -> list[Control]:
    """The controls that have more than their default here."""
    return [control for control in panel.controls if control.shared]


def _drawn(panel: Panel) -> dict[str, Any]:
    """A panel's states by the places of their values, such as "0,2", each in every language."""
    controls, states = _shown(panel), {}
    for state in panel.shared_states():
        key = ",".join(str(_place(control, state[control.name])) for control in controls)
        states[key] = {code: _state(panel, state, words(code)) for code in LANGUAGES}
    return {
        "controls": [control.name for control in controls],
        "values": [list(control.shared) for control in controls],
        "start": [_place(control, control.default) for control in controls],
        "pictures": list(panel.pictures),
        "states": states,
    }


def _place(control: Control, value: Any) -> int:
    return list(control.shared).index(value)


def _state(panel: Panel, state: Mapping[str, Any], say: Words) -> dict[str, Any]:
    drawn = panel.draw(state, say)
    facts = [[say(f"{panel.name}.fact.{name}"), value] for name, value in drawn.facts.items()]
    return {"pictures": [drawn.pictures[name] for name in panel.pictures], "facts": facts}
