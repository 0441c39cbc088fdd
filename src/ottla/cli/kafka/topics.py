"""kafka-topics: creates, lists, describes, alters and deletes topics.

With --zookeeper everything is done in ZooKeeper, as in Kafka 0.9, and no broker is contacted.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.admin import Admin, NewPartitions, NewTopic, TopicDescription, topic_resource
from ottla.cli.kafka import zookeeper_topics
from ottla.cli.kafka.answers import broker_message
from ottla.cli.kafka.broker_links import DESCRIBE_TOPIC_PARTITIONS, has_api
from ottla.cli.kafka.flags import Options, WrongFlags
from ottla.cli.kafka.settings import admin_properties
from ottla.cli.kafka.tool import one_action, require, run_tool, show, tool_of
from ottla.cli.kafka.topic_text import (
    COLLISIONS,
    EXACTLY_ONE,
    NO_SUCH_TOPIC,
    PartitionText,
    TopicText,
    configs_to_add,
    replica_assignment,
)
from ottla.cli.kafka.usage.topics import ACTIONS, USAGE
from ottla.consumer.classic.topic_count import Whitelist
from ottla.model.error_codes import Code
from ottla.model.errors import AdminErrors, KafkaError, OttlaError

FAILED = "Error while executing topic command : "
MIN_ISR = "min.insync.replicas"
_FILTERS = (
    "under-replicated-partitions",
    "unavailable-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
)


def run(arguments: Sequence[str]) -> int:
    """Run the action."""
    return run_tool(TOOL, arguments)


def _act(options: Options) -> int:
    action = one_action(options, ACTIONS, EXACTLY_ONE)
    if options.has("zookeeper"):
        return zookeeper_topics.act(action, options)
    if not options.has("bootstrap-server"):
        raise WrongFlags("--bootstrap-server must be specified")
    if action in ("create", "delete", "alter"):
        require(options, "topic")
    if action == "alter" and options.any_of("config", "delete-config"):
        raise WrongFlags(
            'Option combination "[[bootstrap-server], [config]]" can\'t be used with option "[alter]" '
            "(To alter topic configurations, the kafka-configs tool can be used.)"
        )
    try:
        with Admin(admin_properties(options)) as admin:
            _ACTS[action](admin, options)
    except OttlaError as error:
        failed = next(iter(error.errors.values())) if isinstance(error, AdminErrors) else error
        show(f"{FAILED}{broker_message(failed)}")
        return 1
    return 0


def _chosen(admin: Admin, options: Options, *, is_needed: bool) -> list[str]:
    """The chosen topics, in order. Raises if none exists and one has to."""
    pattern = options.value("topic")
    hides = options.has("exclude-internal")
    names = admin.list_topics(include_internal=not hides)
    if pattern is None:
        return list(names)
    wanted = Whitelist(pattern)
    chosen = [name for name in names if wanted.is_topic_allowed(name, exclude_internal_topics=hides)]
    if not chosen and is_needed and not options.has("if-exists"):
        raise OttlaError(NO_SUCH_TOPIC.format(pattern))
    return chosen


def _create(admin: Admin, options: Options) -> None:
    name = options.text("topic")
    if "." in name or "_" in name:
        show(COLLISIONS)
    assignment = options.value("replica-assignment")
    topic = NewTopic(
        name,
        partitions=options.whole("partitions") if options.has("partitions") else None,
        replication_factor=options.whole("replication-factor") if options.has("replication-factor") else None,
        assignment=replica_assignment(assignment) if assignment else None,
        configs=configs_to_add(options.values("config")),
    )
    try:
        admin.create_topics(topic)
    except KafkaError as error:
        if error.code == Code.TOPIC_ALREADY_EXISTS and options.has("if-not-exists"):
            return
        raise
    show(f"Created topic {name}.")


def _list(admin: Admin, options: Options) -> None:
    show("\n".join(_chosen(admin, options, is_needed=False)))


def _alter(admin: Admin, options: Options) -> None:
    require(options, "partitions")
    total, assignment = options.whole("partitions"), options.value("replica-assignment")
    names = _chosen(admin, options, is_needed=True)
    described = admin.describe_topics(names) if assignment else {}
    grown = []
    for name in names:
        new_replicas = None
        if assignment:
            every = replica_assignment(assignment)
            new_replicas = [every[number] for number in sorted(every)][len(described[name].partitions) :]
        grown.append(NewPartitions(name, total, new_replicas))
    admin.create_partitions(grown)


def _delete(admin: Admin, options: Options) -> None:
    admin.delete_topics(_chosen(admin, options, is_needed=True))


def _describe(admin: Admin, options: Options) -> None:
    topics = _described(admin, options)
    configs = admin.describe_configs([topic_resource(name) for name in topics]) if topics else {}
    live = {broker.broker_id for broker in admin.describe_cluster().brokers}
    has_elr = bool(topics) and has_api(_client(options), DESCRIBE_TOPIC_PARTITIONS)
    filters = options.any_of(*_FILTERS)
    for name, topic in topics.items():
        entries = configs[topic_resource(name)]
        overrides = {entry.name: entry.value for entry in entries.values() if not entry.is_default}
        if not filters and (overrides or not options.has("topics-with-overrides")):
            show(TopicText(topic, entries, overrides).line())
        if options.has("topics-with-overrides"):
            continue
        least = int(entries[MIN_ISR].value or 1) if MIN_ISR in entries else 1
        for described_partition in topic.partitions:
            partition = PartitionText(name, described_partition, least, has_elr=has_elr)
            if not filters or any(partition.passes(which, live) for which in filters):
                show(partition.line())


def _described(admin: Admin, options: Options) -> dict[str, TopicDescription]:
    wanted = options.value("topic-id")
    if wanted is None:
        names = _chosen(admin, options, is_needed=True)
        return admin.describe_topics(names) if names else {}
    every = admin.describe_topics(admin.list_topics())
    matching = {name: description for name, description in every.items() if description.topic_id == wanted}
    if not matching and not options.has("if-exists"):
        raise OttlaError(f"TopicId '{wanted}' does not exist as expected")
    return matching


def _client(options: Options) -> dict[str, object]:
    """Settings for a bare connection, without those that only an Admin knows."""
    return {
        name: value for name, value in admin_properties(options).items() if name != "default.api.timeout.ms"
    }


_ACTS = {"create": _create, "list": _list, "describe": _describe, "alter": _alter, "delete": _delete}


TOOL = tool_of(USAGE, _act)
