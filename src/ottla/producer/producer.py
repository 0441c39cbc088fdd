"""The producer that applications hold."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from ottla.client.conversation import completed
from ottla.fetching.commit_positions import Committable, commit_positions
from ottla.model.closing import OfOneProcess
from ottla.model.committed_positions import GroupMetadata
from ottla.model.errors import OttlaError, ProducerClosed, TransactionAborted
from ottla.model.forgotten import stop_if_forgotten
from ottla.model.property_table import merged
from ottla.producer.deliveries import (
    BatchDelivery,
    Delivery,
    OnBatchDelivery,
    OnDelivery,
    check_not_in_callback,
)
from ottla.producer.engine import ProducerEngine
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

INTERRUPTED_CLOSE_S = 1.0


class Producer(OfOneProcess):
    """Sends records to topics. Any thread may use it. Close it, or use `with`: it has threads of its own.

    >>> import pyarrow
    >>> from ottla import EmbeddedBroker, Producer
    >>> with EmbeddedBroker() as broker, Producer(bootstrap_servers=broker.bootstrap) as producer:
    ...     delivery = producer.send("orders", b"value", key=b"key")
    ...     columns = producer.send_batch("orders", pyarrow.table({"value": [b"a", b"b"]}))
    ...     print(delivery.result(timeout=30).offset, len(columns.result(timeout=30)))
    0 2

    `properties` are Kafka's names in a mapping, or keywords: `Producer({"linger.ms": 5})` and
    `Producer(linger_ms=5)` are the same.

    `key_serializer` and `value_serializer` turn what `send` gets into bytes: a function, or an
    `ottla.Schema`. They are called neither for None nor for columns of bytes; a Schema encodes typed columns.
    `partitioner` chooses the partition of records that have none: a function of (topic, key, value, partition
    count), which gets the serialized key and value, or "round_robin". `column_partitioner` does the same for
    columns: (topic, columns, partition count) → a partition for each row.

    With a `transactional_id` records are sent in transactions only: see `transaction`.

    Raises ConfigError for wrong settings. No broker is contacted before the first record is sent, or the
    first transaction begins.
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
        self._has_serializer = key_serializer is not None or value_serializer is not None
        self._engine = engine = ProducerEngine(
            config, partitioner_choice(partitioner, column_partitioner, config)
        )
        self._inboxes = engine.intake.open_inboxes
        self._forgotten = stop_if_forgotten(
            self, repr(self), engine.stop, is_running=lambda: engine.intake.is_open and not engine.is_stopped
        )
        _ENGINES.add(engine)

    def __repr__(self) -> str:
        client = self._engine.config.client
        servers = ",".join(str(address) for address in client.bootstrap)
        state = "" if self._engine.intake.is_open else ", closed"
        return f"<Producer {client.client_id!r} to {servers}{state}>"

    # ---- sending

    def send(
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
        """Hand in one record. Returns at once, unless buffer.memory is full.

        `value` and `key` are bytes, text (sent as UTF-8) or None, or whatever their serializer takes. A value
        of None is a tombstone. If the record fails later, the delivery raises the error; `on_delivery` gets
        the delivery in another thread. Raises BufferFull, RecordTooLarge, ProducerClosed, ConfigError and
        what a serializer raises; then the record was not accepted.
        """
        if self._has_serializer:
            if value is not None and self._value_serializer is not None:
                value = self._value_serializer(value)
            if key is not None and self._key_serializer is not None:
                key = self._key_serializer(key)
        inbox = self._inboxes.get(topic) or self._engine.inbox(topic)
        return inbox.send(value, key, partition, timestamp_ms, headers, on_delivery)

    def send_batch(
        self,
        topic: str,
        columns: pa.RecordBatch | pa.Table,
        *,
        partition: int | None = None,
        on_delivery: OnBatchDelivery | None = None,
    ) -> BatchDelivery:
        """Hand in the rows of a table: `value`, and optionally `key`, `timestamp`, `headers`, `partition`.

        With `partition`, all rows go there. Waits while buffer.memory is full, so a table may be larger than
        that. With a Schema as serializer, a typed column `key` or `value` is encoded by it. The memory of the
        columns must not change before the delivery is done. Raises as `send`; a BufferFull has the delivery
        of the rows that were accepted.
        """
        inbox = self._inboxes.get(topic) or self._engine.inbox(topic)
        encoded = self._serializers.of_columns(columns)
        return self._engine.columns.send_batch(inbox, encoded, partition, on_delivery)

    def send_many(
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
        table = self._serializers.table_of(values, keys, timestamps_ms, headers)
        return self.send_batch(topic, table, partition=partition, on_delivery=on_delivery)

    def send_whole(self, topic: str, batches: pa.RecordBatch, *, partition: int) -> BatchDelivery:
        """Hand in record batches as a consumer with `whole.batches.min.bytes` got them.

        They keep their codec, and are decoded only if the broker cannot take them. The delivery is that of
        their records. Waits while buffer.memory is full. Raises as `send_batch`.
        """
        inbox = self._inboxes.get(topic) or self._engine.inbox(topic)
        return self._engine.columns.send_whole(inbox, batches, partition)

    def check_brokers(self, timeout: float | None = None) -> None:
        """Ask a broker to describe the cluster, and return when one has.

        Raises BrokerUnreachable or AuthenticationFailed: at once if every address fails, at the latest after
        `timeout` seconds (default: request.timeout.ms).
        """
        self._engine.check_brokers(timeout)

    # ---- transactions

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction around a `with` block: committed at its end, aborted if it raises.

        Readers with isolation.level=read_committed see all records of the block, or none. Raises
        TransactionAborted if the transaction could not be committed: it is aborted, and the block may be run
        again. Raises ProducerFenced if the producer is of no use any more. Raises as `commit`.
        """
        self.begin()
        try:
            yield
            if not self._engine.transactions.is_ended:
                self.commit()
        except TransactionAborted:
            self._abort_if_open()
            raise
        except BaseException:
            # The first error is raised. If the outcome is not known, it stays so: commit() may be called
            # again.
            with contextlib.suppress(OttlaError):
                self._abort_if_open()
            raise

    def _abort_if_open(self) -> None:
        if self._engine.transactions.is_open:
            self.abort()

    def init_transactions(self, resumed: Identity | None = None) -> Identity:
        """Take over the transactional.id: older producers of it are refused, their open transaction aborted.

        Returns the producer's id and epoch. With those of an earlier producer as `resumed` it raises
        ProducerFenced if anybody has taken over since. `begin` does it too, the first time. Waits up to
        max.block.ms. Raises KafkaError if the coordinator refuses, LocalProtocolError if the brokers have no
        transactions, and what connections raise; then it may be called again.
        """
        check_not_in_callback("init_transactions")
        return completed(self._engine.transactions.init(resumed))

    def begin(self) -> None:
        """Begin a transaction. Raises as `init_transactions`, ProducerFenced, and ConfigError if one is open.

        A record that another thread has handed in since the last transaction ended fails.
        """
        check_not_in_callback("begin")
        completed(self._engine.transactions.begin())

    def commit(self) -> None:
        """Send everything that was handed in, wait until it is acknowledged, and commit it.

        Waits for records up to delivery.timeout.ms, and for the coordinator up to max.block.ms. Raises
        TransactionAborted if it cannot be committed: call `abort`. Raises ProducerFenced. Raises what
        connections raise if the coordinator does not answer: then the outcome is not known, and the only way
        on is to call `commit` again. As all calls about transactions, RuntimeError inside `on_delivery`.
        """
        check_not_in_callback("commit")
        completed(self._engine.transactions.commit())

    def hand_over(self) -> PreparedTransaction | None:
        """Send everything, wait until it is acknowledged, and leave the end to `TransactionEnder`.

        Returns what another process needs to end it; None if nothing was sent. Until it is ended, `begin`
        would abort it. Raises TransactionAborted if a record failed: call `abort`. Raises ProducerFenced.
        """
        check_not_in_callback("hand_over")
        return completed(self._engine.transactions.hand_over())

    def abort(self) -> None:
        """Take back everything since `begin`: what was sent, and the offsets; the rest is not sent.

        Deliveries of records that are not acknowledged yet get TransactionAborted. Raises ProducerFenced, and
        what connections raise if the brokers do not answer within max.block.ms: call it again.
        """
        check_not_in_callback("abort")
        completed(self._engine.transactions.abort())

    def send_offsets(self, offsets: Committable, group: ReadingMember | GroupMetadata) -> None:
        """Store positions of a group as a part of the transaction: they count when it is committed.

        `offsets` is a message or a chunk, which counts as done, or a mapping from partitions to next offsets.
        `group` is the GroupConsumer that has read them: if it has lost the partitions meanwhile, the
        transaction cannot be committed. Raises TransactionAborted, ProducerFenced.
        """
        check_not_in_callback("send_offsets")
        positions = commit_positions(offsets, dict)
        metadata = group if isinstance(group, GroupMetadata) else group.group_metadata
        if positions:
            completed(self._engine.transactions.send_offsets(positions, metadata))

    # ---- the end

    def flush(self, timeout: float | None = None) -> None:
        """Send everything that was handed in, and wait until it is acknowledged or has failed.

        Raises TimeoutError after `timeout` seconds; sending continues. Raises the first failure that nobody
        has looked at by `result`, `exception`, `failures` or `on_delivery`. Raises RuntimeError inside
        `on_delivery`, where it would wait for itself.
        """
        check_not_in_callback("flush")
        self._engine.flush(timeout)

    def close(self, timeout: float | None = None) -> None:
        """Flush for at most `timeout` seconds, give up the rest, and end all threads. May be called twice.

        An open transaction is aborted. Raises as `flush`, but no TimeoutError: records that are given up fail
        with ProducerClosed.
        """
        check_not_in_callback("close")
        self._forgotten.detach()
        self._engine.close(timeout)
        _ENGINES.discard(self._engine)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        is_interrupted = isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit)
        with contextlib.suppress(OttlaError):  # the first error is raised; all are in the log
            self.close(INTERRUPTED_CLOSE_S if is_interrupted else None)


# ---- forks

_ENGINES: weakref.WeakSet[ProducerEngine] = weakref.WeakSet()


def _forked() -> None:
    """A child process has the producers of its parent, but not their threads."""
    for engine in list(_ENGINES):
        engine.stop_after_fork(
            ProducerClosed(
                "this producer was made before a fork, and its threads run in the parent: make one here"
            )
        )


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
