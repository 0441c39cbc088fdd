"""Reading for a fetch: one attempt over all its partitions, and the wait for more records.

An attempt reads bytes that are in the page cache at once. Other bytes, and conversions for old readers, are
left to a thread, and the answer waits for them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import NamedTuple, cast

from ottla.broker.serving.handler import Inquiry
from ottla.broker.storage.leaders import leader_and_epoch
from ottla.broker.storage.memory import SMALL_BYTES
from ottla.broker.storage.partition import Partition
from ottla.log.batch_header import named
from ottla.log.file_range import RANGE_BYTES_MIN, FileRange
from ottla.log.file_system import Buffer
from ottla.log.partition_log import PartitionLog
from ottla.log.reading import ColdRead, FirstBatch, ReadLimits
from ottla.model.error_codes import Code
from ottla.model.errors import CorruptRecord, KafkaError, StorageError
from ottla.model.record_layout import ENTRY_OVERHEAD, MAGIC_AT, SIZE, SIZE_AT
from ottla.wire.api.fetch import (
    AbortedTransaction,
    DivergingEpoch,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    FetchTopicResponse,
)

CUTS_FIRST_BATCH_UNTIL = 2
IDS_SINCE = 13
PARTITIONS_AT_ONCE = 500
"""Partitions that are read in one turn of the loop: some milliseconds."""
FORMAT_2_SINCE = 4
RACKS_SINCE = 11
READ_COMMITTED = 1
NO_OFFSET = -1


def format_for(version: int) -> int:
    """Return the newest message format that a version can read."""
    return 0 if version <= 1 else 1 if version < FORMAT_2_SINCE else 2


class ReadWork(NamedTuple):
    """Work of a thread for one partition, before the answer can leave."""

    answer: FetchPartitionResponse
    run: Callable[[], Buffer]


class FetchAttempt:
    """One pass over the partitions of a fetch."""

    def __init__(self, inquiry: Inquiry, request: FetchRequest) -> None:
        self.response = FetchResponse()
        self.size = 0
        self.has_error = False
        self.partitions: list[Partition] = []  # partitions to wait for
        self._misdirected: list[Partition] = []
        self._work: list[ReadWork] = []
        self._inquiry = inquiry
        self._version = inquiry.version
        self.is_committed = request.isolation_level == READ_COMMITTED
        self._rack = request.rack_id
        room = inquiry.broker.memory.answer_room()
        # While memory is short, a large first batch waits its turn, as if it were not written yet.
        self._is_short = room <= SMALL_BYTES
        self._room = min(request.max_bytes, inquiry.broker.store.config.fetch_bytes_max, room)
        user, client_id = inquiry.link.principal.name, inquiry.call.client_id or ""
        quota = inquiry.broker.quotas.fetch_bytes_max(user, client_id)
        if quota is not None:
            self._room = min(self._room, quota)

    def is_enough(self, request: FetchRequest) -> bool:
        """Whether the answer can leave now."""
        return (
            self.size >= request.min_bytes
            or self.has_error
            or request.max_wait_ms <= 0
            or not self.partitions
            or bool(self._work)
        )

    def add(self, topic: FetchTopic, answers: list[FetchPartitionResponse]) -> None:
        """Add the answers for all partitions of a topic."""
        self.response.responses.append(
            FetchTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=answers)
        )

    def answers(self, topic: FetchTopic, some: list[FetchPartition]) -> list[FetchPartitionResponse]:
        """Return the answers for some partitions of a topic."""
        name: str | None = topic.topic
        if self._version >= IDS_SINCE:
            name = self._inquiry.broker.store.topic_names.get(topic.topic_id)
        if name is None:
            self.has_error = True
            return [empty_answer(wanted.partition, Code.UNKNOWN_TOPIC_ID) for wanted in some]
        return [self.read(name, wanted) for wanted in some]

    def read(self, name: str, wanted: FetchPartition) -> FetchPartitionResponse:
        """Return the answer for one partition."""
        answer = empty_answer(wanted.partition)
        try:
            self._read(name, wanted, answer)
        except (KafkaError, StorageError) as error:
            answer.error_code = error.code
            self.has_error = True
        return answer

    def _read(self, name: str, wanted: FetchPartition, answer: FetchPartitionResponse) -> None:
        partition = self._inquiry.broker.store.partition(name, wanted.partition)
        broker_id = self._reader(partition)
        if partition.leader != broker_id:
            if self._version >= 12:
                answer.current_leader = leader_and_epoch(partition)
            self._misdirected.append(partition)
        log = partition.led_log(broker_id, wanted.current_leader_epoch)
        if self._rack and self._is_elsewhere(partition, log, wanted, answer):
            self.has_error = True  # the reader must get this at once
            return
        if wanted.last_fetched_epoch >= 0 and self._diverges(partition, log, wanted, answer):
            self.has_error = True  # the reader must get this at once
            return
        cuts = self._version <= CUTS_FIRST_BATCH_UNTIL
        first_batch = FirstBatch.CUT if cuts or self.size or self._is_short else FirstBatch.WHOLE
        size_max = min(wanted.partition_max_bytes, self._room)
        stable = partition.last_stable_offset
        end = stable if self.is_committed and stable < log.high_watermark else None
        limits = named(ReadLimits, (wanted.fetch_offset, size_max, first_batch, end))
        is_taken = self._takes(partition, wanted.fetch_offset)
        may_range = is_taken and size_max >= RANGE_BYTES_MIN and self._inquiry.link.sends_files()
        data = log.cached(limits, as_range=may_range)
        self.partitions.append(partition)
        _note_ends(answer, partition, log)
        answer.aborted_transactions = [] if self.is_committed or self._version < 4 else None
        if self.is_committed and log.has_aborts:
            size = data.size if isinstance(data, ColdRead) else len(data)
            answer.aborted_transactions = [
                AbortedTransaction(producer_id=item.producer_id, first_offset=item.first_offset)
                for item in log.aborted(wanted.fetch_offset, size, stable)
            ]
        if isinstance(data, ColdRead):
            read = data.read if cuts and not self._is_short else partial(_unless_cut, data.read)
            self._work.append(self._conversion(answer, read, partition, wanted.fetch_offset))
            self._count(data.size)
            return
        if data and ((self.size and not cuts) or self._is_short) and _is_cut(data):
            return
        if isinstance(data, FileRange):
            answer.records = cast(Buffer, data)  # the connection sends it from its file
        elif is_taken or is_readable(data, self._version):
            answer.records = data
        else:
            self._work.append(self._conversion(answer, lambda: data, partition, wanted.fetch_offset))
        self._count(len(data))

    def _reader(self, partition: Partition) -> int:
        """Return this broker, or the leader whose data this broker reads as another replica."""
        broker = self._inquiry.broker
        is_replica = self._version >= RACKS_SINCE and broker.broker_id in partition.replicas
        is_read = is_replica and broker.store.config.selects_by_rack
        return partition.leader if is_read else broker.broker_id

    def _is_elsewhere(
        self, partition: Partition, log: PartitionLog, wanted: FetchPartition, answer: FetchPartitionResponse
    ) -> bool:
        """Whether the leader's answer names the replica in the reader's rack (KIP-392) instead of records."""
        broker = self._inquiry.broker
        replica = broker.leaders.replica_in(self._rack, partition)
        is_in_log = log.start_offset <= wanted.fetch_offset <= log.high_watermark
        if broker.broker_id != partition.leader or replica == partition.leader or not is_in_log:
            return False
        answer.preferred_read_replica = replica
        _note_ends(answer, partition, log)
        return True

    def _conversion(
        self, answer: FetchPartitionResponse, read: Callable[[], Buffer], partition: Partition, offset: int
    ) -> ReadWork:
        version, may_convert = self._version, partition.settings.message_downconversion
        return ReadWork(answer, lambda: readable(read(), version, offset, may_convert=may_convert))

    def _takes(self, partition: Partition, offset: int) -> bool:
        """Whether it is known that the reader can read the bytes from an offset on as they are."""
        if self._version >= FORMAT_2_SINCE:
            return True
        run = partition.legacy_run
        return run is not None and run.start_offset <= offset and run.magic <= format_for(self._version)

    def _count(self, size: int) -> None:
        self.size += size
        self._room -= size

    def _diverges(
        self, partition: Partition, log: PartitionLog, wanted: FetchPartition, answer: FetchPartitionResponse
    ) -> bool:
        """Whether the log was cut since the reader's last fetch (KIP-320); then the answer says where."""
        last_epoch = wanted.last_fetched_epoch
        epoch, end = log.epochs.end_of_epoch(last_epoch, partition.leader_epoch, log.high_watermark)
        if epoch < 0 or wanted.fetch_offset < log.start_offset:
            raise KafkaError(Code.OFFSET_OUT_OF_RANGE, f"epoch {last_epoch} is not known")
        if epoch == last_epoch and end >= wanted.fetch_offset:
            return False
        answer.diverging_epoch = DivergingEpoch(epoch=epoch, end_offset=end)
        _note_ends(answer, partition, log)
        return True

    def finish(self, inquiry: Inquiry) -> FetchResponse | None:
        """Return the answer, or None if a thread has to finish it first; then it is sent later."""
        if self._misdirected and self._version >= 16:
            self.response.node_endpoints = inquiry.broker.leaders.endpoints(
                self._misdirected, inquiry.link.listener
            )
        if not self._work:
            return self.response
        inquiry.reply_from_thread(inquiry.broker.runtime.readers, self._worked, self.size)
        return None

    def _worked(self) -> FetchResponse:
        """Do the work that is left to a thread, and return the answer."""
        for answer, run in self._work:
            try:
                answer.records = run()
            except (KafkaError, StorageError) as error:
                _refuse(answer, error.code)
            except CorruptRecord:
                _refuse(answer, Code.CORRUPT_MESSAGE)
        return self.response


