"""Producer for asyncio: records are handed in at once, and a delivery is awaited when its outcome matters."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Generator, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from ottla.aio.forgotten import close_if_forgotten
from ottla.aio.sending import LoopProducerEngine, NoRoom, all_settled, watched
from ottla.aio.waiting import LOOP_WAITS, ROWS_IN_A_ROW
from ottla.client.clock import MONOTONIC, Deadline
from ottla.fetching.commit_positions import Committable, commit_positions
from ottla.model.closing import OfOneProcess
from ottla.model.committed_positions import GroupMetadata
from ottla.model.errors import OttlaError, TransactionAborted
from ottla.model.property_table import merged
from ottla.producer import deliveries
from ottla.producer.deliveries import OnBatchDelivery, OnDelivery, RecordMetadata
from ottla.producer.partitioners import ColumnPartitioner, RowPartitioner
from ottla.producer.prepared_transaction import PreparedTransaction
from ottla.producer.producer_choice import (
    ReadingMember,
    Serializer,
    Serializers,
    partitioner_choice,
)
from ottla.producer.producer_config import ProducerConfig
from ottla.producer.rows import HeaderPairs
from ottla.producer.sequences import Identity
from ottla.producer.settled_rows import RowNumbers

INTERRUPTED_CLOSE_S = 1.0


class Delivery:
    """The future of one record: `await` it to know where the record is.

    >>> import asyncio
    >>> from ottla import aio
    >>> async def order():
    ...     async with aio.Producer(bootstrap_servers="127.0.0.1:9092") as producer:
    ...         delivery = await producer.send("orders", b"milk")
    ...         return await delivery.result(timeout=30)
    >>> asyncio.run(order()).offset
    3
    """

    __slots__ = ("_delivery",)

    def __init__(self, delivery: deliveries.Delivery) -> None:
        self._delivery = delivery

    def __repr__(self) -> str:
        return repr(self._delivery)

    def done(self) -> bool:
        """Whether the record is stored or has failed."""
        return self._delivery.done()

    async def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where the record is; waits up to `timeout` seconds. Raises its error, or TimeoutError."""
        await self._settled(timeout)
        return self._delivery.result(0)

    async def exception(self, timeout: float | None = None) -> OttlaError | None:
        """The error of a failed record, else None; waits up to `timeout` seconds. Raises TimeoutError."""
        await self._settled(timeout)
        return self._delivery.exception(0)

    async def _settled(self, timeout: float | None) -> None:
        submission = self._delivery._submission
        if not self._delivery.done() and not await watched(submission).until(self._delivery.done, timeout):
            raise submission.late(timeout)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        return self.result().__await__()


class BatchDelivery:
    """The future of the rows of one `send_batch`: `await` it to know where they are.

    >>> import asyncio
    >>> import pyarrow
    >>> from ottla import aio
    >>> async def order():
    ...     async with aio.Producer(bootstrap_servers="127.0.0.1:9092") as producer:
    ...         columns = pyarrow.table({"value": ["milk", "honey"]})
    ...         return await (await producer.send_batch("orders", columns))
    >>> asyncio.run(order())["offset"].to_pylist()
    [3, 4]
    """

    __slots__ = ("_delivery",)

    def __init__(self, delivery: deliveries.BatchDelivery) -> None:
        self._delivery = delivery

    def __repr__(self) -> str:
        return repr(self._delivery)

    def __len__(self) -> int:
        return len(self._delivery)

    def done(self) -> bool:
        """Whether every row is stored or has failed."""
        return self._delivery.done()

    async def result(self, timeout: float | None = None) -> pa.RecordBatch:
        """Columns `partition` and `offset`, one row for each row that was sent, in order; waits for all.

        Raises the error of the first row that failed; `failures` has all of them. Raises TimeoutError.
        """
        await all_settled(self._delivery._submission, timeout)
        return self._delivery.result(0)

    async def failures(self, timeout: float | None = None) -> list[tuple[RowNumbers, OttlaError]]:
        """(row numbers, error) of rows that failed; waits for all rows. Raises TimeoutError."""
        await all_settled(self._delivery._submission, timeout)
        return self._delivery.failures(0)

    def __await__(self) -> Generator[Any, None, pa.RecordBatch]:
        return self.result().__await__()


