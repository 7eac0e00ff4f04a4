"""The page in a browser: its switches and keys work, nothing is refused by its own policy, nothing overflows."""

import html
import re
import shutil
import subprocess

import pytest
from extension_reports import HOSTILE, made

from ropewalk.report.html import render

BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), None)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(BROWSER is None, reason="no Chromium here")]

WATCH = """<script>const trouble = [];
addEventListener("error", (event) => trouble.push(event.message));
addEventListener("securitypolicyviolation", (event) => trouble.push(event.violatedDirective));</script>"""
ACT = """<script>setTimeout(() => {
  const of = (selector) => document.querySelector(selector), said = {};
  const traces = (id) => document.getElementById(id).data.length;
  said.before = [traces("curves"), traces("reading")];
  of(".method[data-method='2']").click();
  said.after = [traces("curves"), traces("reading"), document.querySelectorAll(".grids [hidden]").length];
  of("input[value=perplexity]").click();
  said.measure = of("#curves").layout.yaxis.title.text;
  of("#reading").dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" }));
  said.heard = of("#heard").textContent;
  of("#arcs-of").value = "1";
  of("#arcs-of").dispatchEvent(new Event("change"));
  said.arcs = of("#arcs").data.map((trace) => trace.meta?.state ?? null);
  said.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  said.trouble = trouble;
  document.body.append(Object.assign(document.createElement("output"), { textContent: JSON.stringify(said) }));
}, 2000)</script>"""


def seen(tmp_path, report: dict, width: int) -> str:
    """What a script finds on the page of `report` after acting as a reader would."""
    page = render(report).replace("<title>", WATCH + "<title>", 1).replace("</body>", ACT + "</body>")
    (tmp_path / "report.html").write_text(page)
    flags = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=20000",
        f"--window-size={width},900",
    ]
    command = [BROWSER, *flags, "--dump-dom", (tmp_path / "report.html").as_uri()]
    dumped = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    return html.unescape(re.search("<output>(.*)</output>", dumped).group(1))


@pytest.mark.parametrize("width", [1280, 500])
def test_a_reader_switches_and_reads(tmp_path, width):
    said = seen(tmp_path, made(), width)
    for part in (
        '"before":[7,3]', '"after":[5,2,2]', '"measure":"perplexity"', '"heard":"32: none 2.89, yarn 2.89"',
        '"arcs":[null,1,1]', '"overflow":0', '"trouble":[]',
    ):  # fmt: skip
        assert part in said


def test_hostile_names_do_nothing_there(tmp_path):
    said = seen(tmp_path, made(HOSTILE[:2], HOSTILE[2]), 500)
    assert '"overflow":0' in said
    assert '"trouble":[]' in said