def attempt(inquiry: Inquiry, request: FetchRequest) -> FetchAttempt:
    """Read what the request's partitions have now."""
    result = FetchAttempt(inquiry, request)
    for topic in request.topics:
        result.add(topic, result.answers(topic, topic.partitions))
    return result


def attempt_in_steps(inquiry: Inquiry, request: FetchRequest) -> Generator[None, None, FetchAttempt]:
    """As `attempt`, with a step for each PARTITIONS_AT_ONCE partitions of a topic."""
    result = FetchAttempt(inquiry, request)
    for topic in request.topics:
        answers: list[FetchPartitionResponse] = []
        for first in range(0, len(topic.partitions), PARTITIONS_AT_ONCE):
            answers += result.answers(topic, topic.partitions[first : first + PARTITIONS_AT_ONCE])
            yield
        result.add(topic, answers)
    return result


def finished_in_steps(inquiry: Inquiry, request: FetchRequest) -> Generator[None, None, FetchResponse | None]:
    """Read what the partitions have now, and return the answer, or None if a thread finishes it."""
    return (yield from attempt_in_steps(inquiry, request)).finish(inquiry)


def is_long(request: FetchRequest) -> bool:
    """Whether a request names more partitions than are read in one turn, so that it is read in slices."""
    topics = request.topics
    count = (
        len(topics[0].partitions) if len(topics) == 1 else sum([len(item.partitions) or 1 for item in topics])
    )
    return count > PARTITIONS_AT_ONCE


