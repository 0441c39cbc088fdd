"""Reading for a ShareFetch: records are read, locked for the member and sent; or the fetch waits for some.

Bytes that are in the page cache are read at once. A thread reads other bytes, and the fetch goes on with them
afterwards: what became of the records meanwhile does not matter, since only available ones are locked.
"""

from __future__ import annotations

from asyncio import Future, TimerHandle
from collections.abc import Callable
from functools import partial

from ottla.broker.serving.handler import Inquiry
from ottla.broker.serving.share_acknowledging import Outcomes, TopicIdPartition, by_topic
from ottla.broker.share_groups.core.records import ShareKey
from ottla.broker.share_groups.core.sessions import ShareSession
from ottla.broker.share_groups.core.share_partition import UNINITIALIZED, AcquireLimits
from ottla.broker.share_groups.offset_reset import start_offset
from ottla.broker.share_groups.readable import readable_batches, slice_of
from ottla.broker.storage.partition import Partition
from ottla.log.file_system import Buffer
from ottla.log.reading import ColdRead
from ottla.log.undecided import StoredAbort
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, StorageError
from ottla.wire.api.share_fetch import (
    AcquiredRecords,
    ShareFetchPartitionResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchTopicResponse,
    ShareLeader,
)
from ottla.wire.leader_hint import NodeEndpoint

STRICT_MODE = 1
"""A ShareFetch that must not get more records than it asked for (KIP-1206)."""


