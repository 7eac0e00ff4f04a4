"""Take the README's picture of `ropewalk explore` with Debian's Chromium: python recipes/explore_picture.py"""

import threading
from pathlib import Path

from playwright.sync_api import sync_playwright
from werkzeug.serving import make_server

from ropewalk.explorer.address import address
from ropewalk.explorer.app import app
from ropewalk.explorer.panels import panels

PICTURE = Path(__file__).parents[1] / "docs/explore.png"

server = make_server("127.0.0.1", 0, app(panels()).server, threaded=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
    page = browser.new_page(viewport={"width": 1180, "height": 1180})
    page.goto(f"http://127.0.0.1:{server.port}/{address('en', 'rotation', {'step': 8})}")
    page.wait_for_selector(".js-plotly-plot .main-svg")
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(1000)
    page.screenshot(path=PICTURE)
server.shutdown()
