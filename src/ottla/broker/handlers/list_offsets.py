"""ListOffsets, key 2: the first and last offset of partitions, or the first offset from a time on.

Versions: 0 to 11. 0 answers bases of segments, newest first. -3 (largest timestamp) needs 7; -4 (earliest
local) needs 8 and is the earliest, since nothing is tiered; -5 (last tiered) needs 9 and -6 (earliest that is
not tiered yet) needs 11: neither is ever known.
Behaviour: for a reader of committed data the log ends at the last stable offset. A time is looked up in the
time index, then in the records; that reads the disk and decodes a batch, so a thread does it.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.broker.serving.division import Division
from ottla.broker.serving.handler import Handler, Inquiry
from ottla.broker.storage.partition import Partition
from ottla.log.partition_log import PartitionLog
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, StorageError
from ottla.wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
EPOCHS_SINCE = 4
READ_COMMITTED = 1
SPECIAL_SINCE = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}


class Lookup(NamedTuple):
    """A time to look up for an answer. An offset at or after `end_offset` is not returned."""

    answer: ListOffsetsPartitionResponse
    log: PartitionLog
    timestamp: int
    end_offset: int


def handle(inquiry: Inquiry, request: ListOffsetsRequest) -> ListOffsetsResponse | None:
    """Answer the ends at once; look up times in a thread, and answer then."""
    lookups: list[Lookup] = []
    is_committed = request.isolation_level == READ_COMMITTED
    topics = [
        ListOffsetsTopicResponse(
            name=topic.name,
            partitions=[
                _answer(inquiry, topic.name, wanted, lookups, is_committed=is_committed)
                for wanted in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    response = ListOffsetsResponse(topics=topics)
    if not lookups:
        return _in_version(response, inquiry.version)

    def looked_up() -> ListOffsetsResponse:
        _look_up(lookups)
        return _in_version(response, inquiry.version)

    inquiry.reply_from_thread(inquiry.broker.runtime.checkers, looked_up)
    return None


def _in_version(response: ListOffsetsResponse, version: int) -> ListOffsetsResponse:
    """Remove the epochs if the version cannot carry them."""
    if version < EPOCHS_SINCE:
        for topic in response.topics:
            for answer in topic.partitions:
                answer.leader_epoch = -1
    return response


def _answer(
    inquiry: Inquiry, topic: str, wanted: ListOffsetsPartition, lookups: list[Lookup], *, is_committed: bool
) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
    try:
        partition = inquiry.broker.store.partition(topic, wanted.partition_index)
        log = partition.led_log(inquiry.broker.broker_id, wanted.current_leader_epoch)
        _check_time(wanted.timestamp, inquiry.version)
        end = partition.last_stable_offset if is_committed else log.high_watermark
        if inquiry.version == 0:
            answer.old_style_offsets = _segment_offsets(inquiry, log, wanted)
        elif wanted.timestamp >= 0 or wanted.timestamp == MAX_TIMESTAMP:
            lookups.append(Lookup(answer, log, wanted.timestamp, end))
        else:
            answer.offset, answer.leader_epoch = _end(partition, log, wanted.timestamp, end)
    except (KafkaError, StorageError) as error:
        answer.error_code = error.code
    return answer


def _check_time(timestamp: int, version: int) -> None:
    if timestamp < 0 and version < SPECIAL_SINCE.get(timestamp, 1 << 15):
        raise KafkaError(Code.UNSUPPORTED_VERSION, f"time {timestamp} in ListOffsets v{version}")


def _end(partition: Partition, log: PartitionLog, special: int, end: int) -> tuple[int, int]:
    """An end of the log and the leader epoch there."""
    if special == LATEST:
        return end, partition.leader_epoch
    if special in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return -1, -1
    return log.start_offset, log.epochs.entries[0][0] if log.epochs.entries else partition.leader_epoch


def _segment_offsets(inquiry: Inquiry, log: PartitionLog, wanted: ListOffsetsPartition) -> list[int]:
    from ottla.log.time_lookup import offsets_before

    return offsets_before(log, wanted.timestamp, wanted.max_num_offsets, inquiry.broker.runtime.now_ms())


def _look_up(lookups: list[Lookup]) -> None:
    from ottla.log.time_lookup import largest_timestamp, offset_for_timestamp

    for answer, log, timestamp, end_offset in lookups:
        try:
            is_time = timestamp != MAX_TIMESTAMP
            record = offset_for_timestamp(log, timestamp) if is_time else largest_timestamp(log)
        except (KafkaError, StorageError) as error:
            answer.error_code = error.code
            continue
        if record is not None and record[1] < end_offset:
            answer.timestamp, answer.offset, answer.leader_epoch = record


def refuse(request: ListOffsetsRequest, error: Code, _version: int) -> ListOffsetsResponse:
    """One error for every partition."""
    topics = [
        ListOffsetsTopicResponse(
            name=topic.name,
            partitions=[
                ListOffsetsPartitionResponse(partition_index=wanted.partition_index, error_code=error)
                for wanted in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return ListOffsetsResponse(topics=topics)


HANDLER = Handler(
    handle,
    refuse,
    divisions=(Division(("topics", "partitions"), ("topics", "partitions")),),
)
