"""The client's side of a fetch session (KIP-227): requests name only what has changed. Pure.

    session = ClientSession()
    request = session.request(plan, config, uses_ids=True)   # everything, later only changes
    response = session.whole(plan, response)                 # None: the session is lost, ask again

The broker remembers the partitions of the session, with the offset and size that were asked last, and leaves
out of its answers what has not changed. `whole` puts empty answers in their place where somebody waits for
one. A broker that wants no session answers with session 0; then every request names everything. `farewell`
ends the session, so that the broker can give its slot to another client.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from ottla.fetching.fetch_config import FetchConfig
from ottla.fetching.request_plan import FetchPlan, PartitionRequest, fetch_request
from ottla.model.error_codes import Code
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.api.fetch import (
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopicResponse,
    ForgottenTopic,
)

SESSIONS_SINCE = 7
NO_SESSION = 0
FIRST_EPOCH = 0
FINAL_EPOCH = -1
EPOCH_MAX = 2**31 - 1
_LOST = {
    Code.FETCH_SESSION_ID_NOT_FOUND,
    Code.INVALID_FETCH_SESSION_EPOCH,
    Code.FETCH_SESSION_TOPIC_ID_ERROR,
}


class Asked(NamedTuple):
    """What the broker remembers of a partition."""

    topic_id: bytes
    leader_epoch: int
    offset: int
    size: int

    @classmethod
    def by(cls, request: PartitionRequest) -> Asked:
        """Return what a request asks."""
        return cls(request.cursor.topic_id, request.cursor.leader_epoch, request.offset, request.size)

    def is_covered_by(self, known: Asked) -> bool:
        """Whether the broker need not be told: it may send less than is wanted now, never more."""
        return self[:3] == known[:3] and self.size >= known.size


class Told(NamedTuple):
    """What the broker has told of a partition, and does not repeat."""

    high_watermark: int
    last_stable_offset: int
    log_start_offset: int


class ClientSession:
    """One connection's session. One request may be under way."""

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self._uses_ids = False
        self._asked: dict[TopicAndPartition, Asked] = {}
        self._told: dict[TopicAndPartition, Told] = {}

    def request(self, plan: FetchPlan, config: FetchConfig, *, uses_ids: bool) -> FetchRequest:
        """Return the request for a plan: of everything at first, then of what has changed."""
        asked = {where: Asked.by(request) for where, request in plan.requests.items()}
        if self._epoch == FIRST_EPOCH or uses_ids != self._uses_ids:
            self._epoch, self._uses_ids = FIRST_EPOCH, uses_ids
            self._asked, self._told = asked, {}
            request = fetch_request(plan, config)
        else:
            before, self._asked = self._asked, asked
            changed = {}
            for where, wanted in plan.requests.items():
                known = before.get(where)
                if known is not None and asked[where].is_covered_by(known):
                    asked[where] = known
                else:
                    changed[where] = wanted
            request = fetch_request(replace(plan, requests=changed), config)
            request.forgotten_topics_data = self._forgotten(before)
        request.session_id, request.session_epoch = self._session_id, self._epoch
        return request

    def _forgotten(self, before: dict[TopicAndPartition, Asked]) -> list[ForgottenTopic]:
        """Partitions that are not asked any more, or whose topic was made anew."""
        topics: dict[tuple[str, bytes], ForgottenTopic] = {}
        for where, asked in before.items():
            now = self._asked.get(where)
            if now is None or (self._uses_ids and now.topic_id != asked.topic_id):
                self._told.pop(where, None)
                key = where.topic, asked.topic_id
                if key not in topics:
                    topics[key] = ForgottenTopic(topic=where.topic, topic_id=asked.topic_id, partitions=[])
                topics[key].partitions.append(where.partition)
        return list(topics.values())

    def whole(self, plan: FetchPlan, response: FetchResponse) -> FetchResponse | None:
        """Return the answer to all partitions, or None if the session is lost: then ask for everything.

        Partitions at the end of their log, from which nothing came and nothing is expected, stay out of it.
        """
        was_first = self._epoch == FIRST_EPOCH
        if response.error_code != Code.NONE:
            self._epoch = FIRST_EPOCH
            if response.error_code == Code.FETCH_SESSION_ID_NOT_FOUND:
                self._session_id = NO_SESSION
            return None if response.error_code in _LOST and not was_first else response
        if was_first:
            self._session_id = response.session_id
            self._epoch = 1 if response.session_id != NO_SESSION else FIRST_EPOCH
        elif response.session_id == NO_SESSION:  # the broker has closed it: it has no partitions left
            self._session_id, self._epoch = NO_SESSION, FIRST_EPOCH
        else:
            self._epoch = 1 if self._epoch == EPOCH_MAX else self._epoch + 1
        named = self._note(plan, response)
        if not was_first:
            response.responses += self._left_out(plan, named)
        return response

    def farewell(self) -> FetchRequest | None:
        """Return the request that ends the session, or None if there is no session."""
        if self._session_id == NO_SESSION:
            return None
        return FetchRequest(session_id=self._session_id, session_epoch=FINAL_EPOCH)

    def _note(self, plan: FetchPlan, response: FetchResponse) -> set[TopicAndPartition]:
        """Remember what was told; return the partitions that the answer names."""
        names = {request.cursor.topic_id: where.topic for where, request in plan.requests.items()}
        named = set()
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for answer in topic.partitions:
                where = TopicAndPartition(name, answer.partition_index)
                named.add(where)
                self._told[where] = Told(
                    answer.high_watermark, answer.last_stable_offset, answer.log_start_offset
                )
        return named

    def _left_out(self, plan: FetchPlan, named: set[TopicAndPartition]) -> list[FetchTopicResponse]:
        """Empty answers for partitions that the broker has left out, where they make a difference."""
        topics = []
        for where, request in plan.requests.items():
            cursor = request.cursor
            is_settled = cursor.lag == 0 and not cursor.failures and cursor.feed.trouble is None
            told = self._told.get(where)
            if where in named or is_settled or told is None:
                continue
            answer = FetchPartitionResponse(
                partition_index=where.partition,
                high_watermark=told.high_watermark,
                last_stable_offset=told.last_stable_offset,
                log_start_offset=told.log_start_offset,
                records=b"",
            )
            topics.append(FetchTopicResponse(topic=where.topic, partitions=[answer]))
        return topics
