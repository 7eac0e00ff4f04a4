"""The page in Chromium, other machines out of reach: controls answer with the library's numbers, nothing is fetched."""

import statistics
import threading
from urllib.parse import urlsplit

import pytest

from ropewalk.explorer.address import address, read
from ropewalk.explorer.export import render
from ropewalk.explorer.panel import Choice, Slider, Text
from ropewalk.explorer.panels import panels
from ropewalk.explorer.quiz import QUESTIONS, QUIZ
from ropewalk.explorer.words import LANGUAGES, words

pytest.importorskip("dash")
driver = pytest.importorskip("playwright.sync_api")
from report.test_browser import BROWSER  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.skipif(BROWSER is None, reason="no Chromium here")]
PANELS = panels()
SLOW = 400  # ms a slider may take here: twice what a reader is promised
PASTED = """{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 2, "num_hidden_layers": 1,
"max_position_embeddings": 2048}"""
TYPED = {"config": PASTED, "sentence": "one two three four five"}
# From a key on a slider to the numbers it changed and the pictures drawn after them.
CLOCK = """(name) => new Promise((done) => {
  const slider = document.querySelector(`input[type=range][id*='"${name}"']`);
  const graphs = [...document.querySelectorAll(".js-plotly-plot")];
  let started, waiting = graphs.length;
  const drawn = () => { if (!--waiting) done(performance.now() - started); };
  graphs.forEach((graph) => graph.once("plotly_afterplot", drawn));
  const step = Number(slider.step), up = Number(slider.value) + step <= Number(slider.max);
  const { set } = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value");
  set.call(slider, Number(slider.value) + (up ? step : -step));
  started = performance.now();
  slider.dispatchEvent(new Event("input", { bubbles: true }));
})"""


@pytest.fixture(scope="module")
def home():
    from werkzeug.serving import make_server

    from ropewalk.explorer.app import app

    server = make_server("127.0.0.1", 0, app(PANELS).server, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.port}/"
    server.shutdown()


@pytest.fixture(scope="module")
def chromium():
    with driver.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield browser
        browser.close()


def outside(url: str) -> bool:
    """Whether this is of another machine."""
    return urlsplit(url).scheme not in ("data", "blob", "file") and urlsplit(url).hostname != "127.0.0.1"


