"""`ropewalk explore`: the page on which the encodings can be seen and touched."""

import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from ropewalk._errors import RopewalkError
from ropewalk.checkpoints.config import from_config
from ropewalk.cli.shared import Model
from ropewalk.explorer.address import address
from ropewalk.explorer.panel import Panel


def explore(
    model: Model = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of this machine; 0 takes a free one.")] = 8050,
    export: Annotated[
        Path | None, typer.Option("--export", metavar="FILE", help="Write the page to one .html file instead.")
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address and open nothing.")] = False,
) -> None:
    """See and touch the encodings on a local page, in English and Korean; nothing is fetched.

    MODEL, a directory, a .gguf or a name of `ropewalk models`, is shown in the rotary spectrum.

    Example: ropewalk explore
    """
    from ropewalk.explorer.panels import panels  # what no other command has to wait for

    given = {} if model is None else {str(model): from_config(model)}
    if any(not spec.main.rotates for spec in given.values()):
        raise RopewalkError(f"{model}: no layer of this model rotates, so it has no rotary spectrum to show")
    every = panels(given)
    if export is not None:
        _write(export, every)
        return
    from ropewalk.explorer.serve import serve

    query = address("en", "spectrum") if given else ""

    def ready(home: str) -> None:
        typer.echo(f"{home}{query}  (Ctrl-C ends it)")
        if not no_browser:
            webbrowser.open(home + query)

    serve(every, port, ready)


def _write(export: Path, every: Mapping[str, Panel]) -> None:
    from ropewalk.explorer.export import render

    if export.suffix != ".html" or not export.parent.is_dir():
        raise RopewalkError(f"{export}: give a file that ends in .html, in a folder that exists")
    export.write_text(render(every), encoding="utf-8")
    typer.echo(f"wrote {export}")
