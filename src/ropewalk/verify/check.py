"""A check and what came of it."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

import torch

AGAINST = ("identity", "float64 twin", "transformers")
EXTRA = "pip install 'ropewalk[hf]'"


@dataclass(frozen=True)
class Check:
    """One sentence that has to be true, and a measure of how far it is from being true here.

    Attributes:
        name: short, what a finding is called by.
        statement: the sentence.
        against: "identity" (it holds by itself), "float64 twin" (the formula written out plainly) or "transformers".
        tolerance: the largest error with which it still holds; 0 means bit for bit.
        error: computes the largest error.

    Example:
        >>> Check("halves", "Two halves make a whole.", "identity", 0.0, lambda: 0.5 + 0.5 - 1.0).run().holds
        True
    """

    name: str
    statement: str
    against: str
    tolerance: float
    error: Callable[[], float]

    def run(self) -> "Result":
        """Compute the error; the random state of torch is left as it was.

        A package that is missing or too old makes a check that was not run. Any other exception is a
        finding, but for memory that ran out.
        """
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=[]):
                error = float(self.error())
        except MemoryError:
            raise
        except Exception as raised:
            if isinstance(raised, ImportError) and _package(raised) != "ropewalk":
                return Result(self, None, None, _missing(raised))
            return Result(self, None, False, f"{type(raised).__name__}: {raised}")
        return Result(self, error, error <= self.tolerance)  # worded so that a NaN fails


@dataclass(frozen=True)
class Result:
    """What came of a check.

    Attributes:
        check: which one.
        largest_error: None where it could not be computed.
        holds: None where the check was not run.
        note: why it was not run, or what was raised.
    """

    check: Check
    largest_error: float | None
    holds: bool | None
    note: str | None = None


def _package(error: ImportError) -> str:
    return (error.name or "").split(".")[0]


def _missing(error: ImportError) -> str:
    """What to install, and for a package that is there, what it lacks."""
    package = _package(error)
    if package and find_spec(package) is None:
        return f"not run without {package}: {EXTRA}"
    return f"not run with this {package or 'package'} ({error}): {EXTRA}"
