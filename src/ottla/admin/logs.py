"""Offsets of logs by time, and deletion of records; one request per broker."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from ottla.admin.access import ClusterAccess
from ottla.admin.admin_errors import many
from ottla.client.list_offsets import API as LIST_OFFSETS
from ottla.client.list_offsets import MAX_TIMESTAMP_SINCE, OffsetAnswer, OffsetQuestion
from ottla.client.lookup_calls import ask_offsets
from ottla.model.cluster_view import EMPTY, NO_EPOCH, ClusterView
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError, KafkaError, OttlaError, Unsupported
from ottla.model.offset_spec import LATEST, OffsetOrTime, OffsetSpec, parse_offset_spec
from ottla.model.topic_partition import TopicAndPartition, by_topic
from ottla.wire.api.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)

log = logging.getLogger(__name__)

V = TypeVar("V")
Outcomes = dict[TopicAndPartition, V | OttlaError]

MAX_TIMESTAMP = "max-timestamp"
"""For `list_offsets`: the record with the largest timestamp."""

_MAX_TIMESTAMP_MS = -3  # as ListOffsets writes it
_END_OF_LOG = -1  # as DeleteRecords writes it


@dataclass(frozen=True, slots=True)
class LogOffset:
    """`offset` is None if no record has that time or a later one.

    The other fields are None if brokers do not send them.

        >>> from ottla import Admin, TopicAndPartition
        >>> with Admin(bootstrap_servers="127.0.0.1:9092") as admin:
        ...     admin.list_offsets(TopicAndPartition("orders", 0), at="latest").offset
        3
    """

    offset: int | None
    timestamp_ms: int | None = None
    leader_epoch: int | None = None


def present_ms() -> int:
    """Return the time now."""
    return int(time.time() * 1000)


def log_time(spec: OffsetSpec, now_ms: int) -> int:
    """Return the time that `spec` means, as ListOffsets writes it. Raises ConfigError for an offset."""
    if spec == MAX_TIMESTAMP:
        return _MAX_TIMESTAMP_MS
    parsed = parse_offset_spec(spec, now_ms, name="at")
    if parsed.offset is not None:
        raise ConfigError(
            f"at={spec!r}: this is an offset; give 'earliest', 'latest', '{MAX_TIMESTAMP}', a datetime with "
            "a time zone, or a timedelta before now"
        )
    return parsed.time


class LogCalls:
    """Each call returns an outcome for every partition."""

    def __init__(self, access: ClusterAccess) -> None:
        self.access = access

    async def expanded(
        self, partitions: str | Iterable[str | TopicAndPartition], purpose: str
    ) -> tuple[list[TopicAndPartition], dict[str, OttlaError]]:
        """Return the partitions, those of topics too, and errors of missing topics."""
        listed = [partitions] if isinstance(partitions, str) else list(partitions)
        topics = [name for name in listed if isinstance(name, str)]
        named = many((name for name in listed if not isinstance(name, str)), TopicAndPartition)
        of_topics, failed = await self.partitions(topics, purpose)
        return list(dict.fromkeys(named + of_topics)), failed

    async def partitions(
        self, topics: Iterable[str], purpose: str
    ) -> tuple[list[TopicAndPartition], dict[str, OttlaError]]:
        """Return all partitions of topics, and the errors of topics that do not exist."""
        names = list(topics)
        topic_partitions: list[TopicAndPartition] = []
        failed: dict[str, OttlaError] = {}
        view = await self.access.view(names, purpose) if names else EMPTY
        for name in names:
            topic = view.topics.get(name)
            if topic is None or topic.error:
                code = topic.error if topic is not None else Code.UNKNOWN_TOPIC_OR_PARTITION
                failed[name] = KafkaError(code, f"topic {name!r}")
            else:
                topic_partitions += [
                    TopicAndPartition(name, partition.index) for partition in topic.partitions
                ]
        return topic_partitions, failed

    # --- offsets

    async def offsets(
        self, times: Mapping[TopicAndPartition, int], *, committed_only: bool = False
    ) -> Outcomes[LogOffset]:
        """Look up the offset of a time in each partition; times are what `log_time` returns."""
        version = await self.access.version(LIST_OFFSETS) or 0
        if _MAX_TIMESTAMP_MS in times.values() and version < MAX_TIMESTAMP_SINCE:
            raise Unsupported(f"{MAX_TIMESTAMP}: brokers before 3.0 cannot look up the largest timestamp")
        return await self.access.settle(
            times,
            lambda topic_partitions: self._offsets_once(
                {name: times[name] for name in topic_partitions}, committed_only=committed_only
            ),
            is_repeatable=True,
        )

    async def _offsets_once(
        self, times: Mapping[TopicAndPartition, int], *, committed_only: bool
    ) -> Outcomes[LogOffset]:
        outcomes: Outcomes[LogOffset]
        outcomes, by_leader = await self.by_leader(times, "offsets of logs")
        for broker_id, topic_partitions in by_leader.items():
            try:
                answers = await ask_offsets(
                    await self.access.broker(broker_id),
                    [
                        OffsetQuestion(topic_partition, times[topic_partition])
                        for topic_partition in topic_partitions
                    ],
                    isolation_level=int(committed_only),
                    timeout_ms=self.access.config.client.request_timeout_ms,
                )
            except OttlaError as error:
                outcomes |= dict.fromkeys(topic_partitions, error)
            else:
                outcomes |= {answer.topic_partition: _log_offset(answer) for answer in answers}
        return outcomes

    # --- records

    async def delete_records(self, ends: Mapping[TopicAndPartition, OffsetOrTime]) -> Outcomes[int]:
        """Delete the records before an offset or a time; return the new first offset of each log."""
        if not await self.access.has(DeleteRecordsRequest.API):
            raise Unsupported(
                f"deleting records: {await self.access.no_such_call(DeleteRecordsRequest.API)} "
                "(it came with 0.11); set "
                "retention.ms or retention.bytes of the topic for a while instead"
            )
        before, failed = await self._offsets_of(ends)
        outcomes = failed | await self.access.settle(
            before,
            lambda topic_partitions: self._delete_once({name: before[name] for name in topic_partitions}),
            is_repeatable=True,
        )
        done = sum(isinstance(outcome, int) for outcome in outcomes.values())
        log.info("records of %d partitions deleted up to an offset", done)
        return outcomes

    async def _offsets_of(
        self, ends: Mapping[TopicAndPartition, OffsetOrTime]
    ) -> tuple[dict[TopicAndPartition, int], Outcomes[int]]:
        """Return offsets as DeleteRecords writes them, and the errors of look-ups."""
        times = {
            topic_partition: end.time
            for topic_partition, end in ends.items()
            if end.offset is None and end.time != LATEST
        }
        looked_up = await self.offsets(times) if times else {}
        before: dict[TopicAndPartition, int] = {}
        failed: Outcomes[int] = {}
        for topic_partition, end in ends.items():
            outcome = looked_up.get(topic_partition, LogOffset(end.offset))
            if isinstance(outcome, OttlaError):
                failed[topic_partition] = outcome
            else:
                before[topic_partition] = _END_OF_LOG if outcome.offset is None else outcome.offset
        return before, failed

    async def _delete_once(self, before: Mapping[TopicAndPartition, int]) -> Outcomes[int]:
        outcomes: Outcomes[int]
        outcomes, by_leader = await self.by_leader(before, "deleting records")
        for broker_id, topic_partitions in by_leader.items():
            request = DeleteRecordsRequest(
                topics=[
                    DeleteRecordsTopic(
                        name=topic,
                        partitions=[
                            DeleteRecordsPartition(
                                partition_index=number, offset=before[TopicAndPartition(topic, number)]
                            )
                            for number in numbers
                        ],
                    )
                    for topic, numbers in by_topic(topic_partitions).items()
                ],
                timeout_ms=self.access.config.client.request_timeout_ms,
            )
            try:
                answer = await (await self.access.broker(broker_id)).call(request)
            except OttlaError as error:
                outcomes |= dict.fromkeys(topic_partitions, error)
                continue
            for topic in answer.topics:
                for row in topic.partitions:
                    topic_partition = TopicAndPartition(topic.name, row.partition_index)
                    outcomes[topic_partition] = (
                        leader_error(row.error_code, topic_partition) or row.low_watermark
                    )
        return outcomes

    async def by_leader(
        self, topic_partitions: Iterable[TopicAndPartition], purpose: str
    ) -> tuple[Outcomes[V], dict[int, list[TopicAndPartition]]]:
        """Group partitions by leader; also return the errors of partitions without one."""
        listed = list(topic_partitions)
        view = await self.access.view_once(
            sorted({topic_partition.topic for topic_partition in listed}), purpose
        )
        outcomes: Outcomes[V] = {}
        by_leader: dict[int, list[TopicAndPartition]] = defaultdict(list)
        for topic_partition in listed:
            leader = _leader(view, topic_partition)
            if isinstance(leader, OttlaError):
                outcomes[topic_partition] = leader
            else:
                by_leader[leader].append(topic_partition)
        return outcomes, by_leader


def _leader(view: ClusterView, topic_partition: TopicAndPartition) -> int | KafkaError:
    topic = view.topics.get(topic_partition.topic)
    if topic is None or topic.error:
        code = topic.error if topic is not None else Code.UNKNOWN_TOPIC_OR_PARTITION
        return KafkaError(code, f"topic {topic_partition.topic!r}")
    partition = topic.partition(topic_partition.partition)
    if partition is None:
        return KafkaError(
            Code.UNKNOWN_TOPIC_OR_PARTITION,
            f"topic {topic_partition.topic!r} has {len(topic.partitions)} partitions, and none with number "
            f"{topic_partition.partition}",
        )
    if partition.leader not in view.brokers:
        return KafkaError(Code.LEADER_NOT_AVAILABLE, str(topic_partition))
    return partition.leader


def leader_error(code: int, topic_partition: TopicAndPartition) -> KafkaError | None:
    """Return the error for a code.

    A leader that does not know its partition has not heard of it yet: it is retriable.
    """
    if code == Code.UNKNOWN_TOPIC_OR_PARTITION:
        code = Code.NOT_LEADER_OR_FOLLOWER
    return KafkaError(code, str(topic_partition)) if code else None


def _log_offset(answer: OffsetAnswer) -> LogOffset | KafkaError:
    failure = leader_error(answer.error_code, answer.topic_partition)
    if failure is not None:
        return failure
    return LogOffset(
        offset=answer.offset if answer.offset >= 0 else None,
        timestamp_ms=answer.timestamp_ms if answer.timestamp_ms >= 0 else None,
        leader_epoch=answer.leader_epoch if answer.leader_epoch != NO_EPOCH else None,
    )
