"""The page's words, addresses and questions, the exported file, and what the command refuses."""

import json
import re
import socket
import string
import sys

import pytest

from ropewalk.explorer.address import address, read
from ropewalk.explorer.export import render
from ropewalk.explorer.panel import Choice
from ropewalk.explorer.panels import panels
from ropewalk.explorer.quiz import QUESTIONS, QUIZ
from ropewalk.explorer.words import LANGUAGES, words

PANELS = panels()


def test_languages_have_the_same_keys_and_places():
    tables = {code: words(code).table for code in LANGUAGES}
    for table in tables.values():
        assert table.keys() == tables["en"].keys()
        assert {key: _places(text) for key, text in table.items()} == {k: _places(v) for k, v in tables["en"].items()}
        assert all(text.strip() == text and text for text in table.values())


def test_korean_is_korean():
    """Beyond names and formulas, no text stands there in English."""
    table, english = words("ko").table, words("en").table
    same = {key for key in table if table[key] == english[key]}
    assert same == {"name", "grid.dim", "waves.dim", "alibi.title"}
    assert {key for key in table if not re.search("[가-힣]", table[key])} == same | {"grid.grid.tensor2tensor"}


@pytest.mark.parametrize("language", LANGUAGES)
def test_everything_on_the_page_has_words(language):
    table = words(language).table
    for name, panel in PANELS.items():
        wanted = [f"{name}.{part}" for part in ("title", "about", "try", "mind", *panel.pictures)]
        wanted += [f"{name}.{control.name}" for control in panel.controls]
        assert set(wanted) <= table.keys()
    for name in QUESTIONS:
        assert {f"quiz.{name}.{part}" for part in ("question", "answer", "try")} <= table.keys()


def test_questions_lead_to_states_that_exist():
    assert len(QUESTIONS) == 6
    for panel, values in QUESTIONS.values():
        state = PANELS[panel].state(values)
        assert values.items() <= state.items()
        assert values


def test_an_address_keeps_a_state():
    for panel in PANELS.values():
        other = {c.name: c.options[-1] if isinstance(c, Choice) else c.default for c in panel.controls}
        state = panel.state(other)
        language, name, given = read(address("ko", panel.name, state), PANELS, "grid")
        assert (language, name, panel.state(given)) == ("ko", panel.name, state)
    assert read("?lang=xx&panel=nothing&dim=8", PANELS, "grid") == ("en", "grid", {"dim": "8"})
    assert read(None, PANELS, "grid")[1] == "grid"


def test_the_exported_page_holds_every_state_and_fetches_nothing():
    page = render(PANELS)
    drawn = json.loads(re.search('id="drawn">(.*?)</script>', page, re.DOTALL)[1])
    for name, panel in PANELS.items():
        assert len(drawn["panels"][name]["states"]) == sum(1 for _ in panel.shared_states())
    kept = drawn["panels"]["rotation"]
    start = kept["states"][",".join(map(str, kept["start"]))]
    said = PANELS["rotation"].draw(PANELS["rotation"].state(), words("ko")).facts
    assert [value for _, value in start["ko"]["facts"]] == list(said.values())
    assert "default-src 'none'" in page
    assert not re.search(r'(?:src|href)="(?!#)', page.split("<script")[0])
    assert f'id="ko-{QUIZ}"' in page


def test_the_command_exports(ropewalk, tmp_path):
    outcome = ropewalk("explore", "smollm2-135m", "--export", tmp_path / "page.html")
    assert (outcome.code, outcome.err) == (0, "")
    assert (tmp_path / "page.html").stat().st_size > 1_000_000
    assert ropewalk("explore", "--export", tmp_path / "page.pdf").code == 2
    assert ropewalk("explore", "bloom", "--export", tmp_path / "page.html").code == 2


@pytest.mark.parametrize("name", ["waves", "rotation", "score", "biases", "comparison", "shuffle"])
def test_panels_are_drawn_as_pictures(ropewalk, tmp_path, name):
    assert ropewalk("plot", name, "--out", tmp_path / "picture.svg").code == 0
    assert "</svg>" in (tmp_path / "picture.svg").read_text()


@pytest.mark.parametrize(
    "refused", [("waves", "--pair", 16), ("biases", "--head", 9), ("shuffle", "word"), ("score", "--head-dim", 3)]
)
def test_what_cannot_be_drawn_is_refused(ropewalk, tmp_path, refused):
    outcome = ropewalk("plot", *refused, "--out", tmp_path / "picture.png")
    assert outcome.code == 2
    assert not (tmp_path / "picture.png").exists()


def test_a_missing_extra_is_named(ropewalk, monkeypatch):
    monkeypatch.setitem(sys.modules, "dash", None)
    monkeypatch.delitem(sys.modules, "ropewalk.explorer.app", raising=False)
    monkeypatch.delitem(sys.modules, "ropewalk.explorer.layout", raising=False)
    outcome = ropewalk("explore", "--no-browser")
    assert outcome.code == 2
    assert "ropewalk[explore]" in outcome.err


def test_a_port_that_is_taken_is_said(ropewalk):
    pytest.importorskip("dash")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        outcome = ropewalk("explore", "--no-browser", "--port", taken.getsockname()[1])
    assert outcome.code == 2
    assert "--port" in outcome.err


def test_the_local_page_names_no_other_machine():
    pytest.importorskip("dash")
    from ropewalk.explorer.app import app

    client = app(PANELS).server.test_client()
    answer = client.get("/")
    assert answer.status_code == 200
    assert re.findall(r'(?:src|href)="(?!/)[^"]*"', answer.text) == []
    assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
    for script in re.findall(r'src="([^"]+)"', answer.text):
        assert client.get(script).status_code == 200
    for private in ("strings_en.json", "app.py"):
        assert client.get(f"/assets/{private}").status_code == 404


def _places(text: str) -> set[str]:
    return set() if "%{" in text else {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}
