"""ListOffsets, key 2: the first and last offset of partitions, or the first one from a time on.

Versions: 0 to 10. 0 answers bases of segments, newest first. -3 (largest timestamp) needs 7; -4 (earliest
local) needs 8 and is the earliest, since nothing is tiered; -5 (last tiered) needs 9 and is never known.
Behaviour: a time is looked up in the time index, then in the records; that reads the disk and decodes a
batch, so a thread does it.
"""

from __future__ import annotations

from ottla.broker.partition import Partition
from ottla.broker.serving import Handler, Inquiry
from ottla.log.partition_log import PartitionLog
from ottla.model.error_codes import Code
from ottla.model.errors import CorruptRecord, KafkaError, StorageError
from ottla.wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.versions import VersionRange

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EPOCHS_SINCE = 4
SPECIAL_SINCE = {LATEST: 0, EARLIEST: 0, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}

Lookup = tuple[ListOffsetsPartitionResponse, PartitionLog, int]


def handle(inquiry: Inquiry, request: ListOffsetsRequest) -> ListOffsetsResponse | None:
    """Answer the ends at once, times when a thread has found them."""
    lookups: list[Lookup] = []
    topics = [
        ListOffsetsTopicResponse(
            name=topic.name,
            partitions=[_answered(inquiry, topic.name, asked, lookups) for asked in topic.partitions],
        )
        for topic in request.topics
    ]
    response = ListOffsetsResponse(topics=topics)
    if not lookups:
        return _in_version(response, inquiry.version)
    done = inquiry.cluster.loop.run_in_executor(inquiry.cluster.executor, _look_up, lookups)
    done.add_done_callback(lambda _: inquiry.reply(_in_version(response, inquiry.version)))
    return None


def _in_version(response: ListOffsetsResponse, version: int) -> ListOffsetsResponse:
    """Without the epochs, where the version has no place for them."""
    if version < EPOCHS_SINCE:
        for topic in response.topics:
            for answer in topic.partitions:
                answer.leader_epoch = -1
    return response


def _answered(
    inquiry: Inquiry, topic: str, asked: ListOffsetsPartition, lookups: list[Lookup]
) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(partition_index=asked.partition_index)
    try:
        partition = inquiry.cluster.partition(topic, asked.partition_index)
        _check(inquiry, partition, asked)
        log = partition.log
        if log is None:
            raise StorageError(f"{partition} is offline")
        if inquiry.version == 0:
            answer.old_style_offsets = _segment_offsets(inquiry, log, asked)
        elif asked.timestamp >= 0 or asked.timestamp == MAX_TIMESTAMP:
            lookups.append((answer, log, asked.timestamp))
        else:
            answer.offset, answer.leader_epoch = _end(partition, log, asked.timestamp)
    except KafkaError as error:
        answer.error_code = error.code
    except StorageError:
        answer.error_code = Code.KAFKA_STORAGE_ERROR
    return answer


def _check(inquiry: Inquiry, partition: Partition, asked: ListOffsetsPartition) -> None:
    if partition.leader != inquiry.node.broker_id:
        raise KafkaError(Code.NOT_LEADER_OR_FOLLOWER, repr(partition))
    fenced = partition.epoch_error(asked.current_leader_epoch)
    if fenced:
        raise KafkaError(fenced, repr(partition))
    if asked.timestamp < 0 and inquiry.version < SPECIAL_SINCE.get(asked.timestamp, 1 << 15):
        raise KafkaError(
            Code.UNSUPPORTED_VERSION, f"time {asked.timestamp} in ListOffsets v{inquiry.version}"
        )


def _end(partition: Partition, log: PartitionLog, special: int) -> tuple[int, int]:
    """An end of the log and the leader epoch there."""
    if special == LATEST:
        return log.high_watermark, partition.leader_epoch
    if special == LATEST_TIERED:
        return -1, -1
    return log.start_offset, log.epochs.entries[0][0] if log.epochs.entries else partition.leader_epoch


def _segment_offsets(inquiry: Inquiry, log: PartitionLog, asked: ListOffsetsPartition) -> list[int]:
    from ottla.log.time_lookup import offsets_before

    return offsets_before(log, asked.timestamp, asked.max_num_offsets, inquiry.cluster.now_ms())


def _look_up(lookups: list[Lookup]) -> None:
    from ottla.log.time_lookup import largest_timestamp, offset_for_timestamp

    for answer, log, timestamp in lookups:
        try:
            is_time = timestamp != MAX_TIMESTAMP
            found = offset_for_timestamp(log, timestamp) if is_time else largest_timestamp(log)
        except CorruptRecord:
            answer.error_code = Code.CORRUPT_MESSAGE
            continue
        except (StorageError, OSError):
            answer.error_code = Code.KAFKA_STORAGE_ERROR
            continue
        if found is not None:
            answer.timestamp, answer.offset, answer.leader_epoch = found


def refuse(request: ListOffsetsRequest, error: Code, _version: int) -> ListOffsetsResponse:
    """One error for every partition."""
    topics = [
        ListOffsetsTopicResponse(
            name=topic.name,
            partitions=[
                ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=error)
                for asked in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return ListOffsetsResponse(topics=topics)


HANDLER = Handler(ListOffsetsRequest, VersionRange(0, 10), handle, refuse)
