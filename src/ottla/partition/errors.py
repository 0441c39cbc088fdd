"""What can be wrong with a replay."""

from __future__ import annotations

from ottla.model.errors import OttlaError


class ReplayStalled(OttlaError):
    """Nothing could be read for long: the message tells where, and the last error of a partition."""


class Untimed(OttlaError):
    """Times are asked for, and the broker and its records have none."""
