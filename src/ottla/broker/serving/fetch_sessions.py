"""Fetch sessions (KIP-227): a client names its partitions once, then only what has changed.

    full fetch, epoch 0 ──▶ answer with a session id ──▶ fetches of epoch 1, 2, …: changes of the partitions
                                                          answers: only partitions with news

A session remembers what the client asks of each partition, and what it was told. A partition has news if it
has records or an error, if its high watermark or its first offset has changed, or if its log was cut.
Partitions that gave records go to the end of the order, so that the others get their turn.

The number of sessions is limited, and the memory of all. A client that gets no session is answered session
0, and sends full fetches. At the limit a new session takes the place of one that nobody has used for two
minutes, or of a smaller one that is older than that: as in Kafka. A session ends by a fetch of epoch -1;
other than in Kafka it ends with its connection, too, so that killed clients leave none behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from ottla.broker.storage.memory import Share
from ottla.model.error_codes import Code
from ottla.wire.api.fetch import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    FetchTopicResponse,
)

EVICTION_MS = 120_000
PARTITION_BYTES = 600
"""Roughly the memory of a session for each partition: Python's objects with their numbers."""
NO_SESSION = 0
FINAL_EPOCH, FIRST_EPOCH = -1, 0
EPOCH_MAX = 2**31 - 1
UNKNOWN = -1


class PartitionKey(NamedTuple):
    """A partition of a session: by the topic's name, or from Fetch 13 on by its id; the other is empty."""

    topic: str
    topic_id: bytes
    partition: int


class SessionPartition:
    """What a client wants of a partition, and the last answer for it."""

    __slots__ = ("high_watermark", "log_start_offset", "wanted")

    def __init__(self, wanted: FetchPartition) -> None:
        self.wanted = wanted
        self.high_watermark = UNKNOWN
        self.log_start_offset = UNKNOWN

    def tell(self, answer: FetchPartitionResponse) -> bool:
        """Return whether an answer has news for the client, and remember it as sent."""
        is_news = (
            bool(answer.records)
            or answer.error_code != Code.NONE
            or answer.high_watermark != self.high_watermark
            or answer.log_start_offset != self.log_start_offset
            or answer.preferred_read_replica != UNKNOWN
            or answer.diverging_epoch.epoch != UNKNOWN
        )
        self.high_watermark = UNKNOWN if answer.error_code else answer.high_watermark
        self.log_start_offset = answer.log_start_offset
        return is_news


class FetchSession:
    """One client's session. `epoch` is the one that its next request must have."""

    def __init__(self, session_id: int, *, uses_ids: bool, now_ms: int) -> None:
        self.session_id = session_id
        self.uses_ids = uses_ids
        self.created_ms = self.used_ms = now_ms
        self.epoch = 1
        self.partitions: dict[PartitionKey, SessionPartition] = {}

    def change(self, request: FetchRequest) -> None:
        """Apply what the request adds, changes and forgets."""
        for key, wanted in _wanted(request):
            known = self.partitions.get(key)
            if known is None:
                self.partitions[key] = SessionPartition(wanted)
            else:
                known.wanted = wanted
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                self.partitions.pop(PartitionKey(topic.topic, topic.topic_id, index), None)
        self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1

    def topics(self) -> list[FetchTopic]:
        """Return what is to be read, in order; neighbours of one topic share an entry."""
        topics: list[FetchTopic] = []
        last: tuple[str, bytes] | None = None
        for key, known in self.partitions.items():
            if key[:2] != last:
                last = key[:2]
                topics.append(FetchTopic(topic=key.topic, topic_id=key.topic_id, partitions=[]))
            topics[-1].partitions.append(known.wanted)
        return topics

    def news(self, response: FetchResponse) -> FetchResponse:
        """Return the answer with only those partitions that have news for the client."""
        topics = []
        for topic in response.responses:
            partitions = [answer for answer in topic.partitions if self._tell(topic, answer)]
            if partitions:
                topics.append(
                    FetchTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=partitions)
                )
        response.responses = topics
        response.session_id = self.session_id
        return response

    def _tell(self, topic: FetchTopicResponse, answer: FetchPartitionResponse) -> bool:
        key = PartitionKey(topic.topic, topic.topic_id, answer.partition_index)
        known = self.partitions.get(key)
        if known is None or not known.tell(answer):
            return False
        if answer.records:
            del self.partitions[key]
            self.partitions[key] = known
        return True


