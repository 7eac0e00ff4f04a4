"""transformers logs what it thinks of every odd config; the comparisons say it themselves."""

import pytest

try:
    from transformers.utils import logging
except ImportError:  # the environment of `make test-peers`
    logging = None


@pytest.fixture(autouse=True)
def _quiet_transformers():
    if logging is None:
        yield
        return
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    yield
    logging.set_verbosity(verbosity)
