"""kafka-get-offsets, which was kafka.tools.GetOffsetShell: where logs begin and end.

`--broker-list` asks as Kafka 0.9 does, partition by partition, and prints several offsets if `--offsets` says
so. `--bootstrap-server` asks as Kafka 4 does, for all topics that a regular expression matches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from ottla.admin import Admin, AdminErrors, At, LogOffset, TopicAndPartition, Unsupported
from ottla.classic.topic_count import Whitelist
from ottla.cli.kafka.flags import Options
from ottla.cli.kafka.settings import admin_properties, check_addresses, profile_properties
from ottla.cli.kafka.tool import Refused, require, run_tool, show, tool_of
from ottla.cli.kafka.usage.get_offsets import ERRORS_BEGIN as ERROR
from ottla.cli.kafka.usage.get_offsets import USAGE
from ottla.model.address import parse_address
from ottla.model.errors import OttlaError
from ottla.simple import SimpleConsumer, TopicMetadata

CLIENT_ID = "GetOffsetShell"
_MOMENTS = {"latest": At.LATEST, "earliest": At.EARLIEST, "max-timestamp": At.MAX_TIMESTAMP}
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
        raise Refused(f"{ERROR}--topic-partitions cannot be used with --topic or --partitions")
    return _as_4(options)


# --- as Kafka 4


def _as_4(options: Options) -> int:
    moment = _moment(options.text("time", "latest"))
    is_wanted = _filter(options)
    with Admin(admin_properties(options, CLIENT_ID)) as admin:
        names = admin.list_topics(include_internal=not options.has("exclude-internal-topics"))
        places = [
            place
            for name, topic in admin.describe_topics(names).items()
            for place in (TopicAndPartition(name, one.partition) for one in topic.partitions)
            if is_wanted(place)
        ]
        if not places:
            raise Refused(f"{ERROR}Could not match any topic-partitions with the specified filters")
        for place, offset in sorted(_offsets(admin, places, moment).items(), key=lambda one: str(one[0])):
            if offset.offset is not None:
                show(f"{place.topic}:{place.partition}:{offset.offset}")
    return 0


def _offsets(
    admin: Admin, places: list[TopicAndPartition], moment: At | int
) -> dict[TopicAndPartition, LogOffset]:
    try:
        return admin.list_offsets(places, moment)
    except AdminErrors as failed:
        for place, error in failed.errors.items():
            show(f"Skip getting offsets for topic-partition {place} due to error: {error}", is_error=True)
        return dict(failed.results)


def _moment(text: str) -> At | int:
    if text in _TIERED:
        raise Unsupported(f"--time {text}: tiered storage is not known here")
    if text in _MOMENTS:
        return _MOMENTS[text]
    try:
        return int(text)
    except ValueError:
        raise Refused(
            f"{ERROR}Malformed time argument {text}. Please use -1 or latest / -2 or earliest / -3 or "
            "max-timestamp / -4 or earliest-local / -5 or latest-tiered / -6 or earliest-pending-upload, "
            "or a specified long format timestamp"
        ) from None


def _filter(options: Options) -> Callable[[TopicAndPartition], bool]:
    """Which partitions are wanted."""
    if options.has("topic-partitions"):
        rules = [_rule(text) for text in options.text("topic-partitions").split(",")]
        return lambda place: any(rule(place) for rule in rules)
    numbers = _numbers(options.text("partitions"))
    is_topic = _topics(options.text("topic", ".*"))
    return lambda place: is_topic(place.topic) and (not numbers or place.partition in numbers)


def _numbers(text: str) -> set[int]:
    try:
        return {int(one) for one in text.split(",")} if text else set()
    except ValueError:
        raise Refused(
            f"{ERROR}--partitions expects a comma separated list of numeric partition ids, "
            f"but received: {text}"
        ) from None


def _topics(pattern: str) -> Callable[[str], bool]:
    chosen = Whitelist(pattern)
    return lambda name: chosen.is_topic_allowed(name, exclude_internal_topics=False)


def _rule(text: str) -> Callable[[TopicAndPartition], bool]:
    """topic, topic:number, topic:from-to; the upper end is not included."""
    found = _RULE.fullmatch(text)
    if found is None:
        raise Refused(f"{ERROR}Invalid rule specification: {text}")
    is_topic = _topics(found[1] or ".*")
    first, end = int(found[3] or 0), int(found[4] or _NO_LIMIT)
    if found[2]:
        first, end = int(found[2]), int(found[2]) + 1
    return lambda place: is_topic(place.topic) and first <= place.partition < end


# --- as Kafka 0.9


def _as_0_9(options: Options) -> int:
    topic, time = options.text("topic"), int(options.text("time"))
    wait_ms, count = options.whole("max-wait-ms", 1_000), options.whole("offsets", 1)
    settings: dict[str, Any] = {**profile_properties()}
    with ExitStack() as opened:
        asked: dict[tuple[str, int], SimpleConsumer] = {}

        def consumer(host: str, port: int) -> SimpleConsumer:
            if (host, port) not in asked:
                made = SimpleConsumer(host, port, max(wait_ms, 10_000), client_id=CLIENT_ID, **settings)
                asked[host, port] = opened.enter_context(made)
            return asked[host, port]

        found = _told(options.text("broker-list"), topic, consumer)
        known = {one.partition_id: one for one in found.partitions_metadata}
        for partition in _asked_for(options.text("partitions")) or sorted(known):
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
            place = TopicAndPartition(topic, partition)
            offsets = consumer(leader.host, leader.port).get_offsets_before(place, time, count)
            show(f"{topic}:{partition}:{','.join(map(str, offsets))}")
    return 0


def _asked_for(text: str) -> list[int]:
    return [int(one) for one in text.split(",")] if text else []


def _told(brokers: str, topic: str, consumer: Callable[[str, int], SimpleConsumer]) -> TopicMetadata:
    """The topic, from the first broker that can be reached."""
    failure: OttlaError | None = None
    for text in brokers.split(","):
        address = parse_address(text)
        try:
            (found,) = consumer(address.host, address.port).topic_metadata(topic)
        except OttlaError as error:
            failure = error
            continue
        if found.error_code:
            raise Refused(
                f"Error: no valid topic metadata for topic: {topic},  probably the topic does not exist, run "
                "kafka-list-topic.sh to verify"
            )
        return found
    assert failure is not None
    raise failure


TOOL = tool_of(USAGE, _act)
