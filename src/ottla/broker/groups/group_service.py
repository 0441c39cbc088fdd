"""Carries out the decisions of the group coordinator of one broker: replies, timers, records to store."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from ottla.broker.coordination.effects import Caller, Record
from ottla.broker.coordination.service import CoordinatorService, ReplyTo
from ottla.broker.coordination.topic_writer import CoordinatorWriter
from ottla.broker.storage.appending import Appender
from ottla.broker.storage.memory import SMALL_BYTES, Share
from ottla.broker.storage.partition import Partition
from ottla.broker.storage.runtime import Runtime
from ottla.broker.storage.topic_store import TopicStore
from ottla.log.end_markers import EndMarker
from ottla.model.error_codes import Code
from ottla.model.topic_partition import OFFSETS_TOPIC
from ottla.wire.schema import Request, Response

if TYPE_CHECKING:
    from ottla.broker.groups.coordinator import GroupCoordinator, GroupDecision  # noqa: F401 (base below)


JOIN_GROUP, SYNC_GROUP, CONSUMER_GROUP_HEARTBEAT = 11, 14, 68
"""Keys of APIs whose messages have metadata: their modules are loaded by the handlers."""


def _new_member_id() -> str:
    import uuid  # here: a start does not need it

    return str(uuid.uuid4())


class GroupService(CoordinatorService["GroupDecision"]):
    """The groups that a broker coordinates. Owned by the loop."""

    def __init__(
        self, broker_id: int, store: TopicStore, runtime: Runtime, memory: Share, appender: Appender
    ) -> None:
        super().__init__(CoordinatorWriter(OFFSETS_TOPIC, store, runtime, broker_id, appender), runtime)
        appender.marker_listeners.append(self._transaction_ended)
        self._memory = memory
        self._member_bytes = 0  # how much of `memory.used` is of our groups
        self._store = store
        self._config = store.config.groups

    @cached_property
    def coordinator(self) -> GroupCoordinator:
        """The coordinator. Its modules are a tenth of what a broker loads."""
        from ottla.broker.groups.cluster_topics import ClusterTopics
        from ottla.broker.groups.coordinator import GroupCoordinator

        topics = ClusterTopics(self._store)
        return GroupCoordinator(self._config, _new_member_id, topics, topics.overrides)

    def ask(self, request: Request[Any], caller: Caller) -> None:
        """Decide a request. `caller.ticket` is called with the answer, now or later."""
        refusal = self._refusal(request)
        if refusal is not None:
            self._memory.refused += 1
            cast(ReplyTo, caller.ticket)(refusal)
        else:
            super().ask(request, caller)

    def _refusal(self, request: Request[Any]) -> Response | None:
        """Return the answer to a request whose metadata would take too much memory; None if it is served.

        A group is stored as one record, so message.max.bytes limits the metadata of one request, as in Kafka.
        Small joins pass at the limit too: a few greedy members cannot shut out the others.
        """
        key, asked = request.API.key, cast(Any, request)
        if key == JOIN_GROUP:
            size = sum(len(protocol.metadata) for protocol in asked.protocols)
            if self._is_too_much(size):
                from ottla.wire.api.join_group import JoinGroupResponse

                return JoinGroupResponse(error_code=Code.GROUP_MAX_SIZE_REACHED, member_id=asked.member_id)
        elif key == SYNC_GROUP:
            size = sum(len(item.assignment) for item in asked.assignments)
            if self._is_too_much(size):
                from ottla.wire.api.sync_group import SyncGroupResponse

                return SyncGroupResponse(error_code=Code.UNKNOWN_SERVER_ERROR)
        elif key == CONSUMER_GROUP_HEARTBEAT:
            names = asked.subscribed_topic_names or []
            if self._is_too_much(sum(map(len, names)) + len(asked.subscribed_topic_regex or "")):
                from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

                return ConsumerGroupHeartbeatResponse(error_code=Code.GROUP_MAX_SIZE_REACHED)
        return None

    def _is_too_much(self, size: int) -> bool:
        if size <= SMALL_BYTES:
            return False
        size_max = self._store.config.log.max_message_bytes
        return size > size_max or self.count_memory() + size > self._memory.limit

    def count_memory(self) -> int:
        """Count the bytes of our members' metadata; return the sum for all brokers of the process."""
        if not self.is_used:
            return self._memory.used
        before, self._member_bytes = self._member_bytes, self.coordinator.metadata_bytes()
        self._memory.used += self._member_bytes - before
        return self._memory.used

    def forget_topic(self, topic: str) -> None:
        """Delete the offsets that groups have committed for a deleted topic."""
        if self.is_used:
            self._perform(self.coordinator.forget_topic(topic, self._runtime.steady_ms()))

    def _transaction_ended(self, partition: Partition, marker: EndMarker) -> None:
        if partition.topic == OFFSETS_TOPIC:
            index = partition.index
            self.coordinator.end_transaction(index, marker.producer_id, is_commit=marker.is_commit)

    # --- partitions of the offsets topic

    def lead(self, partition: Partition) -> None:
        """Load the groups of a partition of the offsets topic that this broker leads now."""
        self.coordinator.begin_load(partition.index)
        self._loads.begin(partition)

    def _replay(self, record: Record, producer_id: int | None) -> None:
        self.coordinator.replay(record, producer_id)
