"""Logs that a test leaves open are closed after it, as in the log's own tests."""

from __future__ import annotations

from tests.log.conftest import _descriptors_of_the_dead

__all__ = ["_descriptors_of_the_dead"]
