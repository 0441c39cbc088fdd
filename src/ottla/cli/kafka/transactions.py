"""kafka-transactions: lists, describes and ends transactions; finds those that hang, and aborts them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ottla.admin import Admin, PartitionProducer, TopicAndPartition
from ottla.cli.kafka.answers import broker_message
from ottla.cli.kafka.flags import Options, WrongFlags
from ottla.cli.kafka.settings import admin_properties
from ottla.cli.kafka.tool import ToolRefused, require, run_tool, show, tool_of
from ottla.cli.kafka.usage.transactions import USAGE
from ottla.model.error_codes import Code
from ottla.model.errors import AdminErrors, KafkaError, OttlaError

NONE = "None"
MINUTE_MS = 60_000
HANGING_MINUTES = 15

LIST = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")
DESCRIBE = (
    "CoordinatorId",
    "TransactionalId",
    "ProducerId",
    "ProducerEpoch",
    "TransactionState",
    "TransactionTimeoutMs",
    "CurrentTransactionStartTimeMs",
    "TransactionDurationMs",
    "TopicPartitions",
)
PRODUCERS = (
    "ProducerId",
    "ProducerEpoch",
    "LatestCoordinatorEpoch",
    "LastSequence",
    "LastTimestamp",
    "CurrentTransactionStartOffset",
)
HANGING = (
    "Topic",
    "Partition",
    "ProducerId",
    "ProducerEpoch",
    "CoordinatorEpoch",
    "StartOffset",
    "LastTimestamp",
    "Duration(min)",
)


def run(arguments: Sequence[str]) -> int:
    """Run the command."""
    return run_tool(TOOL, arguments)


def _act(options: Options) -> int:
    require(options, "bootstrap-server")
    command = COMMANDS.get(options.rest[0] if options.rest else "")
    if command is None:
        raise WrongFlags(f"a command is wanted: {', '.join(COMMANDS)}")
    with Admin(admin_properties(options)) as admin:
        command(admin, options)
    return 0


def _list(admin: Admin, options: Options) -> None:
    duration_ms = options.whole("duration-filter")
    try:
        transactions = admin.list_transactions(
            longer_than=duration_ms / 1000 if duration_ms >= 0 else None,
            pattern=options.text("transactional-id-pattern"),
        )
    except OttlaError as error:
        raise _failed("Failed to list transactions", error) from error
    _table(
        LIST,
        [
            (
                transaction.transactional_id,
                transaction.coordinator_id,
                transaction.producer_id,
                transaction.state,
            )
            for transaction in transactions
        ],
    )


def _describe(admin: Admin, options: Options) -> None:
    require(options, "transactional-id")
    name = options.text("transactional-id")
    try:
        transaction = admin.describe_transactions(name)
    except OttlaError as error:
        request = f"DescribeTransactions request for transactionalId `{name}`"
        unknown = f"{request} failed because the ID could not be found"
        message = f"Failed to describe transaction state of transactional-id `{name}`"
        raise _failed(message, error, unknown) from error
    started = transaction.started_ms
    row = (
        transaction.coordinator_id,
        name,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.state,
        transaction.timeout_ms,
        NONE if started is None else started,
        NONE if started is None else _now_ms() - started,
        ",".join(map(str, transaction.partitions)),
    )
    _table(DESCRIBE, [row])


def _describe_producers(admin: Admin, options: Options) -> None:
    topic_partition, broker_id = _topic_partition(options), _broker(options)
    try:
        producers = admin.describe_producers(topic_partition, broker_id=broker_id)
    except OttlaError as error:
        where = "leader" if broker_id is None else f"broker {broker_id}"
        raise _failed(
            f"Failed to describe producers for partition {topic_partition} on {where}", error
        ) from error
    rows = [
        (
            producer.producer_id,
            producer.producer_epoch,
            producer.coordinator_epoch,
            producer.last_sequence,
            producer.last_timestamp_ms,
            NONE if producer.start_offset is None else producer.start_offset,
        )
        for producer in producers
    ]
    _table(PRODUCERS, rows)


def _abort(admin: Admin, options: Options) -> None:
    topic_partition = _topic_partition(options)
    if not options.has("start-offset") and not options.has("producer-id"):
        raise ToolRefused(
            "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or "
            "above) or with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
        )
    try:
        admin.abort_transaction(topic_partition, _producer(admin, topic_partition, options))
    except OttlaError as error:
        if isinstance(error, ToolRefused):
            raise
        raise _failed(f"Failed to abort transaction on partition {topic_partition}", error) from error


def _producer(admin: Admin, topic_partition: TopicAndPartition, options: Options) -> PartitionProducer:
    """Return the producer of the transaction that the options name."""
    if not options.has("start-offset"):
        for name in ("producer-epoch", "coordinator-epoch"):
            if not options.has(name):
                raise ToolRefused(f"Missing required argument --{name}")
        return PartitionProducer(
            producer_id=options.whole("producer-id"),
            producer_epoch=options.whole("producer-epoch"),
            coordinator_epoch=options.whole("coordinator-epoch"),
            last_sequence=-1,
            last_timestamp_ms=-1,
        )
    offset = options.whole("start-offset")
    try:
        producers = admin.describe_producers(topic_partition)
    except OttlaError as error:
        raise _failed(f"Failed to validate producer state for partition {topic_partition}", error) from error
    for producer in producers:
        if producer.start_offset == offset:
            return producer
    raise ToolRefused(
        f"Could not find any open transactions starting at offset {offset} on partition {topic_partition}"
    )


def _force_terminate(admin: Admin, options: Options) -> None:
    require(options, "transactionalId")
    name = options.text("transactionalId")
    try:
        admin.terminate_transaction(name)
    except OttlaError as error:
        raise _failed(f"Failed to force terminate transactionalId `{name}`", error) from error


def _find_hanging(admin: Admin, options: Options) -> None:
    broker_id = _broker(options)
    if not options.has("topic") and broker_id is None:
        raise ToolRefused(
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the "
            "search"
        )
    if options.has("partition") and not options.has("topic"):
        raise ToolRefused("The --partition argument requires --topic to be provided")
    try:
        hanging = admin.find_hanging_transactions(
            _searched(admin, options, broker_id),
            longer_than=options.whole("max-transaction-timeout", HANGING_MINUTES) * 60.0,
            broker_id=broker_id,
        )
    except OttlaError as error:
        raise _failed("Failed to find hanging transactions", error) from error
    now_ms = _now_ms()
    rows = [
        (
            *transaction.topic_partition,
            transaction.producer.producer_id,
            transaction.producer.producer_epoch,
            transaction.producer.coordinator_epoch,
            transaction.producer.start_offset,
            transaction.producer.last_timestamp_ms,
            (now_ms - transaction.producer.last_timestamp_ms) // MINUTE_MS,
        )
        for transaction in hanging
    ]
    _table(HANGING, rows)


def _searched(admin: Admin, options: Options, broker_id: int | None) -> list[TopicAndPartition]:
    """Return the partitions to look at: one, those of a topic, or all; with a broker id, those with a replica
    on it.
    """
    if options.has("partition"):
        return [_topic_partition(options)]
    names = [options.text("topic")] if options.has("topic") else admin.list_topics()
    return [
        TopicAndPartition(name, partition.partition)
        for name, topic in admin.describe_topics(names).items()
        for partition in topic.partitions
        if broker_id is None or broker_id in partition.replicas
    ]


def _topic_partition(options: Options) -> TopicAndPartition:
    require(options, "topic", "partition")
    return TopicAndPartition(options.text("topic"), options.whole("partition"))


def _broker(options: Options) -> int | None:
    return options.whole("broker-id") if options.has("broker-id") else None


def _now_ms() -> int:
    return int(time.time() * 1000)


def _failed(message: str, error: OttlaError, unknown: str = "") -> ToolRefused:
    """Return Kafka's text; `unknown` is the text of Kafka's client for a transactional id that does not
    exist.
    """
    if isinstance(error, AdminErrors):
        error = next(iter(error.errors.values()))
    is_unknown = isinstance(error, KafkaError) and error.code == Code.TRANSACTIONAL_ID_NOT_FOUND
    why = unknown if unknown and is_unknown else broker_message(error)
    return ToolRefused(f"{message}: {why}. Enable debug logging for additional detail.")


def _table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns as wide as their widest cell, each followed by a tab."""
    cells = [tuple(headers), *(tuple(map(str, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        show("".join(f"{cell:{width}}\t" for cell, width in zip(row, widths, strict=True)))


COMMANDS: dict[str, Callable[[Admin, Options], None]] = {
    "list": _list,
    "describe": _describe,
    "describe-producers": _describe_producers,
    "abort": _abort,
    "find-hanging": _find_hanging,
    "forceTerminateTransaction": _force_terminate,
}
TOOL = tool_of(USAGE, _act)
