"""Requests about offsets: offsets before a time, and the committed offsets of groups.

The offsets of a group are in one of two stores, which are independent. Version 0 of OffsetCommit and
OffsetFetch uses ZooKeeper, through any broker; Kafka 4 does not serve it. Later versions use Kafka itself,
and only the coordinator of the group answers them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ottla.client.connection import Connection
from ottla.client.list_offsets import API as LIST_OFFSETS
from ottla.client.list_offsets import OffsetQuestion, list_offsets_request, offset_answers
from ottla.consumer.simple.simple_settings import INT_MAX, LONG_MAX, checked_number, checked_partition
from ottla.model.error_codes import Code
from ottla.model.errors import (
    ConfigError,
    KafkaError,
    LocalProtocolError,
    OffsetCommitFailed,
    OffsetFetchFailed,
    RemoteProtocolError,
)
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets import OffsetAndMetadata
from ottla.offsets.coordinator_messages import (
    NAMES_UNTIL,
    commit_codes,
    commit_request,
    fetch_request,
    fetched_offsets,
)
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from ottla.wire.schema import Api

LATEST_TIME = -1
EARLIEST_TIME = -2

ZOOKEEPER_VERSION = 0


# --- offsets before a time


def checked_offsets_before(
    topic_partition: TopicAndPartition, time: int, max_num_offsets: int
) -> TopicAndPartition:
    """Check the arguments of `offsets_before`. Raises ConfigError."""
    checked_number(
        "time", time, EARLIEST_TIME, LONG_MAX, "give -1 (latest), -2 (earliest) or milliseconds since 1970"
    )
    checked_number("max_num_offsets", max_num_offsets, 1, INT_MAX, "give 1 or more")
    return _checked(topic_partition)


def offsets_before(
    connection: Connection, wanted: TopicAndPartition, time: int, max_num_offsets: int
) -> tuple[int, ...]:
    """Ask by version 0 of ListOffsets if the broker has it, else by its newest. Raises KafkaError."""
    known = connection.versions.ranges.get(LIST_OFFSETS.key)
    version = 0 if known is not None and 0 in known else connection.version_for(LIST_OFFSETS)
    request = list_offsets_request([OffsetQuestion(wanted, time)], version, offsets_max=max_num_offsets)
    for answer in offset_answers(connection.call(request, version=version), version):
        if answer.topic_partition == wanted:
            if answer.error_code != Code.NONE:
                raise KafkaError(answer.error_code, f"offsets of {wanted} before time {time}")
            return answer.offsets
    raise RemoteProtocolError(
        f"{connection.address}: asked for {wanted}, which the ListOffsets response lacks"
    )


# --- offsets of groups


def commit(
    connection: Connection, group: str, offsets: Mapping[TopicAndPartition, OffsetAndMetadata], version: int
) -> None:
    """Commit offsets. Raises OffsetCommitFailed if some are refused; the others are stored."""
    chosen = _version(connection, OffsetCommitRequest.API, version)
    answer = connection.call(commit_request(group, offsets), version=chosen)
    refused = _refused(connection, group, commit_codes(answer, offsets), chosen)
    if refused:
        raise OffsetCommitFailed(group, refused)


def stored(
    connection: Connection, group: str, partitions: Collection[TopicAndPartition], version: int
) -> dict[TopicAndPartition, OffsetAndMetadata]:
    """Return the committed offsets; partitions without one are missing. Raises OffsetFetchFailed."""
    chosen = _version(connection, OffsetFetchRequest.API, version)
    answer = connection.call(fetch_request(group, partitions, chosen), version=chosen)
    offsets, codes, _ = fetched_offsets(answer, partitions, chosen)
    refused = _refused(connection, group, codes, chosen)
    if refused:
        raise OffsetFetchFailed(group, refused)
    return offsets


def checked_offsets(
    offsets: Mapping[TopicAndPartition, OffsetAndMetadata | int],
) -> dict[TopicAndPartition, OffsetAndMetadata]:
    """Check the offsets for `commit`. Raises ConfigError."""
    if not offsets:
        raise ConfigError("no offsets are given: commit_offsets(group, {TopicAndPartition(…): offset})")
    checked = {}
    for given, value in offsets.items():
        topic_partition = _checked(given)
        position = value if isinstance(value, OffsetAndMetadata) else OffsetAndMetadata(value)
        remedy = "give the next offset to read, 0 or more"
        checked_number(f"offset of {topic_partition}", position.offset, 0, LONG_MAX, remedy)
        if not isinstance(position.metadata, str):
            raise ConfigError(f"metadata of {topic_partition} is {position.metadata!r}: give a string")
        checked[topic_partition] = position
    return checked


def checked_partitions(partitions: Iterable[TopicAndPartition]) -> list[TopicAndPartition]:
    """Check the partitions for `stored`. Raises ConfigError."""
    checked = list(dict.fromkeys(map(_checked, partitions)))
    if not checked:
        raise ConfigError("no partitions are given: fetch_offsets(group, [TopicAndPartition(…)])")
    return checked


def _checked(topic_partition: TopicAndPartition) -> TopicAndPartition:
    if not isinstance(topic_partition, tuple) or len(topic_partition) != 2:
        raise ConfigError(f"{topic_partition!r} is not a partition: give TopicAndPartition(topic, partition)")
    return checked_partition(*topic_partition)


def _version(connection: Connection, api: Api, version: int) -> int:
    """Return 0 for 0, else the newest version that uses Kafka. Never silently uses the other store."""
    known = connection.versions.ranges.get(api.key)
    if version == ZOOKEEPER_VERSION:
        if known is None or ZOOKEEPER_VERSION not in known:
            raise _no_zookeeper(connection)
        return version
    chosen = connection.version_for(api, at_most=NAMES_UNTIL)
    if chosen == ZOOKEEPER_VERSION:
        raise LocalProtocolError(
            f"{connection.address} keeps offsets of groups in ZooKeeper only ({api.name} 0): give version=0"
        )
    return chosen


def _no_zookeeper(connection: Connection) -> LocalProtocolError:
    return LocalProtocolError(
        f"{connection.address} keeps no offsets in ZooKeeper (version 0): "
        "leave version out, and Kafka keeps them"
    )


def _refused(
    connection: Connection, group: str, codes: Mapping[TopicAndPartition, int], version: int
) -> dict[TopicAndPartition, int]:
    """Return the refused partitions with their codes. Raises if this broker cannot answer for the group."""
    if version == ZOOKEEPER_VERSION and Code.UNSUPPORTED_VERSION in codes.values():
        raise _no_zookeeper(connection)  # Kafka 3.x lists version 0 even where it runs without ZooKeeper
    if Code.NOT_COORDINATOR in codes.values():
        remedy = "find_coordinator(seed_brokers, group) returns the broker to connect to"
        raise KafkaError(Code.NOT_COORDINATOR, f"offsets of group {group!r} are not kept here; {remedy}")
    return {topic_partition: code for topic_partition, code in codes.items() if code != Code.NONE}