class Producer(OfOneProcess):
    """Sends records to topics. Made and used in a running event loop.

        >>> import asyncio
        >>> from ottla import aio
        >>> async def order():
        ...     async with aio.Producer(bootstrap_servers="127.0.0.1:9092") as producer:
        ...         delivery = await producer.send("orders", b"milk")
        ...         return (await delivery).offset
        >>> asyncio.run(order())
        3

    Arguments and settings are those of `ottla.Producer`. Serializers and partitioners are plain functions.
    `on_delivery` is called on the loop, with a delivery that is done.
    """

    def __init__(
        self,
        properties: Mapping[str, object] | None = None,
        *,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        partitioner: RowPartitioner | str | None = None,
        column_partitioner: ColumnPartitioner | None = None,
        **settings: object,
    ) -> None:
        config = ProducerConfig.from_properties(merged(properties, settings))
        self._serializers = Serializers(key_serializer, value_serializer)
        self._key_serializer, self._value_serializer = self._serializers.key, self._serializers.value
        self._engine = engine = LoopProducerEngine(
            config, partitioner_choice(partitioner, column_partitioner, config)
        )
        self._inboxes = engine.intake.open_inboxes
        self._sent_in_a_row = 0
        self._registrations = self._serializers.registrations
        self._forgotten = close_if_forgotten(
            self, repr(self), engine.stop, is_running=lambda: engine.is_started and engine.intake.is_open
        )

    def __repr__(self) -> str:
        client = self._engine.config.client
        servers = ",".join(str(address) for address in client.bootstrap)
        state = "" if self._engine.intake.is_open else ", closed"
        return f"<aio.Producer {client.client_id!r} to {servers}{state}>"

    async def send(
        self,
        topic: str,
        value: Any,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: HeaderPairs | None = None,
        *,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Hand in one record; waits only while buffer.memory is full. Await the delivery for the outcome.

        After every 512 records it lets the loop run other tasks, among them those that send the records.

        If it is cancelled while it waits, the record was not accepted. Raises BufferFull after max.block.ms,
        RecordTooLarge, ProducerClosed, ConfigError and what a serializer raises; then too the record was not
        accepted.
        """
        if self._registrations:
            await self._register()
        if value is not None and self._value_serializer is not None:
            value = self._value_serializer(value)
        if key is not None and self._key_serializer is not None:
            key = self._key_serializer(key)
        self._sent_in_a_row += 1
        if self._sent_in_a_row >= ROWS_IN_A_ROW:
            self._sent_in_a_row = 0
            await asyncio.sleep(0)
        inbox = self._inboxes.get(topic) or self._engine.inbox(topic)
        deadline: Deadline | None = None
        while True:
            try:
                return Delivery(inbox.send(value, key, partition, timestamp_ms, headers, on_delivery))
            except NoRoom as need:
                deadline = deadline or Deadline(MONOTONIC, self._engine.memory.max_block_ms)
                await self._engine.room(need, deadline)
                self._engine.intake.check_open()

    async def _register(self) -> None:
        """Store the schemas of keys and values in their registries, once; a thread asks the registries."""
        for register in list(self._registrations):
            await LOOP_WAITS.blocking(register)
            with contextlib.suppress(ValueError):  # another task has done it meanwhile
                self._registrations.remove(register)

    async def send_batch(
        self,
        topic: str,
        columns: pa.RecordBatch | pa.Table,
        *,
        partition: int | None = None,
        on_delivery: OnBatchDelivery | None = None,
    ) -> BatchDelivery:
        """Hand in the rows of a table: `value`, and optionally `key`, `timestamp`, `headers`, `partition`.

        Waits while buffer.memory is full, so a table may be larger than that. Raises as `send`; a BufferFull
        has the delivery of the rows that were accepted. A cancellation leaves the rest out.
        """
        inbox = self._inboxes.get(topic) or self._engine.inbox(topic)
        await self._register()
        encoded = self._serializers.of_columns(columns)
        steps = self._engine.columns.batch_steps(inbox, encoded, partition, on_delivery)
        return BatchDelivery(await self._engine.hand_in(inbox, steps))

    async def send_whole(self, topic: str, batches: pa.RecordBatch, *, partition: int) -> BatchDelivery:
        """Hand in record batches as a consumer with `whole.batches.min.bytes` got them.

        They keep their codec, and are decoded only if the broker cannot take them. The delivery is that of
        their records. Waits and raises as `send_batch`.
        """
        inbox = self._inboxes.get(topic) or self._engine.inbox(topic)
        steps = self._engine.columns.whole_steps(inbox, batches, partition)
        return BatchDelivery(await self._engine.hand_in(inbox, steps))

    async def send_many(
        self,
        topic: str,
        values: Iterable[Any],
        keys: Iterable[Any] | None = None,
        *,
        partition: int | None = None,
        timestamps_ms: Iterable[int | None] | None = None,
        headers: Iterable[HeaderPairs | None] | None = None,
        on_delivery: OnBatchDelivery | None = None,
    ) -> BatchDelivery:
        """Hand in records from lists of their fields, several times faster than `send` for each.

        The lists have the same length; their elements are as for `send`. Waits and raises as `send_batch`.
        """
        await self._register()
        table = self._serializers.table_of(values, keys, timestamps_ms, headers)
        return await self.send_batch(topic, table, partition=partition, on_delivery=on_delivery)

    async def check_brokers(self, timeout: float | None = None) -> None:
        """Ask a broker to describe the cluster, and return when one has. Raises BrokerUnreachable."""
        await self._engine.metadata.check_brokers(timeout)

    # ---- transactions

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """A transaction around an `async with` block: committed at its end, aborted if it raises.

        Readers with isolation.level=read_committed see all records of the block, or none. Raises
        TransactionAborted if the transaction could not be committed: it is aborted, and the block may be run
        again. Raises ProducerFenced if the producer is of no use any more. Raises as `commit`. A cancellation
        inside the block aborts it; one that comes while it is committed takes effect when that is done.
        """
        await self.begin()
        try:
            yield
            if not self._engine.transactions.is_ended:
                await self.commit()
        except TransactionAborted:
            await self._abort_if_open()
            raise
        except BaseException:
            # The first error is raised. If the outcome is not known, it stays so: commit() may be called
            # again.
            with contextlib.suppress(OttlaError):
                await self._abort_if_open()
            raise

    async def _abort_if_open(self) -> None:
        if self._engine.transactions.is_open:
            await self.abort()

    async def init_transactions(self, resumed: Identity | None = None) -> Identity:
        """Take over the transactional.id: older producers of it are refused, their open transaction aborted.

        Returns and raises as `ottla.Producer.init_transactions`. `begin` does it too, the first time.
        """
        return await self._engine.transactions.init(resumed)

    async def begin(self) -> None:
        """Begin a transaction. Raises as `init_transactions`, ProducerFenced; ConfigError if one is open."""
        await self._engine.transactions.begin()

    async def commit(self) -> None:
        """Send everything that was handed in, wait until it is acknowledged, and commit it.

        Raises as `ottla.Producer.commit`. If it is cancelled before the coordinator was told, the transaction
        is open as before; afterwards it is ended first.
        """
        await self._engine.transactions.commit()

    async def hand_over(self) -> PreparedTransaction | None:
        """Send everything, wait until it is acknowledged, and leave the end to `TransactionEnder`.

        Returns and raises as `ottla.Producer.hand_over`.
        """
        return await self._engine.transactions.hand_over()

    async def abort(self) -> None:
        """Take back everything since `begin`: what was sent, and the offsets; the rest is not sent.

        Raises as `ottla.Producer.abort`: then call it again, also after a cancellation.
        """
        await self._engine.transactions.abort()

    async def send_offsets(self, offsets: Committable, group: ReadingMember | GroupMetadata) -> None:
        """Store positions of a group as a part of the transaction: they count when it is committed.

        `offsets` is a message or a chunk, which counts as done, or a mapping from partitions to next offsets.
        `group` is the GroupConsumer that has read them. Raises TransactionAborted, ProducerFenced.
        """
        positions = commit_positions(offsets, dict)
        metadata = group if isinstance(group, GroupMetadata) else group.group_metadata
        if positions:
            await self._engine.transactions.send_offsets(positions, metadata)

    # ---- the end

    async def flush(self, timeout: float | None = None) -> None:
        """Send everything that was handed in, and wait until it is acknowledged or has failed.

        Raises TimeoutError after `timeout` seconds; sending continues. Raises the first failure that nobody
        has looked at.
        """
        await self._engine.settled(timeout)
        self._engine.raise_unseen()

    async def close(self, timeout: float | None = None) -> None:
        """Flush for at most `timeout` seconds, give up the rest, and end all tasks. May be called twice.

        An open transaction is aborted. Raises as `flush`, but no TimeoutError: records that are given up fail
        with ProducerClosed. If it is cancelled, the rest is given up at once.
        """
        self._forgotten.detach()
        await self._engine.close(timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
            return
        is_interrupted = not isinstance(error, Exception)
        with contextlib.suppress(OttlaError):  # the first error is raised; all are in the log
            await self.close(INTERRUPTED_CLOSE_S if is_interrupted else None)
