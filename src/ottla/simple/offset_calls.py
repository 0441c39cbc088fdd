"""Requests about offsets and what their answers say: offsets before a time, and offsets that groups store.

A group's offsets are in one of two places, and they know nothing of each other. Version 0 of OffsetCommit and
OffsetFetch is ZooKeeper, through any broker; Kafka 4 has neither. Later versions are Kafka itself, and
only the group's coordinator answers them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.client.connection import Connection
from ottla.fetching import TopicAndPartition
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError, KafkaError, LocalProtocolError, RemoteProtocolError
from ottla.simple.settings import INT_MAX, LONG_MAX, checked_number, checked_place
from ottla.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.api.offset_commit import OffsetCommitPartition, OffsetCommitRequest, OffsetCommitTopic
from ottla.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchTopic
from ottla.wire.schema import Api

LATEST_TIME = -1
EARLIEST_TIME = -2
NO_OFFSET = -1

ZOOKEEPER_VERSION = 0
COMMIT_NAMES_UNTIL = 9
"""Later versions of OffsetCommit name topics by ids."""
FETCH_ONE_GROUP_UNTIL = 7
"""Later versions of OffsetFetch ask for several groups."""

_CONSUMER = -1


class OffsetAndMetadata(NamedTuple):
    """The offset of the next message that a group reads, and a note of its own."""

    offset: int
    metadata: str = ""


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
        for told in topic.partitions:
            if (topic.name, told.partition_index) == place:
                if told.error_code != Code.NONE:
                    raise KafkaError(told.error_code, f"offsets of {place} before time {time}")
                found = told.old_style_offsets if version == 0 else [told.offset]
                return tuple(offset for offset in found if offset != NO_OFFSET)
    raise RemoteProtocolError(f"{connection.address}: asked for {place}, ListOffsets answers without it")


# --- offsets of groups


def commit(
    connection: Connection, group: str, offsets: Mapping[TopicAndPartition, OffsetAndMetadata], version: int
) -> None:
    """Store them. Raises KafkaError that names the first that was refused and how many were."""
    api = OffsetCommitRequest.API
    chosen = _version(connection, api, version, COMMIT_NAMES_UNTIL)
    topics: dict[str, OffsetCommitTopic] = {}
    for place, (offset, note) in offsets.items():
        topic = topics.setdefault(place.topic, OffsetCommitTopic(name=place.topic, partitions=[]))
        topic.partitions.append(
            OffsetCommitPartition(
                partition_index=place.partition, committed_offset=offset, committed_metadata=note
            )
        )
    request = OffsetCommitRequest(group_id=group, topics=list(topics.values()))
    answer = connection.call(request, version=chosen)
    refused = [
        (TopicAndPartition(topic.name, row.partition_index), row.error_code)
        for topic in answer.topics
        for row in topic.partitions
        if row.error_code != Code.NONE
    ]
    if refused:
        place, code = refused[0]
        context = (
            f"group {group!r}: {len(refused)} of {len(offsets)} offsets were not stored, of {place} first"
        )
        raise KafkaError(code, context + _remedy(code))


def stored(
    connection: Connection, group: str, places: Iterable[TopicAndPartition], version: int
) -> dict[TopicAndPartition, OffsetAndMetadata]:
    """What is stored, without the partitions for which nothing is. Raises KafkaError."""
    chosen = _version(connection, OffsetFetchRequest.API, version, FETCH_ONE_GROUP_UNTIL)
    topics: dict[str, OffsetFetchTopic] = {}
    for topic, partition in places:
        topics.setdefault(topic, OffsetFetchTopic(name=topic, partition_indexes=[])).partition_indexes.append(
            partition
        )
    request = OffsetFetchRequest(group_id=group, topics=list(topics.values()))
    answer = connection.call(request, version=chosen)
    _raise_unless_fine(answer.error_code, f"offsets of group {group!r}")
    found = {}
    for told in answer.topics:
        for row in told.partitions:
            # This is how brokers up to 0.10 say that there is none.
            is_nothing = row.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
            if not is_nothing:
                _raise_unless_fine(
                    row.error_code, f"offset of group {group!r} in {told.name}-{row.partition_index}"
                )
            if row.committed_offset != NO_OFFSET:
                place = TopicAndPartition(told.name, row.partition_index)
                found[place] = OffsetAndMetadata(row.committed_offset, row.metadata or "")
    return found


def checked_offsets(
    offsets: Mapping[TopicAndPartition, OffsetAndMetadata | int],
) -> dict[TopicAndPartition, OffsetAndMetadata]:
    """What `commit` takes. Raises ConfigError."""
    if not offsets:
        raise ConfigError("no offsets are given: commit_offsets(group, {TopicAndPartition(…): offset})")
    checked = {}
    for given, value in offsets.items():
        place = _checked(given)
        offset, note = value if isinstance(value, tuple) else (value, "")
        checked_number(f"offset of {place}", offset, 0, LONG_MAX, "give the next one to read, 0 or more")
        if not isinstance(note, str):
            raise ConfigError(f"metadata of {place} is {note!r}: give a text")
        checked[place] = OffsetAndMetadata(offset, note)
    return checked


def checked_places(places: Iterable[TopicAndPartition]) -> list[TopicAndPartition]:
    """What `stored` takes. Raises ConfigError."""
    checked = [_checked(one) for one in places]
    if not checked:
        raise ConfigError("no partitions are given: fetch_offsets(group, [TopicAndPartition(…)])")
    return checked


def _checked(place: TopicAndPartition) -> TopicAndPartition:
    if not isinstance(place, tuple) or len(place) != 2:
        raise ConfigError(f"{place!r} is no partition: give TopicAndPartition(topic, partition)")
    return checked_place(*place)


def _version(connection: Connection, api: Api, version: int, newest: int) -> int:
    """0 is 0; any other is the newest that is no ZooKeeper. Never one store in the place of the other."""
    known = connection.versions.ranges.get(api.key)
    if version == ZOOKEEPER_VERSION:
        if known is None or ZOOKEEPER_VERSION not in known:
            raise LocalProtocolError(
                f"{connection.address} has no {api.name} 0, which keeps offsets in ZooKeeper: "
                "leave version out, and Kafka keeps them"
            )
        return version
    chosen = connection.version_for(api, at_most=newest)
    if chosen == ZOOKEEPER_VERSION:
        raise LocalProtocolError(
            f"{connection.address} keeps offsets of groups in ZooKeeper only ({api.name} 0): give version=0"
        )
    return chosen


def _raise_unless_fine(code: int, context: str) -> None:
    if code != Code.NONE:
        raise KafkaError(code, context + _remedy(code))


def _remedy(code: int) -> str:
    if code != Code.NOT_COORDINATOR:
        return ""
    return "; find_coordinator(seed_brokers, group) tells the broker to connect to"
