"""kafka-verifiable-consumer: a member of a group, and an event for all that happens to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.cli.kafka.answers import broker_message
from ottla.cli.kafka.flags import Options, WrongFlags
from ottla.cli.kafka.settings import file_properties, profile_properties
from ottla.cli.kafka.tool import Refused, ended_by_signals, run_tool, tool_of
from ottla.cli.kafka.usage.verifiable_consumer import USAGE
from ottla.cli.kafka.verifiable_events import Events
from ottla.fetching import FetchedDataChunk
from ottla.grouped import GroupConsumer, RebalanceListener
from ottla.model.errors import OttlaError
from ottla.model.topic_partition import TopicAndPartition

_POLICIES = ("earliest", "latest", "none")


def run(arguments: Sequence[str]) -> int:
    """Read until there are enough records, or the process is ended."""
    return run_tool(TOOL, arguments)


class _Told(RebalanceListener):
    """Tells what the group does."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._was_assigned = False
        self.is_leaving = False

    def on_revoked(self, partitions: Iterable[TopicAndPartition]) -> None:
        """Partitions go. Kafka 0.9 does not tell of it when the member leaves."""
        if not (self._events.is_old and self.is_leaving):
            self._events.tell("partitions_revoked", partitions=_listed(partitions))

    def on_assigned(self, partitions: Iterable[TopicAndPartition]) -> None:
        """Partitions come. In Kafka 0.9 none go before the first come."""
        if self._events.is_old and not self._was_assigned:
            self.on_revoked(())
        self._was_assigned = True
        self._events.tell("partitions_assigned", partitions=_listed(partitions))


def _listed(partitions: Iterable[TopicAndPartition]) -> list[dict[str, object]]:
    return [_place(one) for one in sorted(partitions)]


def _place(one: TopicAndPartition) -> dict[str, object]:
    return {"topic": one.topic, "partition": one.partition}


def _act(options: Options) -> int:
    properties = _properties(options)
    events = Events("VerifiableConsumer", is_old=not options.has("bootstrap-server"))
    if not events.is_old:
        events.tell("startup_complete")
    told = _Told(events)
    topic, group = options.text("topic"), options.text("group-id")
    try:
        with ended_by_signals(), GroupConsumer(topic, group, properties, listener=told) as consumer:
            try:
                _read(consumer, options, events)
            except (KeyboardInterrupt, SystemExit):
                if not events.is_old:
                    events.tell("shutdown_requested")
                raise
            finally:
                told.is_leaving = True
    finally:
        events.tell("shutdown_complete")
    if not events.is_old:
        # Kafka tells it whenever its process ends, and that is then.
        events.tell("shutdown_requested")
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
        place = _place(chunk.topic_partition)
        if options.has("verbose"):
            _tell_records(chunk, rows, events)
        summary = {**place, "count": rows, "minOffset": first, "maxOffset": last}
        events.tell("records_consumed", count=chunk.batch.num_rows, partitions=[summary])
        count += rows
        if not options.has("enable-autocommit"):
            _commit(consumer, chunk.topic_partition, last + 1, events)


def _tell_records(chunk: FetchedDataChunk, rows: int, events: Events) -> None:
    place = _place(chunk.topic_partition)
    columns = chunk.batch.select(["offset", "key", "value"]).slice(0, rows).to_pydict()
    for offset, key, value in zip(columns["offset"], columns["key"], columns["value"], strict=True):
        if events.is_old:
            events.tell("record_data", **place, value=_text(value), offset=offset, key=_text(key))
        else:
            events.tell("record_data", key=_text(key), value=_text(value), **place, offset=offset)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")


def _commit(consumer: GroupConsumer, place: TopicAndPartition, offset: int, events: Events) -> None:
    told = {"offsets": [{**_place(place), "offset": offset}]}
    try:
        consumer.commit({place: offset})
    except OttlaError as error:
        events.tell("offsets_committed", **told, error=broker_message(error), success=False)
    else:
        events.tell("offsets_committed", **told, success=True)


def _properties(options: Options) -> dict[str, object]:
    for name in ("topic", "group-id"):
        if not options.has(name):
            raise WrongFlags(f"argument --{name} is required")
    servers = options.value("bootstrap-server") or options.value("broker-list")
    if servers is None:
        raise WrongFlags("one of the arguments --bootstrap-server is required")
    if options.text("group-protocol", "classic").lower() != "classic":
        raise Refused(
            f"--group-protocol {options.text('group-protocol')} is not there: members join by the classic "
            "protocol, beside which newer ones may be in the same group"
        )
    policy = options.text("reset-policy", "earliest")
    if policy not in _POLICIES:
        raise WrongFlags(f"argument --reset-policy: {policy} is none of earliest, latest, none")
    found: dict[str, object] = {
        **profile_properties(),
        **file_properties(options.value("consumer.config")),
        **file_properties(options.value("command-config")),
        "bootstrap.servers": servers,
        "enable.auto.commit": options.has("enable-autocommit"),
        "auto.offset.reset": policy,
        "partition.assignment.strategy": options.text("assignment-strategy", "range"),
    }
    found.pop("group.id", None)
    if options.has("group-instance-id"):
        found["group.instance.id"] = options.text("group-instance-id")
    if options.has("session-timeout"):
        found["session.timeout.ms"] = options.text("session-timeout")
    return found


TOOL = tool_of(USAGE, _act)
