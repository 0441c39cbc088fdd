"""Share sessions: which partitions a member fetches from one broker, so that each fetch names only changes.

A session begins with epoch 0, and each request of the member to that broker has the next epoch. -1 ends it.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.broker.share_groups.core.assignor import TopicIdPartition
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError

FIRST_EPOCH = 0
LAST_EPOCH = -1
EPOCH_MAX = 2**31 - 1


class SessionKey(NamedTuple):
    """A member of a group at a broker."""

    broker_id: int
    group_id: str
    member_id: str


@dataclass(slots=True)
class ShareSession:
    """The partitions of a session, in the order in which they are served next."""

    epoch: int = 1
    partitions: dict[TopicIdPartition, None] = field(default_factory=dict)

    def rotate(self) -> None:
        """Move the first partition to the end: it may have filled the whole answer."""
        if self.partitions:
            first = next(iter(self.partitions))
            del self.partitions[first]
            self.partitions[first] = None


class ShareSessions:
    """All sessions of the process, at most `count_max`."""

    def __init__(self) -> None:
        self._sessions: dict[SessionKey, ShareSession] = {}

    def take(self, key: SessionKey, epoch: int, count_max: int) -> ShareSession:
        """Return the session of a request; epoch 0 begins one. The next request needs the next epoch.

        Raises KafkaError 122 if there is no such session, 123 if it has another epoch, 133 if there are too
        many.
        """
        if epoch == FIRST_EPOCH:
            if key not in self._sessions and len(self._sessions) >= count_max:
                raise KafkaError(Code.SHARE_SESSION_LIMIT_REACHED, f"{count_max} share sessions")
            session = self._sessions[key] = ShareSession()
            return session
        known = self._sessions.get(key)
        if known is None:
            raise KafkaError(Code.SHARE_SESSION_NOT_FOUND, f"member {key.member_id!r}")
        if epoch == LAST_EPOCH:
            return known
        if epoch != known.epoch:
            raise KafkaError(Code.INVALID_SHARE_SESSION_EPOCH, f"epoch {epoch}, expected {known.epoch}")
        known.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        return known

    def end(self, key: SessionKey) -> ShareSession | None:
        """End a session, and return it."""
        return self._sessions.pop(key, None)

    def of_member(self, group_id: str, member_id: str) -> list[SessionKey]:
        """Return the sessions of a member at all brokers."""
        return [key for key in self._sessions if key[1:] == (group_id, member_id)]

    def have(self, group_id: str, members: Set[str], partition: TopicIdPartition) -> bool:
        """Whether one of these members of a group fetches from a partition."""
        return any(
            key.group_id == group_id and key.member_id in members and partition in session.partitions
            for key, session in self._sessions.items()
        )


def change(
    session: ShareSession, added: Iterable[TopicIdPartition], forgotten: Iterable[TopicIdPartition]
) -> None:
    """Add partitions to a session, and remove others."""
    for partition in added:
        session.partitions.setdefault(partition)
    for partition in forgotten:
        session.partitions.pop(partition, None)
