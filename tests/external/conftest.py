"""transformers logs what it thinks of every odd config; the comparisons say it themselves."""

import pytest


@pytest.fixture(autouse=True)
def _quiet_transformers():
    logging = pytest.importorskip("transformers.utils.logging")
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    yield
    logging.set_verbosity(verbosity)
