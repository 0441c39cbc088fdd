"""Reading for a fetch: one attempt over all its partitions, and the wait for more.

An attempt reads what is in the page cache at once. What is not, and what must be converted for an old reader,
is left to a thread, and the answer waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from ottla.broker.leader_hints import endpoints_of, leader_of
from ottla.broker.partition import Partition
from ottla.broker.serving import Inquiry
from ottla.log.batch_header import (
    ENTRY_OVERHEAD,
    MAGIC_AT,
    SIZE,
)
from ottla.log.file_system import Buffer
from ottla.log.partition_log import PartitionLog
from ottla.log.reading import ColdRead, FirstBatch
from ottla.model.error_codes import Code
from ottla.model.errors import CorruptRecord, KafkaError, StorageError
from ottla.wire.api.fetch import (
    DivergingEpoch,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopicResponse,
)

CUTS_FIRST_BATCH_UNTIL = 2
FORMAT_2_SINCE = 4
READ_COMMITTED = 1
NO_OFFSET = -1
SIZE_AT = 8


def format_for(version: int) -> int:
    """The newest message format that a version can read."""
    return 0 if version <= 1 else 1 if version < FORMAT_2_SINCE else 2


class Work(NamedTuple):
    """What a thread has to do for one partition before the answer can leave."""

    answer: FetchPartitionResponse
    run: Callable[[], Buffer]


class Attempt:
    """One pass over the partitions of a fetch."""

    def __init__(self, inquiry: Inquiry, request: FetchRequest) -> None:
        self.response = FetchResponse()
        self.size = 0
        self.has_error = False
        self.partitions: list[Partition] = []  # those to wait for
        self._misdirected: list[Partition] = []
        self._work: list[Work] = []
        self._inquiry = inquiry
        self._version = inquiry.version
        self._is_committed = request.isolation_level == READ_COMMITTED
        self._room = min(request.max_bytes, inquiry.cluster.config.fetch_bytes_max)

    def is_enough(self, request: FetchRequest) -> bool:
        """Whether the answer need not wait."""
        return (
            self.size >= request.min_bytes
            or self.has_error
            or request.max_wait_ms <= 0
            or not self.partitions
            or bool(self._work)
        )

    def read(self, name: str, asked: FetchPartition) -> FetchPartitionResponse:
        """The answer for one partition."""
        answer = FetchPartitionResponse(
            partition_index=asked.partition, high_watermark=NO_OFFSET, records=b""
        )
        try:
            self._read(name, asked, answer)
        except KafkaError as error:
            answer.error_code = error.code
            self.has_error = True
        except StorageError:
            answer.error_code = Code.KAFKA_STORAGE_ERROR
            self.has_error = True
        return answer

    def _read(self, name: str, asked: FetchPartition, answer: FetchPartitionResponse) -> None:
        partition = self._inquiry.cluster.partition(name, asked.partition)
        if partition.leader != self._inquiry.node.broker_id:
            answer.current_leader = leader_of(partition) if self._version >= 12 else answer.current_leader
            self._misdirected.append(partition)
            raise KafkaError(Code.NOT_LEADER_OR_FOLLOWER, repr(partition))
        fenced = partition.epoch_error(asked.current_leader_epoch)
        if fenced:
            raise KafkaError(fenced, repr(partition))
        log = partition.log
        if log is None:
            raise StorageError(f"{partition} is offline")
        if asked.last_fetched_epoch >= 0 and self._diverges(partition, log, asked, answer):
            self.has_error = True  # the reader has to know at once
            return
        cuts = self._version <= CUTS_FIRST_BATCH_UNTIL
        first_batch = FirstBatch.CUT if cuts or self.size else FirstBatch.WHOLE
        size_max = min(asked.partition_max_bytes, self._room)
        data = log.read_cached(asked.fetch_offset, size_max, first_batch)
        self.partitions.append(partition)
        answer.high_watermark = answer.last_stable_offset = log.high_watermark
        answer.log_start_offset = log.start_offset
        answer.aborted_transactions = [] if self._is_committed or self._version < 4 else None
        if isinstance(data, ColdRead):
            read = data.read if cuts else partial(_unless_cut, data.read)
            self._work.append(self._conversion(answer, read, partition, asked.fetch_offset))
            self._count(data.size)
            return
        if data and self.size and not cuts and _is_cut(data):
            return
        if self._takes(data, partition, asked.fetch_offset):
            answer.records = data
        else:
            self._work.append(self._conversion(answer, lambda: data, partition, asked.fetch_offset))
        self._count(len(data))

    def _conversion(
        self, answer: FetchPartitionResponse, read: Callable[[], Buffer], partition: Partition, offset: int
    ) -> Work:
        version, may_convert = self._version, partition.settings.message_downconversion
        return Work(answer, lambda: readable(read(), version, offset, may_convert=may_convert))

    def _takes(self, data: Buffer, partition: Partition, offset: int) -> bool:
        """Whether the reader can have the bytes as they are."""
        if self._version >= FORMAT_2_SINCE or not data:
            return True
        run = partition.legacy_run
        if run is not None and run.start_offset <= offset and run.magic <= format_for(self._version):
            return True
        return is_readable(data, self._version)

    def _count(self, size: int) -> None:
        self.size += size
        self._room -= size

    def _diverges(
        self, partition: Partition, log: PartitionLog, asked: FetchPartition, answer: FetchPartitionResponse
    ) -> bool:
        """Whether the log was cut behind the reader's back (KIP-320); tells it where."""
        epoch, end = partition.end_of_epoch(asked.last_fetched_epoch)
        if epoch < 0 or asked.fetch_offset < log.start_offset:
            raise KafkaError(Code.OFFSET_OUT_OF_RANGE, f"epoch {asked.last_fetched_epoch} is not known")
        if epoch == asked.last_fetched_epoch and end >= asked.fetch_offset:
            return False
        answer.diverging_epoch = DivergingEpoch(epoch=epoch, end_offset=end)
        answer.high_watermark = answer.last_stable_offset = log.high_watermark
        answer.log_start_offset = log.start_offset
        return True

    def finish(self, inquiry: Inquiry) -> FetchResponse | None:
        """The answer, or None while a thread still works on it; it then replies by itself."""
        if self._misdirected and self._version >= 16:
            self.response.node_endpoints = endpoints_of(inquiry.cluster, self._misdirected)
        if not self._work:
            return self.response
        done = inquiry.cluster.loop.run_in_executor(inquiry.cluster.executor, _run, self._work)
        done.add_done_callback(lambda _: inquiry.reply(self.response))
        return None