def empty_answer(index: int, error: Code = Code.NONE) -> FetchPartitionResponse:
    """Return the answer for a partition from which nothing was read."""
    return FetchPartitionResponse(
        partition_index=index, error_code=error, high_watermark=NO_OFFSET, records=b""
    )


def _note_ends(answer: FetchPartitionResponse, partition: Partition, log: PartitionLog) -> None:
    answer.high_watermark, answer.last_stable_offset = log.high_watermark, partition.last_stable_offset
    answer.log_start_offset = log.start_offset


def is_readable(data: Buffer, version: int) -> bool:
    """Whether a version before FORMAT_2_SINCE can take stored bytes as they are.

    Old formats have an entry for each message, so this reads only two fields of each.
    """
    newest, end = format_for(version), len(data)
    at = 0
    while at + MAGIC_AT < end:
        if data[at + MAGIC_AT] > newest:
            return False
        size: int = SIZE.unpack_from(data, at + SIZE_AT)[0]
        if size <= 0:
            break  # no log has such an entry; the reader will report it
        at += size + ENTRY_OVERHEAD
    return True


def readable(data: Buffer, version: int, offset: int, *, may_convert: bool = True) -> Buffer:
    """Return the bytes in a form that a version can read.

    Raises KafkaError 76 for zstd, and 35 if conversion is switched off.
    """
    if version >= FORMAT_2_SINCE or is_readable(data, version):
        return data
    if not may_convert:
        raise KafkaError(Code.UNSUPPORTED_VERSION, "message.downconversion.enable is false")
    from ottla.log.conversion import down_converted  # here, since it loads Numba

    return down_converted(memoryview(data), format_for(version), offset)


