"""What a mirror raises beside what its consumer and its producer raise."""

from __future__ import annotations

from ottla.model.errors import OttlaError


class MirrorFailed(OttlaError):
    """Records could not be sent, and the mirror stops without committing them: the next run sends them."""


class NotTranslatable(OttlaError):
    """A position has no counterpart in the other cluster: its record is not mirrored yet."""
