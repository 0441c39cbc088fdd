"""What a member of a group learns that no other client does."""

from __future__ import annotations

from ottla.model.errors import OttlaError


class PartitionsLost(OttlaError):
    """A commit came too late: the group has given the partitions to others, who read from the last commit on.

    Poll to join again.
    """


class ConsumerClosed(OttlaError):
    """The consumer is closed: make another one."""
