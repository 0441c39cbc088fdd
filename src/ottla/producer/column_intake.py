"""How columns are accepted: measured, checked, and passed on in steps that fit the memory."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator
from typing import NamedTuple, ParamSpec

import pyarrow as pa

from ottla.model.errors import ConfigError
from ottla.producer.deliveries import BatchDelivery, BufferFull, OnBatchDelivery, Submission
from ottla.producer.dispatcher import Dispatcher
from ottla.producer.inboxes import TopicInbox, wall_ms
from ottla.producer.partition_queue import FULL
from ottla.producer.partitioners import PartitionerChoice, no_such_partition
from ottla.producer.parts import PARTITION, ColumnSource, Sizes, taken
from ottla.producer.producer_state import ProducerParts
from ottla.producer.topic_directory import KnownTopic
from ottla.producer.whole_parts import whole_parts
from ottla.records.whole_batches import is_whole

P = ParamSpec("P")


class NeedsTopic(NamedTuple):
    """Wait until the topic is known; ask again if this partition may have been added since."""

    topic: str
    partition: int


class NeedsMemory(NamedTuple):
    """Wait until `size` bytes are reserved."""

    size: int


Need = NeedsTopic | NeedsMemory
Steps = Generator[Need, KnownTopic | None, BatchDelivery]


class ColumnIntake:
    """Any thread may call it; each call waits while buffer.memory is full."""

    def __init__(self, state: ProducerParts, dispatcher: Dispatcher, choice: PartitionerChoice) -> None:
        self._choice = choice
        self._part_bytes = state.config.part_bytes
        self._memory = state.memory
        self._dispatcher = dispatcher
        self._settlement = state.settlement
        self._topics = state.topics
        self._errors = state.errors

    def send_batch(
        self,
        inbox: TopicInbox,
        columns: pa.RecordBatch | pa.Table,
        partition: int | None,
        on_delivery: OnBatchDelivery | None,
    ) -> BatchDelivery:
        """See `Producer.send_batch`."""
        return self._carried_out(self.batch_steps(inbox, columns, partition, on_delivery))

    def _carried_out(self, steps: Steps) -> BatchDelivery:
        """Run the steps, and wait for what they need."""
        try:
            need = next(steps)
            while True:
                try:
                    known = self._waited(need)
                except BaseException as error:  # noqa: BLE001 - the steps know what was accepted
                    need = steps.throw(error)
                else:
                    need = steps.send(known)
        except StopIteration as end:
            delivery: BatchDelivery = end.value
            return delivery

    def _waited(self, need: Need) -> KnownTopic | None:
        if isinstance(need, NeedsTopic):
            return self._topics.wait_for_partition(need.topic, need.partition)
        self._dispatcher.reserve(need.size)
        return None

    def batch_steps(
        self,
        inbox: TopicInbox,
        columns: pa.RecordBatch | pa.Table,
        partition: int | None,
        on_delivery: OnBatchDelivery | None,
    ) -> Steps:
        """`send_batch` without its waits: yields what it needs, and is sent what is known of a topic."""
        pieces = taken(columns)
        if partition is not None and any(PARTITION in piece.schema.names for piece in pieces):
            raise ConfigError("partition is given, and there is a column 'partition': leave one of them out")
        sources = [ColumnSource.of(piece, wall_ms()) for piece in pieces]
        sizes = [Sizes(source.records) for source in sources]
        inbox.check_size(max((size.largest for size in sizes), default=0))
        submission = Submission(inbox.topic, self._errors)
        submission.on_done = on_delivery
        with self._accepting(submission) as delivery:
            if sources:
                known = yield NeedsTopic(inbox.topic, _highest_partition(partition, pieces))
                assert known is not None
                if partition is not None:
                    _check_partition(inbox.topic, partition, known, "send_batch()")
                yield from self._hand_in(inbox, sources, sizes, partition, known, submission)
        return delivery

    def send_whole(self, inbox: TopicInbox, batches: pa.RecordBatch, partition: int) -> BatchDelivery:
        """See `Producer.send_whole`."""
        return self._carried_out(self.whole_steps(inbox, batches, partition))

    def whole_steps(self, inbox: TopicInbox, batches: pa.RecordBatch, partition: int) -> Steps:
        """`send_whole` without its waits, as `batch_steps`."""
        if not is_whole(batches):
            raise ConfigError(f"these are no record batches: {batches.schema.names}; use send_batch()")
        submission = Submission(inbox.topic, self._errors)
        with self._accepting(submission) as delivery:
            known = yield NeedsTopic(inbox.topic, partition)
            assert known is not None
            _check_partition(inbox.topic, partition, known, "send_whole()")
            self._settlement.opened(submission)
            for part in whole_parts(batches, submission, self._memory.limit, wall_ms()):
                yield NeedsMemory(part.held_bytes)
                self._with_memory(part.held_bytes, inbox.take_whole, partition, part)
                submission.count = part.rows[-1] + 1
        return delivery

    @contextlib.contextmanager
    def _accepting(self, submission: Submission) -> Iterator[BatchDelivery]:
        """Open a submission while its rows are handed in. It counts the rows that were accepted."""
        delivery = BatchDelivery(submission)
        try:
            yield delivery
        except BufferFull as error:
            message = (
                f"{submission.topic}: {submission.count:,} rows were accepted, the next were not: {error}"
            )
            raise BufferFull(message, delivery, submission.count) from None
        finally:
            submission.close(submission.count)
            self._settlement.updated(submission)

    def _with_memory(
        self, size: int, hand_in: Callable[P, None], *arguments: P.args, **keywords: P.kwargs
    ) -> None:
        """Call `hand_in`, for which memory is reserved; the memory is released if that fails."""
        try:
            hand_in(*arguments, **keywords)
        except BaseException:
            self._memory.release(size)
            raise

    def _hand_in(
        self,
        inbox: TopicInbox,
        sources: list[ColumnSource],
        sizes: list[Sizes],
        partition: int | None,
        known: KnownTopic,
        submission: Submission,
    ) -> Generator[Need, KnownTopic | None, None]:
        """Hand columns in, in steps that fit the memory; the submission counts the rows that were
        accepted.
        """
        self._settlement.opened(submission)
        for source, measured in zip(sources, sizes, strict=True):
            step = self._step(source.columns, partition, known)
            for first, last, size in measured.runs(step):
                rows = range(submission.count, submission.count + last - first)
                reach = measured.reach[first : last + 1]
                part = source.part(first, last)
                yield NeedsMemory(size)
                self._with_memory(size, inbox.take, part, reach, rows, partition, known, submission)
                submission.count = rows.stop

    def _step(self, piece: pa.RecordBatch, partition: int | None, known: KnownTopic) -> int:
        """Return how many bytes to partition at once: a full batch, or one for each partition if rows are
        spread.
        """
        step = self._part_bytes
        if partition is None and known.partition_count > 1 and self._choice.spreads(piece):
            # Somewhat less than a full batch, or every other partition would get a little more than a batch.
            step = int(step * known.partition_count * FULL)
        return max(1, min(step, self._memory.limit // 4))


def _highest_partition(partition: int | None, pieces: list[pa.RecordBatch]) -> int:
    """Return the highest partition that the rows name."""
    if partition is not None:
        return partition
    chosen = [piece.column(PARTITION) for piece in pieces if PARTITION in piece.schema.names]
    return max((_highest(column) for column in chosen), default=0)


def _check_partition(topic: str, partition: int, known: KnownTopic, source: str) -> None:
    if not 0 <= partition < known.partition_count:
        raise no_such_partition(topic, partition, known.partition_count, source)


def _highest(partitions: pa.Array) -> int:
    # Imported here, since it takes 50 ms to load, and few need it.
    from pyarrow.compute import max as highest_of

    return highest_of(partitions).as_py() or 0
