"""The identities of the field and other people's code, held against this library on this machine."""

from collections.abc import Iterable, Iterator

from ropewalk.verify import absolute, arrival, attention, axes, biases, kernels, peers, rotation, scalings, written_out
from ropewalk.verify.check import Check as Check
from ropewalk.verify.check import Result as Result

MODULES = (absolute, rotation, axes, kernels, scalings, biases, attention, written_out, arrival, peers)
CHECKS: tuple[Check, ...] = tuple(check for module in MODULES for check in module.CHECKS)


def run(checks: Iterable[Check] = CHECKS) -> Iterator[Result]:
    """What comes of each check, one after the other: seconds in all, on the CPU.

    Example:
        >>> [result.holds for result in run(CHECKS[:3])]
        [True, True, True]
    """
    return (check.run() for check in checks)
