"""The styles and scripts that stand in the page itself, local or exported."""

from importlib import resources

FILES = {"css": ("report/style.css", "explorer/explorer.css"), "js": ("explorer/page.js",)}


def shared(kind: str, *own: str) -> str:
    """The report's look and the explorer's, or the script that both pages share; and `own` files of this folder."""
    files = [*FILES[kind], *(f"explorer/{file}" for file in own)]
    return "\n".join(resources.files("ropewalk").joinpath(file).read_text(encoding="utf-8") for file in files)