class SharePoll:
    """One ShareFetch: a look at each partition of the session, then the wait. Ends with its connection."""

    def __init__(
        self, inquiry: Inquiry, request: ShareFetchRequest, session: ShareSession, outcomes: Outcomes
    ) -> None:
        self._inquiry = inquiry
        self._request = request
        self._session = session
        self._answers: dict[TopicIdPartition, ShareFetchPartitionResponse] = {}
        self._acknowledged(outcomes)
        self._settings = inquiry.broker.shares.settings(request.group_id or "")
        self._misdirected: list[Partition] = []
        self._listened: list[Partition] = []
        self._todo: list[TopicIdPartition] = []
        self._room = min(
            request.max_bytes,
            inquiry.broker.store.config.fetch_bytes_max,
            inquiry.broker.memory.answer_room(),
        )
        self._record_count = 0
        self._has_error = False
        self._is_over = request.max_wait_ms <= 0
        self._is_looking = False
        self._is_due = False  # something has changed since this pass began
        self._timer: TimerHandle | None = None
        if not self._is_over:
            self._timer = inquiry.broker.runtime.loop.call_later(request.max_wait_ms / 1000, self._time_over)
        inquiry.link.parked = self

    def _acknowledged(self, outcomes: Outcomes) -> None:
        for partition, error in outcomes.items():
            answer = self._answer(partition)
            answer.acknowledge_error_code = Code.of(error.code) if error else Code.NONE
            answer.acknowledge_error_message = str(error) if error else None

    def _answer(self, partition: TopicIdPartition) -> ShareFetchPartitionResponse:
        return self._answers.setdefault(
            partition, ShareFetchPartitionResponse(partition_index=partition[1], records=b"")
        )

    def look(self) -> None:
        """Look at each partition of the session, the next one first."""
        if self._is_looking:
            self._is_due = True
            return
        self._is_looking, self._is_due = True, False
        self._stop_listening()
        self._todo = list(self._session.partitions)
        self._session.rotate()
        self._go_on()

    def _go_on(self) -> None:
        while self._todo and self._room > 0 and self._record_count < self._request.max_records:
            partition = self._todo.pop(0)
            try:
                if not self._look_at(partition):
                    return
            except (KafkaError, StorageError) as error:
                self._failed(partition, error)
        self._looked()

    def _failed(self, partition: TopicIdPartition, error: KafkaError | StorageError) -> None:
        answer = self._answer(partition)
        answer.error_code, answer.error_message = Code.of(error.code), str(error)
        self._has_error = True

    # --- one partition

    def _look_at(self, partition: TopicIdPartition) -> bool:
        """Acquire records of a partition.

        Returns False if a thread has to read first; it then continues the pass.
        """
        broker = self._inquiry.broker
        stored_partition = broker.store.partition(broker.store.topic_name(partition[0]), partition[1])
        if stored_partition.leader != broker.broker_id:
            self._misdirected.append(stored_partition)
            self._answer(partition).current_leader = ShareLeader(
                leader_id=stored_partition.leader, leader_epoch=stored_partition.leader_epoch
            )
        log = stored_partition.led_log(broker.broker_id)
        key = ShareKey(self._request.group_id or "", *partition)
        shared = broker.shares.partition(key)
        self._listened.append(stored_partition)
        if shared.start_offset == UNINITIALIZED:
            begin = partial(start_offset, log, self._settings.offset_reset, broker.runtime.now_ms())
            self._in_thread(partition, begin, partial(self._begin, key))
            return False
        if shared.log_begins_at(log.start_offset):
            broker.shares.changed(key)
        if not shared.can_acquire(self._settings.record_locks_max):
            return True
        if not broker.shares.has_precedence(key, self._request.member_id or ""):
            return True
        end = stored_partition.last_stable_offset if self._settings.is_committed else log.high_watermark
        offset = shared.next_offset
        if offset >= end:
            return True
        data = log.read_cached(offset, self._room, end_offset=end if end < log.high_watermark else None)
        if isinstance(data, ColdRead):
            self._in_thread(partition, data.read, partial(self._acquire, partition, stored_partition, offset))
            return False
        self._acquire(partition, stored_partition, offset, data)
        return True

    def _begin(self, key: ShareKey, offset: int) -> None:
        if self._inquiry.broker.shares.partition(key).start_offset == UNINITIALIZED:
            self._inquiry.broker.shares.begin_at(key, offset)
        self._todo.insert(0, (key.topic_id, key.partition))

    def _in_thread(
        self, partition: TopicIdPartition, work: Callable[[], Buffer | int], then: Callable[..., None]
    ) -> None:
        runtime = self._inquiry.broker.runtime

        def done(future: Future[Buffer | int]) -> None:
            if self._inquiry.link.has_left or runtime.is_closed:
                return
            error = future.exception()
            try:
                if error is not None:
                    raise error
                then(future.result())
            except (KafkaError, StorageError) as failure:
                self._failed(partition, failure)
            self._go_on()

        runtime.loop.run_in_executor(runtime.readers, work).add_done_callback(done)

    def _acquire(
        self, partition: TopicIdPartition, stored_partition: Partition, offset: int, data: Buffer
    ) -> None:
        broker, request = self._inquiry.broker, self._request
        shared = broker.shares.partition(ShareKey(request.group_id or "", *partition))
        aborted = self._aborted(stored_partition, offset, len(data))
        start_before = shared.start_offset
        ranges = shared.acquire(
            request.member_id or "",
            offset,
            readable_batches(data, offset, aborted),
            AcquireLimits(
                request.max_records - self._record_count,
                self._settings.record_locks_max,
                broker.runtime.steady_ms() + self._settings.lock_duration_ms,
                is_strict=request.share_acquire_mode == STRICT_MODE,
            ),
        )
        if shared.start_offset != start_before:
            broker.shares.log.note(ShareKey(request.group_id or "", *partition))
        if not ranges:
            return
        broker.shares.acquired()
        answer = self._answer(partition)
        answer.records = slice_of(data, ranges[0].first, ranges[-1].last)
        answer.acquired_records = [
            AcquiredRecords(
                first_offset=item.first, last_offset=item.last, delivery_count=item.delivery_count
            )
            for item in ranges
        ]
        self._room -= len(answer.records)
        self._record_count += sum(item.last - item.first + 1 for item in ranges)

    def _aborted(self, stored_partition: Partition, offset: int, size: int) -> list[StoredAbort]:
        log = stored_partition.log
        if log is None or not self._settings.is_committed or not log.has_aborts:
            return []
        return log.aborted(offset, size, stored_partition.last_stable_offset)

    # --- waiting

    def _looked(self) -> None:
        self._is_looking = False
        if self._record_count or self._has_error or self._is_over or not self._session.partitions:
            self._finish()
        elif self._is_due:
            self.look()
        else:
            for partition in self._listened:
                partition.listeners[self._written] = None
            self._inquiry.broker.shares.wait(self._keys(), self.look)

    def _keys(self) -> list[ShareKey]:
        return [ShareKey(self._request.group_id or "", *item) for item in self._session.partitions]

    def _written(self, _partition: Partition, _size: int) -> None:
        self.look()

    def _time_over(self) -> None:
        self._is_over = True
        if not self._is_looking:
            self._finish()

    def _stop_listening(self) -> None:
        for partition in self._listened:
            partition.listeners.pop(self._written, None)
        self._listened.clear()
        self._inquiry.broker.shares.stop_waiting(self._keys(), self.look)

    def _finish(self) -> None:
        self.cancel()
        self._inquiry.reply(self._response())

    def cancel(self) -> None:
        """Stop waiting."""
        if self._timer is not None:
            self._timer.cancel()
        self._stop_listening()
        self._inquiry.link.parked = None

    def _response(self) -> ShareFetchResponse:
        return share_fetch_response(
            self._answers,
            self._settings.lock_duration_ms,
            self._inquiry.broker.leaders.endpoints(self._misdirected, self._inquiry.link.listener),
        )


def share_fetch_response(
    answers: dict[TopicIdPartition, ShareFetchPartitionResponse], lock_ms: int, endpoints: list[NodeEndpoint]
) -> ShareFetchResponse:
    """Return the answers by topic."""
    topics = [
        ShareFetchTopicResponse(topic_id=topic_id, partitions=[answers[topic_id, index] for index in indexes])
        for topic_id, indexes in by_topic(answers).items()
    ]
    return ShareFetchResponse(responses=topics, acquisition_lock_timeout_ms=lock_ms, node_endpoints=endpoints)