class FetchSessions:
    """The sessions of one broker. Owned by its loop."""

    def __init__(self, memory: Share, new_id: Callable[[], int], slots: int = 1_000) -> None:
        self._memory = memory
        self._new_id = new_id
        self._slots = slots
        self.sessions: dict[int, FetchSession] = {}  # the session that was used longest ago is first

    def drop(self, session_id: int) -> None:
        """End a session, if there is one of this id."""
        session = self.sessions.pop(session_id, None)
        if session is not None:
            self._memory.used -= len(session.partitions) * PARTITION_BYTES

    def begin(
        self, request: FetchRequest, response: FetchResponse, *, uses_ids: bool, now_ms: int
    ) -> FetchResponse:
        """Begin a session after the answer to a full fetch, if there is room for it; the answer names it."""
        wanted = dict(_wanted(request))
        if not wanted or not self._makes_room(len(wanted), now_ms):
            return response
        session_id = self._new_id()
        while session_id == NO_SESSION or session_id in self.sessions:
            session_id = self._new_id()
        session = FetchSession(session_id, uses_ids=uses_ids, now_ms=now_ms)
        session.partitions = {key: SessionPartition(requested) for key, requested in wanted.items()}
        for topic in response.responses:
            for answer in topic.partitions:
                session.partitions[PartitionKey(topic.topic, topic.topic_id, answer.partition_index)].tell(
                    answer
                )
        self.sessions[session_id] = session
        self._memory.used += len(wanted) * PARTITION_BYTES
        response.session_id = session_id
        return response

    def go_on(self, request: FetchRequest, *, uses_ids: bool, now_ms: int) -> FetchSession | Code:
        """Return the session of an incremental fetch, changed as the request says, or the error.

        A session without partitions is over; so is one that has become too large.
        """
        session = self.sessions.get(request.session_id)
        if session is None:
            return Code.FETCH_SESSION_ID_NOT_FOUND
        if request.session_epoch != session.epoch:
            return Code.INVALID_FETCH_SESSION_EPOCH
        if session.uses_ids != uses_ids:
            return Code.FETCH_SESSION_TOPIC_ID_ERROR
        before = len(session.partitions)
        session.change(request)
        self._memory.used += (len(session.partitions) - before) * PARTITION_BYTES
        session.used_ms = now_ms
        self.sessions[session.session_id] = self.sessions.pop(session.session_id)
        if self._memory.is_full and len(session.partitions) > before:
            self._memory.refused += 1
            self.drop(session.session_id)
            return Code.FETCH_SESSION_ID_NOT_FOUND
        if not session.partitions:
            self.drop(session.session_id)
        return session

    def _makes_room(self, size: int, now_ms: int) -> bool:
        needed = size * PARTITION_BYTES
        if len(self.sessions) >= self._slots or self._memory.used + needed > self._memory.limit:
            victim = self._victim(size, now_ms)
            if victim is not None:
                self.drop(victim.session_id)
        has_room = len(self.sessions) < self._slots and self._memory.used + needed <= self._memory.limit
        self._memory.refused += not has_room
        return has_room

    def _victim(self, size: int, now_ms: int) -> FetchSession | None:
        oldest = next(iter(self.sessions.values()), None)
        if oldest is None or now_ms - oldest.used_ms > EVICTION_MS:
            return oldest
        settled = [session for session in self.sessions.values() if now_ms - session.created_ms > EVICTION_MS]
        smallest = min(settled, key=lambda session: len(session.partitions), default=None)
        return smallest if smallest is not None and len(smallest.partitions) <= size else None


def _wanted(request: FetchRequest) -> Iterator[tuple[PartitionKey, FetchPartition]]:
    for topic in request.topics:
        for wanted in topic.partitions:
            yield PartitionKey(topic.topic, topic.topic_id, wanted.partition), wanted
