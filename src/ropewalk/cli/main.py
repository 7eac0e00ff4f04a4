"""`ropewalk`: the entry point, and what every command shares."""

import errno
import os
import sys

STOPPED = 130  # the exit code after Ctrl-C


def main() -> None:
    """Run the command line; the exit code is 0 done, 1 finding, 2 bad input, 3 the machine failed, 130 Ctrl-C."""
    try:
        from ropewalk.cli.app import app
    except ModuleNotFoundError as error:
        print(
            f"ropewalk: {error.name} is missing; the command line needs the extra: pip install 'ropewalk[cli]'",
            file=sys.stderr,
        )
        sys.exit(2)
    debug = "--debug" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        code = app(arguments, standalone_mode=False)
        if code == STOPPED:  # typer has caught Ctrl-C
            _say("stopped", code)
    except BaseException as error:
        if debug:
            raise
        code = _explain(error)
    sys.exit(code or 0)


def _explain(error: BaseException) -> int:
    """One line on stderr in place of a traceback, and the exit code."""
    import typer

    from ropewalk._errors import RopewalkError, VerificationError

    if isinstance(error, SystemExit):
        return int(error.code or 0)
    if isinstance(error, typer.Exit):
        return error.exit_code
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return _say("stopped", STOPPED)
    if hasattr(error, "show"):  # a usage error, of click or of the copy of click that newer typers carry
        error.show()
        return 2
    if isinstance(error, VerificationError):
        return _say(str(error), 1)
    if isinstance(error, RopewalkError):
        return _say(str(error), 2)
    if isinstance(error, OSError | MemoryError):
        full = getattr(error, "errno", None) == errno.ENOSPC
        return _say(f"the machine failed: {error}" + ("; free some space and run it again" if full else ""), 3)
    return _say(f"a fault of ropewalk's own: {type(error).__name__}: {error} (--debug shows where)", 3)


def _say(text: str, code: int) -> int:
    rank = os.environ.get("RANK") if "TORCHELASTIC_RUN_ID" in os.environ else None
    print(f"ropewalk: {text}" if rank is None else f"ropewalk, rank {rank}: {text}", file=sys.stderr)
    return code
