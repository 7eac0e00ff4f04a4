"""The local page: Dash carries the controls' values to the library and what it answers to the pictures."""

from collections.abc import Mapping
from typing import Any

from dash import ALL, ClientsideFunction, Dash, Input, Output, State, dcc, html, no_update

from ropewalk._errors import RopewalkError
from ropewalk.explorer import layout
from ropewalk.explorer.address import read
from ropewalk.explorer.charts import DARK
from ropewalk.explorer.look import shared
from ropewalk.explorer.panel import Panel, Slider
from ropewalk.explorer.quiz import QUIZ
from ropewalk.explorer.words import LANGUAGES, words

OWN = "'self' 'unsafe-inline'"
POLICY = f"default-src 'self'; script-src {OWN}; style-src {OWN}; img-src 'self' data: blob:"
INDEX = """<!doctype html>
<html lang="en"><head>{%metas%}<title>{%title%}</title>{%favicon%}{%css%}
<style>STYLE</style><script>SCRIPT</script></head>
<body>{%app_entry%}<footer>{%config%}{%scripts%}{%renderer%}</footer></body></html>"""
CONTROLS = [{"slider": ALL}, {"choice": ALL}, {"text": ALL}]


def app(panels: Mapping[str, Panel]) -> Dash:
    """The page over `panels`, whose scripts, styles and answers all come from this machine."""
    made = Dash(
        "ropewalk.explorer",
        title="ropewalk explore",
        update_title="",
        include_assets_files=False,
        serve_locally=True,
        suppress_callback_exceptions=True,
        enable_mcp=False,
        index_string=INDEX.replace("STYLE", shared("css")).replace("SCRIPT", shared("js", "local.js")),
        meta_tags=[{"name": "viewport", "content": "width=device-width, initial-scale=1"}],
    )
    made.layout = html.Div(
        [
            dcc.Location(id="address"),
            dcc.Store(id="dark"),
            dcc.Store(id="page"),
            dcc.Store(id="drawn"),
            html.Div(id="body"),
        ]
    )
    _answers(made, panels)
    _in_the_browser(made)
    made.server.after_request(_kept_in)
    return made


def _answers(made: Dash, panels: Mapping[str, Panel]) -> None:
    """What the library answers: a page for an address, and pictures and numbers for the values of its controls."""
    first = next(iter(panels))

    @made.callback(Output("page", "data"), Output("body", "children"), Input("address", "search"))
    def shown(query: str | None) -> Any:
        language, name, given = read(query, {**panels, QUIZ: None}, first)
        say = words(language)
        page = {
            "panel": name,
            "language": language,
            "others": [code for code in LANGUAGES if code != language],
            "title": f"{say(f'{name}.title')} · {say('name')}",
            "defaults": {} if name == QUIZ else panels[name].state(),
        }
        return page, layout.page(say, panels, name, given)

    @made.callback(
        Output("drawn", "data"),
        Output("facts", "children"),
        Output("refusal", "children"),
        Output({"slider": ALL}, "max"),
        *(Input(control, "value") for control in CONTROLS),
        State({"slider": ALL}, "id"),
        State({"choice": ALL}, "id"),
        State({"text": ALL}, "id"),
        State("page", "data"),
    )
    def drawn(*given: Any) -> Any:
        *values, page = given
        pairs = zip([*values[0], *values[1], *values[2]], [*values[3], *values[4], *values[5]], strict=True)
        panel = panels[page["panel"]]
        state = panel.state({name: value for value, identity in pairs for name in identity.values()})
        say = words(page["language"])
        sliders = [identity["slider"] for identity in values[3]]
        try:
            made = panel.draw(state, say)
        except RopewalkError as error:
            return no_update, no_update, str(error), [no_update] * len(sliders)
        most = {**{c.name: c.most for c in panel.controls if isinstance(c, Slider)}, **made.limits}
        pictures = [made.pictures[name] for name in panel.pictures]
        limits = [most[name] for name in sliders]
        return (
            {"panel": panel.name, "pictures": pictures, "dark": DARK},
            layout.facts(say, panel.name, made.facts),
            "",
            limits,
        )


def _in_the_browser(made: Dash) -> None:
    """What needs no number of the library's: colours, the address, the sliders' values beside them."""

    def function(name: str) -> ClientsideFunction:
        return ClientsideFunction("ropewalk", name)

    made.clientside_callback(
        function("paint"),
        Output({"picture": ALL}, "figure"),
        Input("drawn", "data"),
        Input("dark", "data"),
        State("page", "data"),
    )
    made.clientside_callback(
        function("said"),
        Output({"said": ALL}, "children"),
        Input({"slider": ALL}, "value"),
        Input({"slider": ALL}, "max"),
    )
    made.clientside_callback(
        function("keep"),
        Output({"language": ALL}, "href"),
        *(Input(control, "value") for control in CONTROLS),
        State("page", "data"),
    )
    made.clientside_callback(function("name"), Input("page", "data"))


def _kept_in(response: Any) -> Any:
    """Nothing on the page may be fetched from elsewhere."""
    response.headers["Content-Security-Policy"] = POLICY
    return response
