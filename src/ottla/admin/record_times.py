"""The times of records at given offsets: a small Fetch for each broker.

A batch has to arrive whole. Most are small: all partitions of a broker are requested together, with at most
PEEK_BYTES each. Partitions with a larger batch are requested again, alone: then the broker sends one whole
batch, however large.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.admin.logs import LogCalls
from ottla.client.conversation import Peer
from ottla.model.error_codes import Code
from ottla.model.errors import CorruptRecord, OttlaError
from ottla.model.offset_spec import EARLIEST
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.api.fetch import FetchPartition, FetchPartitionResponse, FetchRequest, FetchTopic

if TYPE_CHECKING:
    from ottla.records.reader import Decoded

log = logging.getLogger(__name__)

BY_NAME_UNTIL = 12
WHOLE_BATCH_SINCE = 3
PEEK_BYTES = 16 << 10
LARGE_BYTES = 1 << 20
"""The size to request from brokers before 0.10.1, which cut the first message if it does not fit."""
PEEKS_AT_ONCE = 500
STEPS_MAX = 20
"""How many batches without records (transaction markers, compacted batches) are skipped."""

Times = dict[tuple[TopicAndPartition, int], int | None]
"""The time of a record, by partition and offset."""
FirstTimes = dict[TopicAndPartition, int | None]


class RecordTimes:
    """Asks the leaders of partitions."""

    def __init__(self, logs: LogCalls) -> None:
        self._logs = logs

    async def at(self, positions: Iterable[tuple[TopicAndPartition, int]]) -> Times:
        """Return the time of the first record at or after each offset, in milliseconds.

        None: there is no such record. A partition that could not be asked, or whose record has no time, is
        left out. An offset before the log's first is taken for that one.
        """
        offsets: dict[TopicAndPartition, list[int]] = {}
        for topic_partition, offset in positions:
            offsets.setdefault(topic_partition, []).append(offset)
        times: Times = {}
        without_leader: dict[TopicAndPartition, OttlaError]
        without_leader, by_leader = await self._logs.by_leader(offsets, "times of records")
        for broker_id, partitions in by_leader.items():
            try:
                connection = await self._logs.access.broker(broker_id)
                # A request may name a partition once.
                for number in range(max(len(offsets[topic_partition]) for topic_partition in partitions)):
                    once = {
                        topic_partition: offsets[topic_partition][number]
                        for topic_partition in partitions
                        if number < len(offsets[topic_partition])
                    }
                    first_times: FirstTimes = {}
                    try:
                        await self._ask(connection, once, first_times)
                    finally:
                        times |= {
                            (topic_partition, once[topic_partition]): at_ms
                            for topic_partition, at_ms in first_times.items()
                        }
            except OttlaError as error:
                log.warning("the times of %d records are not known: %s", len(partitions), error)
        for topic_partition, reason in without_leader.items():
            log.debug("%s: the time of a record is not known: %s", topic_partition, reason)
        return times

    async def _ask(
        self, connection: Peer, offsets: Mapping[TopicAndPartition, int], times: FirstTimes
    ) -> None:
        names = list(offsets)
        large: dict[TopicAndPartition, int] = {}
        early: list[TopicAndPartition] = []
        for first in range(0, len(names), PEEKS_AT_ONCE):
            some = {
                topic_partition: offsets[topic_partition]
                for topic_partition in names[first : first + PEEKS_AT_ONCE]
            }
            for topic_partition, answer in (await _peeked(connection, some)).items():
                if answer.error_code == Code.OFFSET_OUT_OF_RANGE:
                    early.append(topic_partition)
                elif not answer.error_code and not _take(
                    topic_partition, some[topic_partition], answer, times
                ):
                    large[topic_partition] = some[topic_partition]
        beginnings = await self._logs.offsets(dict.fromkeys(early, EARLIEST))
        for topic_partition, beginning in beginnings.items():
            if not isinstance(beginning, OttlaError) and (beginning.offset or 0) > offsets[topic_partition]:
                large[topic_partition] = beginning.offset or 0
            elif not isinstance(beginning, OttlaError):
                times[topic_partition] = None  # the offset is after the log's end
        for topic_partition, offset in large.items():
            await _walk(connection, topic_partition, offset, times)


async def _walk(connection: Peer, topic_partition: TopicAndPartition, offset: int, times: FirstTimes) -> None:
    """Skip batches without records, one after the other, until there is a record."""
    for _ in range(STEPS_MAX):
        answer = (await _peeked(connection, {topic_partition: offset}))[topic_partition]
        if answer.error_code or _take(topic_partition, offset, answer, times):
            return
        offset = _next_offset(answer, offset)


def _next_offset(answer: FetchPartitionResponse, offset: int) -> int:
    """Return where to continue: after what has arrived, or one offset further if that is not known."""
    try:
        return max(_decoded(answer, offset).next_offset, offset + 1)
    except CorruptRecord:
        return offset + 1


def _decoded(answer: FetchPartitionResponse, offset: int) -> Decoded:
    from ottla.records.reader import decode  # here, since it loads Arrow

    return decode(answer.records or b"", from_offset=offset)


async def _peeked(
    connection: Peer, offsets: Mapping[TopicAndPartition, int]
) -> dict[TopicAndPartition, FetchPartitionResponse]:
    """Return what a broker has at these offsets. Does not wait for more."""
    is_old = connection.version_for(FetchRequest.API) < WHOLE_BATCH_SINCE
    size = LARGE_BYTES if is_old else PEEK_BYTES
    topics: dict[str, FetchTopic] = {}
    for (topic, index), offset in offsets.items():
        wanted = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=size)
        topics.setdefault(topic, FetchTopic(topic=topic, partitions=[])).partitions.append(wanted)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=LARGE_BYTES, topics=list(topics.values()))
    answer = await connection.call(request, at_most=BY_NAME_UNTIL)
    return {
        TopicAndPartition(topic.topic, partition.partition_index): partition
        for topic in answer.responses
        for partition in topic.partitions
    }


def _take(
    topic_partition: TopicAndPartition, offset: int, answer: FetchPartitionResponse, times: FirstTimes
) -> bool:
    """Store the time of the first record, if a whole one has arrived.

    Returns False if more has to be requested.
    """
    if not answer.records and answer.high_watermark <= offset:
        times[topic_partition] = None
        return True
    try:
        batch = _decoded(answer, offset).batch
    except CorruptRecord:
        return False
    if not batch.num_rows:
        return False
    time = batch.column("timestamp")[0].value
    if time is not None and time >= 0:
        times[topic_partition] = time
    return True