def _is_cut(data: Buffer | FileRange) -> bool:
    """Whether not even the first entry is whole.

    From Fetch 3 on such a piece is left out: Java consumers fail on it, since they need not expect it.
    """
    if isinstance(data, FileRange):
        return data.is_cut
    return len(data) < ENTRY_OVERHEAD or SIZE.unpack_from(data, SIZE_AT)[0] + ENTRY_OVERHEAD > len(data)


def _unless_cut(read: Callable[[], Buffer]) -> Buffer:
    data = read()
    return b"" if data and _is_cut(data) else data


def _refuse(answer: FetchPartitionResponse, error: int) -> None:
    answer.error_code = error
    answer.high_watermark = answer.last_stable_offset = answer.log_start_offset = NO_OFFSET


class WaitingFetch:
    """A fetch that waits for more bytes, an error or its deadline. Ends with its connection."""

    def __init__(self, inquiry: Inquiry, request: FetchRequest, first: FetchAttempt) -> None:
        self._inquiry = inquiry
        self._request = request
        self._partitions = first.partitions
        self._note(first)
        for partition in self._partitions:
            partition.listeners[self.written] = None
        self._timer = inquiry.broker.runtime.loop.call_later(request.max_wait_ms / 1000, self._finish)
        inquiry.link.parked = self

    def _note(self, read: FetchAttempt) -> None:
        """Remember how much is missing, and for a reader of committed data where it was stopped."""
        self._missing = self._request.min_bytes - read.size
        self._stable: dict[Partition, int] = {}
        self._is_stopped = False
        if read.is_committed:
            self._stable = {item: item.last_stable_offset for item in self._partitions}
            self._is_stopped = any(item.producers.first_unstable >= 0 for item in self._partitions)

    def written(self, partition: Partition, size: int) -> None:
        """`size` bytes were written. 0 means that something else changed, such as the leader."""
        if size and self._stable:
            if partition.last_stable_offset == self._stable[partition]:
                return  # it belongs to an open transaction, or stands behind one
            if self._is_stopped or partition.producers.first_unstable >= 0:
                self._look_again()
                return
        self._missing -= size
        if self._missing <= 0 or not size:
            self._finish()

    def _look_again(self) -> None:
        """Answer if there is enough. Bytes that were written while a transaction was open are not counted."""
        read = attempt(self._inquiry, self._request)
        if read.is_enough(self._request):
            self._reply(read)
        else:
            self._note(read)

    def _finish(self) -> None:
        if is_long(self._request):
            self.cancel()
            self._inquiry.reply_in_slices(finished_in_steps(self._inquiry, self._request))
        else:
            self._reply(attempt(self._inquiry, self._request))

    def _reply(self, read: FetchAttempt) -> None:
        self.cancel()
        response = read.finish(self._inquiry)
        if response is not None:
            self._inquiry.reply(response)

    def cancel(self) -> None:
        """Stop waiting."""
        self._timer.cancel()
        for partition in self._partitions:
            partition.listeners.pop(self.written, None)
        self._inquiry.link.parked = None
