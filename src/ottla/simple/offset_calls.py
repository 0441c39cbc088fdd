"""Requests about offsets and what their answers say: offsets before a time, and offsets that groups store.

A group's offsets are in one of two places, and they know nothing of each other. Version 0 of OffsetCommit and
OffsetFetch is ZooKeeper, through any broker; Kafka 4 has neither. Later versions are Kafka itself, and
only the group's coordinator answers them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ottla.client.connection import Connection
from ottla.fetching import TopicAndPartition
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError, KafkaError, LocalProtocolError, RemoteProtocolError
from ottla.offsets import OffsetAndMetadata, OffsetCommitFailed, OffsetFetchFailed
from ottla.offsets.coordinator_messages import (
    NAMES_UNTIL,
    commit_codes,
    commit_request,
    fetch_request,
    told,
)
from ottla.simple.settings import INT_MAX, LONG_MAX, checked_number, checked_place
from ottla.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from ottla.wire.schema import Api

LATEST_TIME = -1
EARLIEST_TIME = -2
NO_OFFSET = -1

ZOOKEEPER_VERSION = 0

_CONSUMER = -1


# --- offsets before a time


def checked_question(place: TopicAndPartition, time: int, max_num_offsets: int) -> TopicAndPartition:
    """What `offsets_before` takes. Raises ConfigError."""
    checked_number(
        "time", time, EARLIEST_TIME, LONG_MAX, "give -1 (latest), -2 (earliest) or milliseconds since 1970"
    )
    checked_number("max_num_offsets", max_num_offsets, 1, INT_MAX, "give 1 or more")
    return _checked(place)


def offsets_before(
    connection: Connection, place: TopicAndPartition, time: int, max_num_offsets: int
) -> tuple[int, ...]:
    """By version 0 if the broker has it, else by its newest. Raises KafkaError."""
    api = ListOffsetsRequest.API
    known = connection.versions.ranges.get(api.key)
    version = 0 if known is not None and 0 in known else connection.version_for(api)
    row = ListOffsetsPartition(partition_index=place.partition, timestamp=time)
    if version == 0:
        row.max_num_offsets = max_num_offsets
    topics = [ListOffsetsTopic(name=place.topic, partitions=[row])]
    answer = connection.call(ListOffsetsRequest(replica_id=_CONSUMER, topics=topics), version=version)
    for topic in answer.topics:
        for one in topic.partitions:
            if (topic.name, one.partition_index) == place:
                if one.error_code != Code.NONE:
                    raise KafkaError(one.error_code, f"offsets of {place} before time {time}")
                found = one.old_style_offsets if version == 0 else [one.offset]
                return tuple(offset for offset in found if offset != NO_OFFSET)
    raise RemoteProtocolError(f"{connection.address}: asked for {place}, ListOffsets answers without it")


# --- offsets of groups


def commit(
    connection: Connection, group: str, offsets: Mapping[TopicAndPartition, OffsetAndMetadata], version: int
) -> None:
    """Store them. Raises OffsetCommitFailed if some are refused."""
    chosen = _version(connection, OffsetCommitRequest.API, version)
    answer = connection.call(commit_request(group, offsets), version=chosen)
    refused = _refused(connection, group, commit_codes(answer, offsets), chosen)
    if refused:
        raise OffsetCommitFailed(group, refused)


def stored(
    connection: Connection, group: str, places: Collection[TopicAndPartition], version: int
) -> dict[TopicAndPartition, OffsetAndMetadata]:
    """What is stored, without the partitions for which nothing is. Raises OffsetFetchFailed."""
    chosen = _version(connection, OffsetFetchRequest.API, version)
    answer = connection.call(fetch_request(group, places, chosen), version=chosen)
    offsets, codes, _ = told(answer, places, chosen)
    refused = _refused(connection, group, codes, chosen)
    if refused:
        raise OffsetFetchFailed(group, refused)
    return offsets


def checked_offsets(
    offsets: Mapping[TopicAndPartition, OffsetAndMetadata | int],
) -> dict[TopicAndPartition, OffsetAndMetadata]:
    """What `commit` takes. Raises ConfigError."""
    if not offsets:
        raise ConfigError("no offsets are given: commit_offsets(group, {TopicAndPartition(…): offset})")
    checked = {}
    for given, value in offsets.items():
        place = _checked(given)
        wanted = value if isinstance(value, OffsetAndMetadata) else OffsetAndMetadata(value)
        checked_number(
            f"offset of {place}", wanted.offset, 0, LONG_MAX, "give the next one to read, 0 or more"
        )
        if not isinstance(wanted.metadata, str):
            raise ConfigError(f"metadata of {place} is {wanted.metadata!r}: give a text")
        checked[place] = wanted
    return checked


def checked_places(places: Iterable[TopicAndPartition]) -> list[TopicAndPartition]:
    """What `stored` takes. Raises ConfigError."""
    checked = list(dict.fromkeys(_checked(one) for one in places))
    if not checked:
        raise ConfigError("no partitions are given: fetch_offsets(group, [TopicAndPartition(…)])")
    return checked


def _checked(place: TopicAndPartition) -> TopicAndPartition:
    if not isinstance(place, tuple) or len(place) != 2:
        raise ConfigError(f"{place!r} is no partition: give TopicAndPartition(topic, partition)")
    return checked_place(*place)


def _version(connection: Connection, api: Api, version: int) -> int:
    """0 is 0; any other is the newest that is no ZooKeeper. Never one store in the place of the other."""
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
    """What was refused, with its code. Raises what it is if this is the wrong broker altogether."""
    if version == ZOOKEEPER_VERSION and Code.UNSUPPORTED_VERSION in codes.values():
        raise _no_zookeeper(connection)  # Kafka 3.x lists version 0 even where it runs without ZooKeeper
    if Code.NOT_COORDINATOR in codes.values():
        whom = "find_coordinator(seed_brokers, group) tells the broker to connect to"
        raise KafkaError(Code.NOT_COORDINATOR, f"offsets of group {group!r} are not kept here; {whom}")
    return {place: code for place, code in codes.items() if code != Code.NONE}
