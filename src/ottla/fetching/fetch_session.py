"""The client's side of a fetch session (KIP-227): requests name only what has changed. Pure.

    session = ClientSession()
    request = session.request(plan, config, uses_ids=True)   # everything, later only changes
    response = session.whole(plan, response)                 # None: the session is lost, ask again

The broker remembers the partitions of the session, with the offset and size of the last request, and leaves
unchanged partitions out of its answers. `whole` adds empty answers for those that a cursor waits for. A
broker that wants no session answers with session 0; then every request names everything. `farewell` ends the
session, so that the broker can give its slot to another client.
"""

from __future__ import annotations

from collections.abc import Iterable
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


class RequestedPartition(NamedTuple):
    """What the broker remembers of a partition: the last request for it."""

    topic_id: bytes
    leader_epoch: int
    offset: int
    size: int

    @classmethod
    def by(cls, request: PartitionRequest) -> RequestedPartition:
        """Return what a request says about its partition."""
        return cls(request.cursor.topic_id, request.cursor.leader_epoch, request.offset, request.size)

    def is_covered_by(self, known: RequestedPartition) -> bool:
        """Whether this need not be sent: the broker may send less than is wanted now, but not more."""
        return self[:3] == known[:3] and self.size >= known.size


class AnsweredOffsets(NamedTuple):
    """What the broker has answered about a partition, and does not repeat."""

    high_watermark: int
    last_stable_offset: int
    log_start_offset: int


class ClientSession:
    """The session of one connection. At most one request is under way."""

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self._uses_ids = False
        self._requested: dict[TopicAndPartition, RequestedPartition] = {}
        self._last: dict[TopicAndPartition, PartitionRequest] = {}
        self._answered: dict[TopicAndPartition, AnsweredOffsets] = {}

    def request(self, plan: FetchPlan, config: FetchConfig, *, uses_ids: bool) -> FetchRequest:
        """Return the request for a plan: first with all partitions, then with those that have changed."""
        if self._epoch == FIRST_EPOCH or uses_ids != self._uses_ids:
            self._epoch, self._uses_ids = FIRST_EPOCH, uses_ids
            self._requested, self._answered = {}, {}
        before, last, self._requested, self._last = self._requested, self._last, {}, plan.requests
        changed = {}
        for topic_partition, wanted in plan.requests.items():
            known = before.get(topic_partition)
            # A partition that rests has the same request in each plan.
            if known is None or last.get(topic_partition) is not wanted:
                now = RequestedPartition.by(wanted)
                if known is None or not now.is_covered_by(known):
                    known, changed[topic_partition] = now, wanted
            self._requested[topic_partition] = known
        request = fetch_request(replace(plan, requests=changed), config)
        request.forgotten_topics_data = self._forgotten(before, changed)
        request.session_id, request.session_epoch = self._session_id, self._epoch
        return request

    def _forgotten(
        self, before: dict[TopicAndPartition, RequestedPartition], changed: Iterable[TopicAndPartition]
    ) -> list[ForgottenTopic]:
        """Return the partitions that are not requested any more, or whose topic was created again."""
        topics: dict[tuple[str, bytes], ForgottenTopic] = {}
        for topic_partition in [*(before.keys() - self._requested.keys()), *changed]:
            previous, now = before.get(topic_partition), self._requested.get(topic_partition)
            if previous is None:
                continue
            if now is None or (self._uses_ids and now.topic_id != previous.topic_id):
                self._answered.pop(topic_partition, None)
                key = topic_partition.topic, previous.topic_id
                if key not in topics:
                    topics[key] = ForgottenTopic(
                        topic=topic_partition.topic, topic_id=previous.topic_id, partitions=[]
                    )
                topics[key].partitions.append(topic_partition.partition)
        return list(topics.values())

    def whole(self, plan: FetchPlan, response: FetchResponse) -> FetchResponse | None:
        """Return the response with all partitions, or None if the session is lost: then request everything.

        Partitions at the end of their log that got nothing, and expect nothing, are left out.
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
        # The broker has closed the session: it has no partitions left.
        elif response.session_id == NO_SESSION:
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
        """Remember what the response says; return the partitions that it names."""
        named = set()
        for topic in response.responses:
            name = topic.topic or plan.names().get(topic.topic_id, "")
            for answer in topic.partitions:
                topic_partition = TopicAndPartition(name, answer.partition_index)
                named.add(topic_partition)
                self._answered[topic_partition] = AnsweredOffsets(
                    answer.high_watermark, answer.last_stable_offset, answer.log_start_offset
                )
        return named

    def _left_out(self, plan: FetchPlan, named: set[TopicAndPartition]) -> list[FetchTopicResponse]:
        """Return empty answers for partitions that the broker has left out and a cursor waits for."""
        topics = []
        for topic_partition, request in plan.requests.items():
            cursor = request.cursor
            if cursor.resting is not None:
                continue
            is_settled = cursor.lag == 0 and not cursor.failures and cursor.feed.trouble is None
            offsets = self._answered.get(topic_partition)
            if topic_partition in named or is_settled or offsets is None:
                continue
            answer = FetchPartitionResponse(
                partition_index=topic_partition.partition,
                high_watermark=offsets.high_watermark,
                last_stable_offset=offsets.last_stable_offset,
                log_start_offset=offsets.log_start_offset,
                records=b"",
            )
            topics.append(FetchTopicResponse(topic=topic_partition.topic, partitions=[answer]))
        return topics
