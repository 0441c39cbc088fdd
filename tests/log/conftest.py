"""Fixtures of the log's tests."""

from __future__ import annotations

import logging
from random import Random

import pytest


@pytest.fixture
def random() -> Random:
    """Another seed each run; a failure shows it in its captured log, to be put in here."""
    seed = Random().randrange(1 << 32)
    logging.getLogger(__name__).warning("seed %d", seed)
    return Random(seed)