def attempt(inquiry: Inquiry, request: FetchRequest) -> Attempt:
    """Read what is there now."""
    tried = Attempt(inquiry, request)
    names = inquiry.cluster.topic_names if inquiry.version >= 13 else None
    for topic in request.topics:
        name = topic.topic if names is None else names.get(topic.topic_id)
        if name is None:
            tried.has_error = True
            answers = [_empty(asked.partition, Code.UNKNOWN_TOPIC_ID) for asked in topic.partitions]
        else:
            answers = [tried.read(name, asked) for asked in topic.partitions]
        tried.response.responses.append(
            FetchTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=answers)
        )
    return tried


def _empty(index: int, error: Code = Code.NONE) -> FetchPartitionResponse:
    return FetchPartitionResponse(
        partition_index=index, error_code=error, high_watermark=NO_OFFSET, records=b""
    )


def is_readable(data: Buffer, version: int) -> bool:
    """Whether a version before FORMAT_2_SINCE can take stored bytes as they are.

    Old formats have an entry for each message, so this looks at two fields of each and at nothing else.
    """
    newest, end = format_for(version), len(data)
    at = 0
    while at + MAGIC_AT < end:
        if data[at + MAGIC_AT] > newest:
            return False
        size: int = SIZE.unpack_from(data, at + SIZE_AT)[0]
        if size <= 0:
            break  # no log has such an entry; a reader will say so
        at += size + ENTRY_OVERHEAD
    return True


def readable(data: Buffer, version: int, offset: int, *, may_convert: bool = True) -> Buffer:
    """The bytes in a form that a version can read. Raises KafkaError 76 for zstd, 35 if it may not."""
    if version >= FORMAT_2_SINCE or is_readable(data, version):
        return data
    if not may_convert:
        raise KafkaError(Code.UNSUPPORTED_VERSION, "message.downconversion.enable is false")
    from ottla.log.conversion import down_converted  # here, since it loads Numba

    return down_converted(memoryview(data), format_for(version), offset)


def _is_cut(data: Buffer) -> bool:
    """Whether not even the first entry is whole.

    From Fetch 3 on such a piece is left out: Java consumers fail on it, since they need not expect it.
    """
    return len(data) < ENTRY_OVERHEAD or SIZE.unpack_from(data, SIZE_AT)[0] + ENTRY_OVERHEAD > len(data)


def _unless_cut(read: Callable[[], Buffer]) -> Buffer:
    data = read()
    return b"" if data and _is_cut(data) else data


def _run(work: list[Work]) -> None:
    for answer, run in work:
        try:
            answer.records = run()
        except KafkaError as error:
            _refuse(answer, error.code)
        except CorruptRecord:
            _refuse(answer, Code.CORRUPT_MESSAGE)
        except (StorageError, OSError):
            _refuse(answer, Code.KAFKA_STORAGE_ERROR)


def _refuse(answer: FetchPartitionResponse, error: int) -> None:
    answer.error_code = error
    answer.high_watermark = answer.last_stable_offset = answer.log_start_offset = NO_OFFSET


class WaitingFetch:
    """A fetch that waits for more bytes, an error or its deadline. Ends with its connection."""

    def __init__(self, inquiry: Inquiry, request: FetchRequest, tried: Attempt) -> None:
        self._inquiry = inquiry
        self._request = request
        self._partitions = tried.partitions
        self._missing = request.min_bytes - tried.size
        for partition in self._partitions:
            partition.listeners.add(self.written)
        loop: asyncio.AbstractEventLoop = inquiry.cluster.loop
        self._timer = loop.call_later(request.max_wait_ms / 1000, self._finish)
        inquiry.connection.parked = self

    def written(self, _partition: Partition, size: int) -> None:
        """Bytes came; none at all means that something else changed, which the reader must see."""
        self._missing -= size
        if self._missing <= 0 or not size:
            self._finish()

    def _finish(self) -> None:
        self.cancel()
        response = attempt(self._inquiry, self._request).finish(self._inquiry)
        if response is not None:
            self._inquiry.reply(response)

    def cancel(self) -> None:
        """Wait no longer."""
        self._timer.cancel()
        for partition in self._partitions:
            partition.listeners.discard(self.written)
        self._inquiry.connection.parked = None