@pytest.fixture
def opened(chromium):
    """A page that reaches this machine alone, and what went wrong on it."""
    trouble, pages = [], []

    def go(where: str, width: int = 1280, scheme: str = "light"):
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        context.route(outside, lambda route: route.abort())
        page = context.new_page()
        page.on(
            "console", lambda message: trouble.append(message.text) if message.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("request", lambda request: trouble.append(request.url) if outside(request.url) else None)
        page.goto(where)
        pages.append(context)
        return page

    yield go
    for context in pages:
        context.close()
    assert trouble == []


def settled(page, panel, language: str) -> dict:
    """The state that the address names, once the page shows the library's numbers for it; pictures are compared too."""
    _, name, given = read(urlsplit(page.url).query, PANELS, "grid")
    assert name == panel.name
    state = panel.state(given)
    drawn = panel.draw(state, words(language))
    for fact, value in drawn.facts.items():
        driver.expect(page.locator(f"#fact-{fact}")).to_have_text(value)
    for picture in panel.pictures:
        shown = page.locator(f"""[id*='"{picture}"'] .js-plotly-plot, .js-plotly-plot[id*='"{picture}"']""").first
        traces = drawn.pictures[picture]["data"]
        page.wait_for_function(
            """([element, traces]) => traces.every((trace, at) => ["x", "y", "z", "r"].every((key) =>
                trace[key] === undefined || JSON.stringify(element.data[at]?.[key]) === JSON.stringify(trace[key])))""",
            arg=[shown.element_handle(), traces],
        )
    return state


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", PANELS)
def test_every_control_is_answered_with_the_library_s_numbers(opened, home, name, language):
    panel = PANELS[name]
    page = opened(home + address(language, name))
    before = settled(page, panel, language)
    assert page.evaluate("document.documentElement.lang") == language
    for control in panel.controls:
        moved(page, control, before)
        page.wait_for_function("name => new URLSearchParams(location.search).has(name)", arg=control.name)
        after = settled(page, panel, language)
        assert after[control.name] != before[control.name]
        before = after
    page.reload()  # the address holds all of it
    assert settled(page, panel, language) == before


def moved(page, control, state) -> None:
    """Move one control as the keyboard moves it."""
    at = page.locator(f"""[id*='"{control.name}"']""")
    if isinstance(control, Slider):
        slider = at.and_(page.locator("input[type=range]"))
        slider.focus()
        down = state[control.name] + control.step > int(slider.get_attribute("max"))
        page.keyboard.press("ArrowLeft" if down else "ArrowRight")
    elif isinstance(control, Choice):
        other = next(option for option in reversed(control.options) if option != state[control.name])
        if at.locator("input[type=radio]").count():
            at.locator(f"input[type=radio][value='{other}']").focus()
            page.keyboard.press("Space")
        else:
            at.first.click()
            page.get_by_role("option").filter(has_text=words("en").option("", other)).last.click()
    elif isinstance(control, Text):
        at.fill(TYPED[control.name])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_nothing_overflows_a_phone(opened, home, language, scheme):
    page = opened(home + address(language, "grid"), 360, scheme)
    for name in [*PANELS, QUIZ]:
        page.goto(home + address(language, name))
        page.wait_for_selector(".js-plotly-plot .main-svg" if name != QUIZ else "details")
        page.wait_for_timeout(300)
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0


def test_links_lead_from_panel_to_panel_and_back(opened, home):
    page = opened(home)
    for name, panel in PANELS.items():
        if name != "grid":
            page.get_by_role("link", name=words("en")(f"{name}.title"), exact=True).click()
        assert settled(page, panel, "en") == panel.state()
    page.go_back()
    settled(page, PANELS[list(PANELS)[-2]], "en")


def test_the_language_is_switched_in_place(opened, home):
    page = opened(home + address("en", "rotation", {"m": 4}))
    settled(page, PANELS["rotation"], "en")
    page.get_by_text("한국어").click()
    driver.expect(page.get_by_role("heading", level=2)).to_have_text(words("ko")("rotation.title"))
    assert settled(page, PANELS["rotation"], "ko")["m"] == 4
    assert page.title().startswith(words("ko")("rotation.title"))


def test_questions_are_answered_and_lead_to_a_panel(opened, home):
    for name, (panel, values) in QUESTIONS.items():
        page = opened(home + address("en", QUIZ))
        question = page.locator(f"#question-{name}")
        question.locator("summary").focus()
        page.keyboard.press("Enter")
        question.get_by_role("link").click()
        page.wait_for_selector("#facts dd")
        assert values.items() <= settled(page, PANELS[panel], "en").items()


def test_a_refusal_is_said_and_goes_again(opened, home):
    page = opened(home + address("en", "spectrum"))
    settled(page, PANELS["spectrum"], "en")
    page.locator("textarea").fill("{")
    driver.expect(page.get_by_role("alert")).to_contain_text("not JSON")
    page.locator("textarea").fill("")
    driver.expect(page.locator("#refusal")).to_be_empty()


def test_colours_follow_the_screen(opened, home):
    page = opened(home + address("en", "rotation"), scheme="dark")
    settled(page, PANELS["rotation"], "en")
    ink = "document.querySelector('.js-plotly-plot').layout.font.color"
    assert page.evaluate(ink) == "#d0d0d0"
    page.emulate_media(color_scheme="light")
    page.wait_for_function(f"() => {ink} === '#333333'")


@pytest.mark.parametrize("name", [name for name, panel in PANELS.items() if isinstance(panel.controls[0], Slider)])
def test_a_slider_answers_at_once(opened, home, name):
    panel = PANELS[name]
    page = opened(home + address("en", name))
    settled(page, panel, "en")
    times = [page.evaluate(CLOCK, panel.controls[0].name) for _ in range(7)]
    print(f"{name}: {statistics.median(times):.0f} ms, at most {max(times):.0f}")
    assert statistics.median(times) < SLOW


def test_the_exported_page_works_alone(opened, tmp_path):
    (tmp_path / "page.html").write_text(render(PANELS))
    page = opened((tmp_path / "page.html").as_uri() + "#ko-rotation", 390)
    page.wait_for_selector("[lang=ko] .js-plotly-plot .main-svg")
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    slider = page.locator("#ko-rotation input[data-place='2']")
    slider.focus()
    page.keyboard.press("ArrowRight")
    panel = PANELS["rotation"]
    step = panel.controls[2].shared[1]
    said = panel.draw(panel.state({"step": step}), words("ko")).facts
    assert page.locator("#ko-rotation dd").all_inner_texts() == list(said.values())
    page.get_by_role("button", name="English").click()
    assert page.locator("#en-rotation dd").all_inner_texts() == list(said.values())
    page.locator("#en-quiz summary").last.click()
    page.locator("#en-quiz a").last.click()
    said = panel.draw(panel.state(QUESTIONS["rotation"][1]), words("en")).facts
    assert page.locator("#en-rotation dd").all_inner_texts() == list(said.values())
