"""What a source says about its transactions, for `source_cuts`: offsets, headers of batches, coordinators."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable
from contextlib import ExitStack

from ottla.admin import Admin
from ottla.client.metadata import ClusterMetadata
from ottla.client.offset_lookup import OffsetLookup
from ottla.client.pool import ConnectionPool
from ottla.fetching.fetch_config import IsolationLevel
from ottla.mirror.mirror_settings import Properties, admin_properties, client_config
from ottla.mirror.source_cuts import Logs, Offsets
from ottla.model.closing import Closing
from ottla.model.errors import KafkaError, OttlaError
from ottla.model.offset_spec import LATEST
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.entries import read_only, scan
from ottla.records.transactions import transaction_steps
from ottla.wire.api.fetch import FetchPartition, FetchPartitionResponse, FetchRequest, FetchTopic

log = logging.getLogger(__name__)

SCAN_BYTES_MAX = 64 << 20
"""How many bytes are read ahead of the mirror for one cut."""
_PARTITION_BYTES, _REQUEST_BYTES = 1 << 20, 8 << 20
_NAMES_UNTIL = 12
_BEING_MARKED = frozenset({"PrepareCommit", "PrepareAbort"})


class SourceLogs(Closing):
    """The `CutQuestions` of a stream. Only the stream's thread uses it."""

    def __init__(self, source: Properties) -> None:
        config = client_config(source)
        with ExitStack() as stack:
            self._metadata = stack.enter_context(ClusterMetadata(config))
            self._pool = stack.enter_context(ConnectionPool(config, self._metadata))
            self._stable = OffsetLookup(
                config, self._metadata, IsolationLevel.READ_COMMITTED, pool=self._pool
            )
            stack.callback(self._stable.close)
            self._ends = OffsetLookup(config, self._metadata, pool=self._pool)
            stack.callback(self._ends.close)
            self._admin = stack.enter_context(Admin(admin_properties(source)))
            self._resources = stack.pop_all()

    def close(self) -> None:
        """Close all connections. May be called twice."""
        self._resources.close()

    def stable(self, partitions: Iterable[TopicAndPartition]) -> dict[TopicAndPartition, int]:
        return _found(self._stable, partitions)

    def ends(self, partitions: Iterable[TopicAndPartition]) -> dict[TopicAndPartition, int]:
        return _found(self._ends, partitions)

    def settled(self, producer_ids: Iterable[int]) -> frozenset[int]:
        try:
            listed = self._admin.list_transactions(producer_ids=producer_ids)
        except OttlaError as error:  # brokers before Kafka 3.0, or a coordinator that moves
            log.debug("coordinators do not report the states of transactions: %s", error)
            return frozenset()
        return frozenset(each.producer_id for each in listed if each.state not in _BEING_MARKED)

    def read_on(self, logs: Logs, ends: Offsets) -> bool:
        left_bytes, before = SCAN_BYTES_MAX, None
        while behind := {each: log.end for each, log in logs.items() if log.end < ends[each]}:
            if left_bytes <= 0 or behind == before:
                return False  # too much, or damaged
            before = behind
            by_leader: dict[int, dict[TopicAndPartition, int]] = defaultdict(dict)
            for topic_partition, offset in behind.items():
                by_leader[self._metadata.leader(*topic_partition).node.broker_id][topic_partition] = offset
            for broker_id, offsets in by_leader.items():
                left_bytes -= self._read(broker_id, offsets, logs)
        return True

    def _read(self, broker_id: int, offsets: Offsets, logs: Logs) -> int:
        """Read more of the logs of a leader, and return how many bytes arrived."""
        topics: dict[str, FetchTopic] = {}
        for (topic, index), offset in offsets.items():
            wanted = FetchPartition(
                partition=index, fetch_offset=offset, partition_max_bytes=_PARTITION_BYTES
            )
            topics.setdefault(topic, FetchTopic(topic=topic, partitions=[])).partitions.append(wanted)
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=_REQUEST_BYTES, topics=list(topics.values())
        )
        try:
            answer = self._pool.to(broker_id).call(request, at_most=_NAMES_UNTIL)
        except OttlaError:
            self._pool.drop(broker_id)
            raise
        return sum(
            self._take(TopicAndPartition(topic.topic, row.partition_index), row, logs)
            for topic in answer.responses
            for row in topic.partitions
        )

    def _take(self, topic_partition: TopicAndPartition, answer: FetchPartitionResponse, logs: Logs) -> int:
        if answer.error_code:
            self._metadata.invalidate(*topic_partition)
            raise KafkaError(answer.error_code, f"{topic_partition}: reading transactions")
        entries = scan(read_only(answer.records or b""), verify_crc=False)
        spans = logs[topic_partition]
        for step in transaction_steps(entries.table, entries.data):
            if step.last_offset >= spans.end:
                spans.see(step)
        if len(entries.table):
            spans.end = max(spans.end, entries.summary.next_offset)
        return entries.data.size


def _found(lookup: OffsetLookup, partitions: Iterable[TopicAndPartition]) -> dict[TopicAndPartition, int]:
    ends = lookup.offsets_at(dict.fromkeys(partitions, LATEST))
    return {topic_partition: offset or 0 for topic_partition, offset in ends.items()}
