"""kafka-get-offsets, formerly kafka.tools.GetOffsetShell: prints offsets of logs.

`--broker-list` works as in Kafka 0.9: partition by partition, and several offsets with `--offsets`.
`--bootstrap-server` works as in Kafka 4: for all topics that match a regular expression.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

from ottla.admin import MAX_TIMESTAMP, Admin, LogOffset, TopicAndPartition
from ottla.cli.kafka.flags import Options
from ottla.cli.kafka.settings import admin_properties, check_addresses, profile_properties
from ottla.cli.kafka.tool import ToolRefused, require, run_tool, show, tool_of
from ottla.cli.kafka.usage.get_offsets import ERRORS_BEGIN as ERROR
from ottla.cli.kafka.usage.get_offsets import USAGE
from ottla.consumer.classic.topic_count import Whitelist
from ottla.consumer.simple import SimpleConsumer, TopicMetadata
from ottla.model.address import parse_address
from ottla.model.errors import AdminErrors, ConfigError, OttlaError, Unsupported
from ottla.model.offset_spec import OffsetSpec

CLIENT_ID = "GetOffsetShell"
_WORDS = {"-1": "latest", "-2": "earliest", "-3": MAX_TIMESTAMP}
_LATEST_MS = 253_402_300_799_999  # the end of the year 9999, the last that datetime knows
_TIERED = {"earliest-local", "latest-tiered", "earliest-pending-upload", "-4", "-5", "-6"}
_RULE = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")
_NO_LIMIT = 2**31 - 1


def run(arguments: Sequence[str]) -> int:
    """Print offsets."""
    return run_tool(TOOL, arguments)


def _act(options: Options) -> int:
    if options.has("broker-list"):
        require(options, "topic", "time")
        check_addresses(options.text("broker-list"))
        return _as_0_9(options)
    require(options, "bootstrap-server")
    check_addresses(options.text("bootstrap-server"))
    if options.has("topic-partitions") and options.any_of("topic", "partitions"):
        raise ToolRefused(f"{ERROR}--topic-partitions cannot be used with --topic or --partitions")
    return _as_4(options)


# --- as Kafka 4


def _as_4(options: Options) -> int:
    moment = _moment(options.text("time", "latest"))
    is_wanted = _filter(options)
    with Admin(admin_properties(options, CLIENT_ID)) as admin:
        names = admin.list_topics(include_internal=not options.has("exclude-internal-topics"))
        partitions = [
            topic_partition
            for name, topic in admin.describe_topics(names).items()
            for topic_partition in (
                TopicAndPartition(name, partition.partition) for partition in topic.partitions
            )
            if is_wanted(topic_partition)
        ]
        if not partitions:
            raise ToolRefused(f"{ERROR}Could not match any topic-partitions with the specified filters")
        for topic_partition, offset in sorted(
            _offsets(admin, partitions, moment).items(), key=lambda item: str(item[0])
        ):
            if offset.offset is not None:
                show(f"{topic_partition.topic}:{topic_partition.partition}:{offset.offset}")
    return 0


def _offsets(
    admin: Admin, partitions: list[TopicAndPartition], moment: OffsetSpec
) -> dict[TopicAndPartition, LogOffset]:
    try:
        return admin.list_offsets(partitions, moment)
    except AdminErrors as failed:
        for topic_partition, error in failed.errors.items():
            show(
                f"Skip getting offsets for topic-partition {topic_partition} due to error: {error}",
                is_error=True,
            )
        return dict(failed.results)


def _moment(text: str) -> OffsetSpec:
    if text in _TIERED:
        raise Unsupported(f"--time {text}: tiered storage is not known here")
    if text in _WORDS or text in _WORDS.values():
        return _WORDS.get(text, text)
    try:
        time_ms = int(text)
    except ValueError:
        raise ToolRefused(
            f"{ERROR}Malformed time argument {text}. Please use -1 or latest / -2 or earliest / -3 or "
            "max-timestamp / -4 or earliest-local / -5 or latest-tiered / -6 or earliest-pending-upload, "
            "or a specified long format timestamp"
        ) from None
    if time_ms < 0:
        raise ConfigError(f"--time {text}: give milliseconds since 1970, or one of the special times")
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=min(time_ms, _LATEST_MS))


def _filter(options: Options) -> Callable[[TopicAndPartition], bool]:
    """A function that says which partitions to print."""
    if options.has("topic-partitions"):
        rules = [_rule(text) for text in options.text("topic-partitions").split(",")]
        return lambda topic_partition: any(rule(topic_partition) for rule in rules)
    numbers = _numbers(options.text("partitions"))
    is_topic = _topics(options.text("topic", ".*"))
    return lambda topic_partition: (
        is_topic(topic_partition.topic) and (not numbers or topic_partition.partition in numbers)
    )


def _numbers(text: str) -> set[int]:
    try:
        return {int(part) for part in text.split(",")} if text else set()
    except ValueError:
        raise ToolRefused(
            f"{ERROR}--partitions expects a comma separated list of numeric partition ids, "
            f"but received: {text}"
        ) from None


def _topics(pattern: str) -> Callable[[str], bool]:
    chosen = Whitelist(pattern)
    return lambda name: chosen.is_topic_allowed(name, exclude_internal_topics=False)


def _rule(text: str) -> Callable[[TopicAndPartition], bool]:
    """Parse topic, topic:number or topic:from-to, where the upper end is excluded."""
    match = _RULE.fullmatch(text)
    if match is None:
        raise ToolRefused(f"{ERROR}Invalid rule specification: {text}")
    is_topic = _topics(match[1] or ".*")
    first, end = int(match[3] or 0), int(match[4] or _NO_LIMIT)
    if match[2]:
        first, end = int(match[2]), int(match[2]) + 1
    return lambda topic_partition: (
        is_topic(topic_partition.topic) and first <= topic_partition.partition < end
    )


# --- as Kafka 0.9


def _as_0_9(options: Options) -> int:
    topic, time = options.text("topic"), int(options.text("time"))
    wait_ms, count = options.whole("max-wait-ms", 1_000), options.whole("offsets", 1)
    settings: dict[str, Any] = {**profile_properties()}
    with ExitStack() as opened:
        consumers: dict[tuple[str, int], SimpleConsumer] = {}

        def consumer(host: str, port: int) -> SimpleConsumer:
            if (host, port) not in consumers:
                made = SimpleConsumer(host, port, max(wait_ms, 10_000), client_id=CLIENT_ID, **settings)
                consumers[host, port] = opened.enter_context(made)
            return consumers[host, port]

        metadata = _topic_metadata(options.text("broker-list"), topic, consumer)
        known = {partition.partition_id: partition for partition in metadata.partitions_metadata}
        for partition in _partition_numbers(options.text("partitions")) or sorted(known):
            if partition not in known:
                show(f"Error: partition {partition} does not exist", is_error=True)
                continue
            leader = known[partition].leader
            if leader is None:
                show(
                    f"Error: partition {partition} does not have a leader. Skip getting offsets",
                    is_error=True,
                )
                continue
            topic_partition = TopicAndPartition(topic, partition)
            offsets = consumer(leader.host, leader.port).get_offsets_before(topic_partition, time, count)
            show(f"{topic}:{partition}:{','.join(map(str, offsets))}")
    return 0


def _partition_numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")] if text else []


def _topic_metadata(
    brokers: str, topic: str, consumer: Callable[[str, int], SimpleConsumer]
) -> TopicMetadata:
    """The topic's metadata, from the first broker that can be reached."""
    failure: OttlaError | None = None
    for text in brokers.split(","):
        address = parse_address(text)
        try:
            (metadata,) = consumer(address.host, address.port).topic_metadata(topic)
        except OttlaError as error:
            failure = error
            continue
        if metadata.error_code:
            raise ToolRefused(
                f"Error: no valid topic metadata for topic: {topic},  probably the topic does not exist, run "
                "kafka-list-topic.sh to verify"
            )
        return metadata
    assert failure is not None
    raise failure


TOOL = tool_of(USAGE, _act)
