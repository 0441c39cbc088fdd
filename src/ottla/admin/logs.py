"""Where logs begin and end, what offset a time has, and the deletion of records. One request a broker."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import TypeVar

from ottla.admin.access import ClusterAccess
from ottla.admin.errors import Unsupported
from ottla.model.cluster_view import EMPTY, NO_EPOCH, ClusterView
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError, KafkaError, OttlaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.api.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

log = logging.getLogger(__name__)

V = TypeVar("V")
Outcomes = dict[TopicAndPartition, V | OttlaError]

END_OF_LOG = -1
"""Delete all records that there are."""

_SINGLE_OFFSETS_SINCE = 1  # of ListOffsets
_ISOLATION_SINCE = 2
_LARGEST_TIMESTAMP_SINCE = 7


class At(IntEnum):
    """Special times; the numbers of the protocol."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3


Moment = At | int | datetime
"""A special time, milliseconds since 1970, or a moment; one without a time zone is of this machine's."""


@dataclass(frozen=True, slots=True)
class LogOffset:
    """`offset` is None where no record is of that time or later. None also for what brokers do not tell."""

    offset: int | None
    timestamp_ms: int | None = None
    leader_epoch: int | None = None


def moment_ms(moment: Moment) -> int:
    """As the protocol writes it. Raises ConfigError."""
    number = round(moment.timestamp() * 1000) if isinstance(moment, datetime) else moment
    if not isinstance(number, int) or number < At.MAX_TIMESTAMP:
        raise ConfigError(
            f"{moment!r:.100} is no time: give At.LATEST, At.EARLIEST, milliseconds since 1970 or a datetime"
        )
    return int(number)


class LogCalls:
    """Every call returns an outcome for every partition."""

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access

    def partitions(
        self, topics: Iterable[str], wish: str
    ) -> tuple[list[TopicAndPartition], dict[str, OttlaError]]:
        """All partitions of topics, and the errors of topics that are not there."""
        names = list(topics)
        places: list[TopicAndPartition] = []
        failed: dict[str, OttlaError] = {}
        view = self._access.view(names, wish) if names else EMPTY
        for name in names:
            topic = view.topics.get(name)
            if topic is None or topic.error:
                code = topic.error if topic is not None else Code.UNKNOWN_TOPIC_OR_PARTITION
                failed[name] = KafkaError(code, f"topic {name!r}")
            else:
                places += [TopicAndPartition(name, one.index) for one in topic.partitions]
        return places, failed

    # --- offsets

    def offsets(
        self, moments: Mapping[TopicAndPartition, Moment], *, committed_only: bool = False
    ) -> Outcomes[LogOffset]:
        """The offset of a moment in each partition."""
        times = {place: moment_ms(moment) for place, moment in moments.items()}
        version = self._access.version(ListOffsetsRequest.API) or 0
        if At.MAX_TIMESTAMP in times.values() and version < _LARGEST_TIMESTAMP_SINCE:
            raise Unsupported("At.MAX_TIMESTAMP: brokers before 3.0 do not tell the largest timestamp")
        return self._access.settle(
            times,
            lambda places: self._asked_for_offsets(
                {one: times[one] for one in places}, committed_only=committed_only
            ),
            is_repeatable=True,
        )

    def _asked_for_offsets(
        self, times: Mapping[TopicAndPartition, int], *, committed_only: bool
    ) -> Outcomes[LogOffset]:
        outcomes: Outcomes[LogOffset]
        outcomes, by_leader = self._by_leader(times, "offsets of logs")
        for broker_id, places in by_leader.items():
            try:
                connection = self._access.pool.to(broker_id)
                version = connection.version_for(ListOffsetsRequest.API)
                request = ListOffsetsRequest(
                    replica_id=-1,
                    topics=[
                        ListOffsetsTopic(
                            name=topic,
                            partitions=[
                                ListOffsetsPartition(
                                    partition_index=number,
                                    timestamp=times[TopicAndPartition(topic, number)],
                                )
                                for number in numbers
                            ],
                        )
                        for topic, numbers in by_topic(places).items()
                    ],
                    timeout_ms=self._access.config.client.request_timeout_ms,
                )
                if version >= _ISOLATION_SINCE:
                    request.isolation_level = int(committed_only)
                answer = connection.call(request, version=version)
            except OttlaError as error:
                outcomes |= dict.fromkeys(places, error)
                continue
            for topic in answer.topics:
                for row in topic.partitions:
                    place = TopicAndPartition(topic.name, row.partition_index)
                    outcomes[place] = _log_offset(row, place, version)
        return outcomes

    # --- records

    def delete_records(self, before: Mapping[TopicAndPartition, int]) -> Outcomes[int]:
        """Delete the records before an offset; where each log begins then."""
        if not self._access.has(DeleteRecordsRequest.API):
            raise Unsupported(
                f"deleting records: {self._access.lack(DeleteRecordsRequest.API)} (it came with 0.11); set "
                "retention.ms or retention.bytes of the topic for a while instead"
            )
        outcomes = self._access.settle(
            before,
            lambda places: self._asked_to_delete({one: before[one] for one in places}),
            is_repeatable=True,
        )
        done = sum(isinstance(outcome, int) for outcome in outcomes.values())
        log.info("records of %d partitions deleted up to an offset", done)
        return outcomes

    def _asked_to_delete(self, before: Mapping[TopicAndPartition, int]) -> Outcomes[int]:
        outcomes: Outcomes[int]
        outcomes, by_leader = self._by_leader(before, "deleting records")
        for broker_id, places in by_leader.items():
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
                    for topic, numbers in by_topic(places).items()
                ],
                timeout_ms=self._access.config.client.request_timeout_ms,
            )
            try:
                answer = self._access.pool.to(broker_id).call(request)
            except OttlaError as error:
                outcomes |= dict.fromkeys(places, error)
                continue
            for topic in answer.topics:
                for row in topic.partitions:
                    place = TopicAndPartition(topic.name, row.partition_index)
                    outcomes[place] = _failure(row.error_code, place) or row.low_watermark
        return outcomes

    def _by_leader(
        self, places: Iterable[TopicAndPartition], wish: str
    ) -> tuple[Outcomes[V], dict[int, list[TopicAndPartition]]]:
        """The partitions by the broker that leads them, and errors of those that nobody does."""
        listed = list(places)
        view = self._access.view_once(sorted({place.topic for place in listed}), wish)
        outcomes: Outcomes[V] = {}
        by_leader: dict[int, list[TopicAndPartition]] = defaultdict(list)
        for place in listed:
            found = _leader(view, place)
            if isinstance(found, OttlaError):
                outcomes[place] = found
            else:
                by_leader[found].append(place)
        return outcomes, by_leader


