"""The page's parts, as Dash's components: one page shows one panel, or the questions."""

from collections.abc import Mapping
from typing import Any

from dash import dcc, html

from ropewalk.explorer.address import address
from ropewalk.explorer.panel import Choice, Control, Panel, Slider, State
from ropewalk.explorer.quiz import QUESTIONS, QUIZ
from ropewalk.explorer.words import LANGUAGES, Words

FEW = 6  # options that are all shown at once; more are a list that opens


def page(words: Words, panels: Mapping[str, Panel], name: str, given: Mapping[str, Any]) -> list[Any]:
    """Everything between the body's tags."""
    body = _quiz(words) if name == QUIZ else _panel(words, panels[name], panels[name].state(given))
    return [_header(words, name, given), _navigation(words, [*panels, QUIZ], name), html.Main(body)]


def facts(words: Words, panel: str, found: Mapping[str, str]) -> list[Any]:
    """Numbers with their names, in two lines each."""
    return [
        html.Div([html.Dt(words(f"{panel}.fact.{name}")), html.Dd(value, id=f"fact-{name}")])
        for name, value in found.items()
    ]


def _header(words: Words, panel: str, given: Mapping[str, Any]) -> html.Header:
    others = [
        dcc.Link(LANGUAGES[code], href=address(code, panel, given), id={"language": code})
        for code in LANGUAGES
        if code != words.language
    ]
    return html.Header([html.H1(words("name")), html.P(words("tagline"), className="note"), *others])


def _navigation(words: Words, names: list[str], here: str) -> html.Nav:
    items = [
        html.Span(words(f"{name}.title"), **_aria(current="page"))
        if name == here
        else dcc.Link(words(f"{name}.title"), href=address(words.language, name))
        for name in names
    ]
    return html.Nav(html.Ul([html.Li(item) for item in items]), **_aria(label=words("panels")))


def lead(words: Words, panel: str) -> list[Any]:
    """What is to be seen, what to try, and what is often said otherwise."""
    return [
        html.H2(words(f"{panel}.title")),
        html.P(words(f"{panel}.about")),
        html.P([html.Strong(words("try") + " "), words(f"{panel}.try")], className="try"),
        html.P([html.Strong(words("mind") + " "), words(f"{panel}.mind")], className="note"),
    ]


def _panel(words: Words, panel: Panel, state: State) -> html.Section:
    controls = html.Form(
        [_control(words, panel.name, control, state[control.name]) for control in panel.controls],
        className="controls",
        **_aria(label=words("controls")),
    )
    numbers = html.Dl(id="facts", className="facts", **_aria(live="polite", label=words("numbers")))
    aside = html.Div([controls, html.Div(id="refusal", role="alert"), numbers])
    pictures = html.Div([_picture(words, panel.name, name) for name in panel.pictures], className="pictures")
    return html.Section([html.Div(lead(words, panel.name), className="lead"), aside, pictures], className="panel")


def _picture(words: Words, panel: str, name: str) -> html.Figure:
    said = html.Figcaption(words(f"{panel}.{name}"), id=f"said-{name}")
    graph = dcc.Graph(
        id={"picture": name},
        className="picture",
        responsive=True,
        config={"displayModeBar": False, "displaylogo": False},
    )
    return html.Figure([said, graph], **_aria(labelledby=f"said-{name}"))


def _control(words: Words, panel: str, control: Control, value: Any) -> Any:
    key = f"{panel}.{control.name}"
    said = words(key)
    if isinstance(control, Slider):
        shape = dcc.Input(
            id={"slider": control.name},
            type="range",
            min=control.least,
            max=control.most,
            step=control.step,
            value=value,
        )
        return html.Div([html.Label([said, html.Output(id={"said": control.name}), shape])], className="control slider")
    if isinstance(control, Choice):
        options: Any = [{"value": option, "label": words.option(key, option)} for option in control.options]
        if len(options) <= FEW:
            choice: Any = dcc.RadioItems(id={"choice": control.name}, options=options, value=value)
        else:
            choice = dcc.Dropdown(
                id={"choice": control.name}, options=options, value=value, clearable=False, labels=_labels(words)
            )
        return html.Fieldset([html.Legend(said), choice], className="control")
    box = dcc.Textarea(id={"text": control.name}, value=value, rows=control.lines)
    return html.Div([html.Label([said, box])], className="control")


def _aria(**said: str) -> dict[str, Any]:
    return {f"aria-{name}": value for name, value in said.items()}


def _labels(words: Words) -> Any:
    return {"search": words("list.search"), "no_options_found": words("list.none")}


def _quiz(words: Words) -> html.Section:
    questions = [
        html.Details(
            [
                html.Summary(words(f"quiz.{name}.question")),
                html.P(words(f"quiz.{name}.answer")),
                html.P(
                    dcc.Link(words(f"quiz.{name}.try"), href=address(words.language, panel, values)), className="try"
                ),
            ],
            id=f"question-{name}",
        )
        for name, (panel, values) in QUESTIONS.items()
    ]
    return html.Section([html.H2(words("quiz.title")), html.P(words("quiz.about")), *questions], className="lead")
