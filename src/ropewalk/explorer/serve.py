"""The local page's server: this machine alone reaches it, until Ctrl-C."""

import logging
import socket
from collections.abc import Callable, Mapping

from ropewalk._errors import RopewalkError
from ropewalk.explorer.panel import Panel


def serve(panels: Mapping[str, Panel], port: int, ready: Callable[[str], None]) -> None:
    """Serve the page until the process is stopped.

    Args:
        port: of 127.0.0.1; 0 takes a free one.
        ready: called with the page's address once it answers there.

    Raises:
        RopewalkError: Dash is missing, or the port is taken.
    """
    try:
        from werkzeug.serving import make_server

        from ropewalk.explorer.app import app
    except ModuleNotFoundError as error:
        raise RopewalkError(
            f"{error.name} is missing; the local page needs Dash, the extra: pip install 'ropewalk[explore]' "
            "(--export FILE writes the page without it)"
        ) from error
    try:
        door = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise RopewalkError(
            f"port {port} cannot be had ({error.strerror}); give another by --port, or 0 for any"
        ) from error
    with door:
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        server = make_server("127.0.0.1", door.getsockname()[1], app(panels).server, threaded=True, fd=door.fileno())
        ready(f"http://127.0.0.1:{server.port}/")
        server.serve_forever()  # werkzeug swallows the Ctrl-C that ends it
        raise KeyboardInterrupt
