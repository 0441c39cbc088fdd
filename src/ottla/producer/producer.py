"""The producer that applications hold.

with Producer(bootstrap_servers="127.0.0.1:9092", linger_ms=5) as producer:
    delivery = producer.send("orders", b"value", key=b"key")
    producer.send_batch("orders", table)              # pyarrow: value, and key, timestamp, headers, partition
    print(delivery.result())                          # topic, partition, offset, timestamp
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import warnings
import weakref
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Self

import pyarrow as pa

from ottla.client.clock import MONOTONIC, Deadline
from ottla.client.metadata import ClusterMetadata
from ottla.client.properties import merged
from ottla.model.errors import ConfigError, OttlaError
from ottla.producer.config import ProducerConfig
from ottla.producer.deliveries import (
    BatchDelivery,
    Delivery,
    OnBatchDelivery,
    OnDelivery,
    Submission,
    check_not_in_callback,
)
from ottla.producer.dispatcher import Dispatcher, KnownTopic
from ottla.producer.errors import BufferFull, ProducerClosed
from ottla.producer.inboxes import TopicInbox
from ottla.producer.partition_queue import FULL
from ottla.producer.partitioners import (
    Choice,
    ColumnPartitioner,
    RowPartitioner,
    TopicPartitioner,
    no_such_partition,
)
from ottla.producer.parts import PARTITION, Sizes, Source, taken
from ottla.producer.rows import Bytes, HeaderPairs
from ottla.producer.scout import Scout
from ottla.producer.sender import BrokerSender
from ottla.producer.upkeep import Upkeep
from ottla.producer.whole_parts import whole_parts
from ottla.records.whole_batches import is_whole

JOIN_S = 5.0
INTERRUPTED_CLOSE_S = 1.0
ROUND_ROBIN = "round_robin"


class Producer:
    """Sends records to topics. Any thread may use it; it has threads of its own, and ends with `close`.

    `properties` are Kafka's, with dots or underscores: `Producer({"linger.ms": 5})`, `Producer(linger_ms=5)`.
    `partitioner` is asked for records without a partition: (topic, key, value, partition count) → partition;
    or it is "round_robin". `column_partitioner` gets columns: (topic, columns, partition count) → partitions.
    """

    def __init__(
        self,
        properties: Mapping[str, object] | None = None,
        *,
        partitioner: RowPartitioner | str | None = None,
        column_partitioner: ColumnPartitioner | None = None,
        **more: object,
    ) -> None:
        config = ProducerConfig.from_properties(merged(properties, more))
        self._choice = _choice(partitioner, column_partitioner, config)
        self._chance = random.Random()
        self._dispatcher = Dispatcher(config, MONOTONIC, self._chance)
        self._metadata = ClusterMetadata(config.client, MONOTONIC)
        dispatcher, metadata = self._dispatcher, self._metadata
        dispatcher.senders_are_made_by(lambda broker_id: BrokerSender(broker_id, dispatcher, metadata))
        self._inboxes = dispatcher.open_inboxes
        self._closing = threading.Lock()
        self._scout = Scout(dispatcher, metadata, self._chance)
        self._upkeep = Upkeep(dispatcher)
        self._scout.start()
        self._upkeep.start()
        _ALIVE.add(self)

    # ---- sending

    def send(
        self,
        topic: str,
        value: Bytes | None,
        key: Bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: HeaderPairs | None = None,
        *,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Hand in one record. Returns at once, unless buffer.memory is full.

        Text is sent as UTF-8, a value of None is a tombstone. The record's own errors come with the delivery,
        which `on_delivery` gets in another thread. Raises BufferFull, RecordTooLarge, ProducerClosed,
        ConfigError: the record was not accepted then.
        """
        inbox = self._inboxes.get(topic) or self._inbox(topic)
        return inbox.send(value, key, partition, timestamp_ms, headers, on_delivery)

    def send_batch(
        self,
        topic: str,
        columns: pa.RecordBatch | pa.Table,
        *,
        partition: int | None = None,
        on_delivery: OnBatchDelivery | None = None,
    ) -> BatchDelivery:
        """Hand in a table's rows: `value`, and if it has them `key`, `timestamp`, `headers`, `partition`.

        Waits while buffer.memory is full, so that a table may be larger than that; the memory of the columns
        must not change before the delivery is done. All go to `partition` if it is given. Raises as `send`;
        a BufferFull has the delivery of the rows that had been accepted.
        """
        inbox = self._inboxes.get(topic) or self._inbox(topic)
        pieces = taken(columns)
        if partition is not None and any(PARTITION in piece.schema.names for piece in pieces):
            raise ConfigError("partition is given, and there is a column 'partition': leave one of them out")
        sources = [Source.of(piece) for piece in pieces]
        sizes = [Sizes(source.records) for source in sources]
        inbox.check_size(max((one.largest for one in sizes), default=0))
        submission = Submission(topic)
        submission.on_done = on_delivery
        with self._accepting(submission) as delivery:
            if sources:
                self._hand_in(inbox, sources, sizes, partition, submission)
        return delivery

    def send_whole(self, topic: str, batches: pa.RecordBatch, *, partition: int) -> BatchDelivery:
        """Hand in record batches as a consumer with `whole.batches.min.bytes` got them, for a partition.

        They keep their codec, and are decoded only where a broker cannot take them. The delivery is of their
        records. Waits while buffer.memory is full. Raises as `send_batch`.
        """
        inbox = self._inboxes.get(topic) or self._inbox(topic)
        if not is_whole(batches):
            raise ConfigError(f"these are no record batches: {batches.schema.names}; use send_batch()")
        dispatcher, submission = self._dispatcher, Submission(topic)
        with self._accepting(submission) as delivery:
            self._check_partition(topic, partition, dispatcher.wait_known(topic), "send_whole()")
            dispatcher.opened(submission)
            for part in whole_parts(batches, submission, dispatcher.memory.limit):
                dispatcher.reserve(part.held_bytes)
                try:
                    inbox.take_whole(partition, part)
                except BaseException:
                    dispatcher.memory.release(part.held_bytes)
                    raise
                submission.count = part.rows[-1] + 1
        return delivery

    @contextlib.contextmanager
    def _accepting(self, submission: Submission) -> Iterator[BatchDelivery]:
        """While rows of a submission are handed in. The submission counts what was accepted."""
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
            self._dispatcher.closed(submission)

    def _hand_in(
        self,
        inbox: TopicInbox,
        sources: list[Source],
        sizes: list[Sizes],
        partition: int | None,
        submission: Submission,
    ) -> None:
        """Columns in steps that fit the memory; the submission counts what was accepted."""
        topic, dispatcher = submission.topic, self._dispatcher
        known = dispatcher.wait_known(topic)
        if partition is not None:
            self._check_partition(topic, partition, known, "send_batch()")
        dispatcher.opened(submission)
        for source, measured in zip(sources, sizes, strict=True):
            step = self._step(source.columns, partition, known)
            for first, last, size in measured.runs(step):
                dispatcher.reserve(size)
                rows = range(submission.count, submission.count + last - first)
                reach = measured.reach[first : last + 1]
                try:
                    inbox.take(source.part(first, last), reach, rows, partition, known, submission)
                except BaseException:
                    dispatcher.memory.release(size)
                    raise
                submission.count = rows.stop

    def _check_partition(self, topic: str, partition: int, known: KnownTopic, by: str) -> None:
        if not 0 <= partition < known.partition_count:
            raise no_such_partition(topic, partition, known.partition_count, by)

    def _step(self, piece: pa.RecordBatch, partition: int | None, known: KnownTopic) -> int:
        """Bytes that are placed at once: enough for a batch, of each partition if they are spread by rows."""
        dispatcher = self._dispatcher
        step = dispatcher.part_bytes
        if partition is None and known.partition_count > 1 and self._choice.spreads(piece):
            # Somewhat less, or every other partition would get a little more than a batch.
            step = int(step * known.partition_count * FULL)
        return max(1, min(step, dispatcher.memory.limit // 4))

    def _inbox(self, topic: str) -> TopicInbox:
        """The inbox of a topic that has none yet, or of any topic when nothing is taken any more."""
        if not isinstance(topic, str) or not topic:
            raise ConfigError(f"topic={topic!r}: the name of a topic is wanted")
        partitioner = TopicPartitioner(topic, self._choice, self._chance.randrange(1 << 16))
        return self._dispatcher.open_inbox(TopicInbox(topic, self._dispatcher, partitioner))

    # ---- the end

    def flush(self, timeout: float | None = None) -> None:
        """Send everything that was handed in, and wait until it is acknowledged or has failed.

        Raises TimeoutError after so many seconds; it goes on being sent. Raises the first failure of those
        that nobody has looked at: no `result`, `exception`, `failures` or `on_delivery`. RuntimeError in
        `on_delivery`, whose thread would wait for its own work.
        """
        check_not_in_callback("flush")
        deadline = Deadline(MONOTONIC, None if timeout is None else timeout * 1000.0)
        open_ones = self._dispatcher.flush_begins()
        try:
            for submission in open_ones:
                left_ms = deadline.left_ms()
                submission.wait_all(None if left_ms is None else left_ms / 1000.0)
        finally:
            self._dispatcher.flush_ends()
        self._raise_unseen()

    def _raise_unseen(self) -> None:
        unseen = self._dispatcher.unseen_failures()
        for submission in unseen:
            submission.is_seen = True
        for run in (run for submission in unseen for run in submission.settled):
            if run.error is not None:
                raise run.error.with_traceback(None)

    def close(self, timeout: float | None = None) -> None:
        """Flush for so many seconds, give up what is left, and end all threads. May be called twice.

        Raises as `flush` does, but no TimeoutError: what is given up has failed with ProducerClosed.
        """
        check_not_in_callback("close")
        self._dispatcher.refuse(ProducerClosed("this producer is closed"))
        with self._closing:
            if self._dispatcher.is_stopped:
                return
            try:
                self.flush(timeout)
            except TimeoutError:
                pass
            finally:
                self._stop()
        self._raise_unseen()

    def _stop(self) -> None:
        dispatcher = self._dispatcher
        dispatcher.hurry()
        senders = dispatcher.stop()
        self._scout.stop()
        for sender in senders:
            sender.join(JOIN_S)
        self._scout.join(JOIN_S)
        self._upkeep.join(JOIN_S)
        dispatcher.abandon(ProducerClosed("the producer was closed before the records were acknowledged"))
        self._metadata.close()
        _ALIVE.discard(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        is_wanted_now = isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit)
        with contextlib.suppress(OttlaError):  # the first error is the one to see; all are in the log
            self.close(INTERRUPTED_CLOSE_S if is_wanted_now else None)

    def __del__(self) -> None:
        dispatcher = getattr(self, "_dispatcher", None)
        if dispatcher is not None and not dispatcher.is_stopped and dispatcher.why_refused is None:
            warnings.warn(f"{self!r} was not closed", ResourceWarning, stacklevel=2, source=self)
            dispatcher.stop()
            self._scout.stop()


def _choice(
    row: RowPartitioner | str | None, column: ColumnPartitioner | None, config: ProducerConfig
) -> Choice:
    if isinstance(row, str):
        if row != ROUND_ROBIN:
            raise ConfigError(f"partitioner={row!r}: give a function, or {ROUND_ROBIN!r}")
        return Choice(column=column, is_round_robin=True)
    return Choice(row=row, column=column, ignores_keys=config.ignores_keys)


# ---- forks

_ALIVE: weakref.WeakSet[Producer] = weakref.WeakSet()


def _forked() -> None:
    """A child has the producers of its parent, but not their threads."""
    for producer in list(_ALIVE):
        producer._dispatcher.forked(
            ProducerClosed(
                "this producer was made before a fork, and its threads run in the parent: make one here"
            )
        )


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
