"""kafka-verifiable-consumer: reads as a member of a group and prints an event for everything that happens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.cli.kafka.answers import broker_message
from ottla.cli.kafka.flags import Options, WrongFlags
from ottla.cli.kafka.settings import file_properties, profile_properties
from ottla.cli.kafka.tool import run_tool, tool_of
from ottla.cli.kafka.usage.verifiable_consumer import USAGE
from ottla.cli.kafka.verifiable_events import Events
from ottla.consumer.coordinated import GroupConsumer, RebalanceListener
from ottla.fetching.chunk_queue import FetchedDataChunk
from ottla.model.errors import OttlaError
from ottla.model.topic_partition import TopicAndPartition

_POLICIES = ("earliest", "latest", "none")


def run(arguments: Sequence[str]) -> int:
    """Read until --max-messages is reached or the process is ended."""
    return run_tool(TOOL, arguments)


class _RebalanceEvents(RebalanceListener):
    """Prints an event for each rebalance."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._was_assigned = False
        self.is_leaving = False

    def on_revoked(self, partitions: Iterable[TopicAndPartition]) -> None:
        """Print the revoked partitions; with Kafka 0.9's events not when the member leaves."""
        if not (self._events.is_old and self.is_leaving):
            self._events.emit("partitions_revoked", partitions=_listed(partitions))

    def on_assigned(self, partitions: Iterable[TopicAndPartition]) -> None:
        """Print the assigned partitions."""
        if self._events.is_old and not self._was_assigned:
            self.on_revoked(())
        self._was_assigned = True
        self._events.emit("partitions_assigned", partitions=_listed(partitions))


def _listed(partitions: Iterable[TopicAndPartition]) -> list[dict[str, object]]:
    return [_partition_node(partition) for partition in sorted(partitions)]


def _partition_node(topic_partition: TopicAndPartition) -> dict[str, object]:
    return {"topic": topic_partition.topic, "partition": topic_partition.partition}


def _act(options: Options) -> int:
    properties = _properties(options)
    events = Events("VerifiableConsumer", is_old=not options.has("bootstrap-server"))
    if not events.is_old:
        events.emit("startup_complete")
    listener = _RebalanceEvents(events)
    topic, group = options.text("topic"), options.text("group-id")
    try:
        with GroupConsumer(topic, properties, group_id=group, listener=listener) as consumer:
            try:
                _read(consumer, options, events)
            except (KeyboardInterrupt, SystemExit):
                if not events.is_old:
                    events.emit("shutdown_requested")
                raise
            finally:
                listener.is_leaving = True
    finally:
        events.emit("shutdown_complete")
    if not events.is_old:
        # Kafka prints this whenever its process ends.
        events.emit("shutdown_requested")
    return 0


def _read(consumer: GroupConsumer, options: Options, events: Events) -> None:
    most = options.whole("max-messages")
    count = 0
    while most < 0 or count < most:
        chunk = consumer.poll()
        if chunk is None:
            continue
        rows = chunk.batch.num_rows if most < 0 else min(chunk.batch.num_rows, most - count)
        offsets = chunk.batch.column("offset")
        first, last = offsets[0].as_py(), offsets[rows - 1].as_py()
        node = _partition_node(chunk.topic_partition)
        if options.has("verbose"):
            _emit_records(chunk, rows, events)
        summary = {**node, "count": rows, "minOffset": first, "maxOffset": last}
        events.emit("records_consumed", count=chunk.batch.num_rows, partitions=[summary])
        count += rows
        if not options.has("enable-autocommit"):
            _commit(consumer, chunk.topic_partition, last + 1, events)


def _emit_records(chunk: FetchedDataChunk, rows: int, events: Events) -> None:
    node = _partition_node(chunk.topic_partition)
    columns = chunk.batch.select(["offset", "key", "value"]).slice(0, rows).to_pydict()
    for offset, key, value in zip(columns["offset"], columns["key"], columns["value"], strict=True):
        if events.is_old:
            events.emit("record_data", **node, value=_text(value), offset=offset, key=_text(key))
        else:
            events.emit("record_data", key=_text(key), value=_text(value), **node, offset=offset)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")


def _commit(consumer: GroupConsumer, topic_partition: TopicAndPartition, offset: int, events: Events) -> None:
    event = {"offsets": [{**_partition_node(topic_partition), "offset": offset}]}
    try:
        consumer.commit({topic_partition: offset})
    except OttlaError as error:
        events.emit("offsets_committed", **event, error=broker_message(error), success=False)
    else:
        events.emit("offsets_committed", **event, success=True)


def _properties(options: Options) -> dict[str, object]:
    for name in ("topic", "group-id"):
        if not options.has(name):
            raise WrongFlags(f"argument --{name} is required")
    servers = options.value("bootstrap-server") or options.value("broker-list")
    if servers is None:
        raise WrongFlags("one of the arguments --bootstrap-server is required")
    policy = options.text("reset-policy", "earliest")
    if policy not in _POLICIES:
        raise WrongFlags(f"argument --reset-policy: {policy} is none of earliest, latest, none")
    properties: dict[str, object] = {
        **profile_properties(),
        **file_properties(options.value("consumer.config")),
        **file_properties(options.value("command-config")),
        "bootstrap.servers": servers,
        "enable.auto.commit": options.has("enable-autocommit"),
        "auto.offset.reset": policy,
    }
    properties.pop("group.id", None)
    if options.has("group-instance-id"):
        properties["group.instance.id"] = options.text("group-instance-id")
    if options.text("group-protocol").lower() == "consumer":
        properties["group.protocol"] = "consumer"
        if options.has("group-remote-assignor"):
            properties["group.remote.assignor"] = options.text("group-remote-assignor")
        return properties
    properties["partition.assignment.strategy"] = options.text("assignment-strategy", "range")
    if options.has("session-timeout"):
        properties["session.timeout.ms"] = options.text("session-timeout")
    return properties


TOOL = tool_of(USAGE, _act)