def by_topic(places: Iterable[TopicAndPartition]) -> dict[str, list[int]]:
    """Partition numbers of each topic."""
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(places):
        topics[topic].append(partition)
    return topics


def _leader(view: ClusterView, place: TopicAndPartition) -> int | KafkaError:
    topic = view.topics.get(place.topic)
    if topic is None or topic.error:
        code = topic.error if topic is not None else Code.UNKNOWN_TOPIC_OR_PARTITION
        return KafkaError(code, f"topic {place.topic!r}")
    partition = topic.partition(place.partition)
    if partition is None:
        return KafkaError(
            Code.UNKNOWN_TOPIC_OR_PARTITION,
            f"topic {place.topic!r} has {len(topic.partitions)} partitions, and none with number "
            f"{place.partition}",
        )
    if partition.leader not in view.brokers:
        return KafkaError(Code.LEADER_NOT_AVAILABLE, str(place))
    return partition.leader


def _failure(code: int, place: TopicAndPartition) -> KafkaError | None:
    """A leader that does not know its partition has yet to hear of it: the cluster's metadata do."""
    if code == Code.UNKNOWN_TOPIC_OR_PARTITION:
        code = Code.NOT_LEADER_OR_FOLLOWER
    return KafkaError(code, str(place)) if code else None


def _log_offset(
    row: ListOffsetsPartitionResponse, place: TopicAndPartition, version: int
) -> LogOffset | KafkaError:
    failure = _failure(row.error_code, place)
    if failure is not None:
        return failure
    if version < _SINGLE_OFFSETS_SINCE:
        return LogOffset(row.old_style_offsets[0] if row.old_style_offsets else None)
    return LogOffset(
        offset=row.offset if row.offset >= 0 else None,
        timestamp_ms=row.timestamp if row.timestamp >= 0 else None,
        leader_epoch=row.leader_epoch if row.leader_epoch != NO_EPOCH else None,
    )
