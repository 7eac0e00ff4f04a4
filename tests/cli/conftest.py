"""The command line, called as the entry point calls it."""

import sys
from typing import NamedTuple

import pytest

from ropewalk.cli.main import main


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def ropewalk(capsys, monkeypatch):
    """Run `ropewalk` with these arguments."""

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["ropewalk", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        return Outcome(stopped.value.code, *capsys.readouterr())

    return run
