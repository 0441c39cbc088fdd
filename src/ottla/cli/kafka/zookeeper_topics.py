"""kafka-topics --zookeeper: as in Kafka 0.9, znode by znode."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ottla.admin import NewPartitions, NewTopic
from ottla.admin.zookeeper_topics import TOPICS, ZooKeeperTopics
from ottla.cli.kafka.flags import Options
from ottla.cli.kafka.java_order import java_order
from ottla.cli.kafka.tool import require, show
from ottla.cli.kafka.topic_text import COLLISIONS, configs_to_add, replica_assignment
from ottla.cli.kafka.zookeeper_session import zookeeper_session
from ottla.client.zookeeper_metadata import ZooKeeperMetadata
from ottla.consumer.classic.topic_count import Whitelist
from ottla.model.cluster_view import NO_LEADER, PartitionView
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, OttlaError
from ottla.model.topic_partition import INTERNAL_TOPICS
from ottla.zookeeper.session import ZooKeeperSession

FAILED = "Error while executing topic command : "
_DEPRECATED = (
    "WARNING: Altering topic configuration from this script has been deprecated and may be removed in future "
    "releases.\n         Going forward, please use kafka-configs.sh for this functionality"
)
_KEYS_MOVE = (
    "WARNING: If partitions are increased for a topic that has a key, the partition logic or ordering of the "
    "messages will be affected"
)


def act(action: str, options: Options) -> int:
    """Run the action and return the exit code."""
    if action in ("create", "delete", "alter"):
        require(options, "topic")
    if action == "create" and not options.has("replica-assignment"):
        require(options, "partitions", "replication-factor")
    with zookeeper_session(options.text("zookeeper")) as session:
        try:
            _ACTS[action](_Work(session, options))
        except OttlaError as error:
            show(f"{FAILED}{error}")
            return 1
    return 0


class _Work:
    """A command and its session."""

    def __init__(self, session: ZooKeeperSession, options: Options) -> None:
        self.topics = ZooKeeperTopics(session)
        self.metadata = ZooKeeperMetadata(session)
        self.options = options

    def chosen(self) -> list[str]:
        """The topics that match, in order."""
        names = sorted(self.topics.names())
        pattern = self.options.value("topic")
        if pattern is None:
            return names
        wanted = Whitelist(pattern)
        return [name for name in names if wanted.is_topic_allowed(name, exclude_internal_topics=False)]

    def chosen_or_error(self) -> list[str]:
        """The topics that match. Raises if there are none."""
        chosen = self.chosen()
        if not chosen:
            at = self.options.text("zookeeper")
            raise OttlaError(f"Topic {self.options.text('topic')} does not exist on ZK path {at}")
        return chosen


def _create(work: _Work) -> None:
    options, name = work.options, work.options.text("topic")
    if "." in name or "_" in name:
        show(COLLISIONS)
    assignment = options.value("replica-assignment")
    replicas = options.whole("replication-factor")
    topic = NewTopic(
        name,
        partitions=None if assignment else options.whole("partitions"),
        replication_factor=None if assignment else replicas,
        assignment=replica_assignment(assignment) if assignment else None,
        configs=configs_to_add(options.values("config")),
    )
    brokers = len(work.topics.broker_ids())
    try:
        work.topics.create(topic, validate_only=False)
    except KafkaError as error:
        raise _in_words(
            error,
            {
                Code.TOPIC_ALREADY_EXISTS: f'Topic "{name}" already exists.',
                Code.INVALID_REPLICATION_FACTOR: (
                    f"replication factor: {replicas} larger than available brokers: {brokers}"
                ),
            },
        ) from error
    show(f'Created topic "{name}".')


def _list(work: _Work) -> None:
    marked = work.topics.marked_for_deletion()
    for name in work.chosen():
        show(f"{name} - marked for deletion" if name in marked else name)


def _alter(work: _Work) -> None:
    options = work.options
    for name in work.chosen_or_error():
        if options.any_of("config", "delete-config"):
            show(_DEPRECATED)
            removed = dict.fromkeys((option.strip() for option in options.values("delete-config")), None)
            changes: dict[str, str | None] = {**configs_to_add(options.values("config")), **removed}
            work.topics.alter_configs(TOPICS, name, changes, validate_only=False)
            show(f'Updated config for topic "{name}".')
        if options.has("partitions"):
            _grow(work, name)


def _grow(work: _Work, name: str) -> None:
    if name in INTERNAL_TOPICS:
        raise OttlaError("The number of partitions for the offsets topic cannot be changed.")
    show(_KEYS_MOVE)
    text = work.options.value("replica-assignment")
    every = replica_assignment(text) if text else None
    present = len(work.metadata.topic(name).partitions)
    assignment = None if every is None else [every[number] for number in sorted(every)][present:]
    try:
        wanted = NewPartitions(name, work.options.whole("partitions"), assignment)
        work.topics.add_partitions(wanted, validate_only=False)
    except KafkaError as error:
        only_more = "The number of partitions for a topic can only be increased"
        raise _in_words(error, {Code.INVALID_PARTITIONS: only_more}) from error
    show("Adding partitions succeeded!")


def _delete(work: _Work) -> None:
    marked = work.topics.marked_for_deletion()
    for name in work.chosen_or_error():
        if name in INTERNAL_TOPICS:
            raise OttlaError(
                f"Topic {name} is a kafka internal topic and is not allowed to be marked for deletion."
            )
        if name in marked:
            show(f"Topic {name} is already marked for deletion.")
            continue
        work.topics.delete(name)
        show(f"Topic {name} is marked for deletion.")
        show("Note: This will have no impact if delete.topic.enable is not set to true.")


def _describe(work: _Work) -> None:
    options = work.options
    is_short = options.has("topics-with-overrides")
    filters = options.any_of("under-replicated-partitions", "unavailable-partitions")
    live = set(work.topics.broker_ids())
    for name in work.chosen():
        partitions = work.metadata.topic(name).partitions
        configs = work.topics.configs(TOPICS, name)
        if not filters and (configs or not is_short):
            settings = ",".join(f"{key}={configs[key]}" for key in java_order(configs))
            replicas = len(partitions[0].replicas) if partitions else 0
            show(
                f"Topic:{name}\tPartitionCount:{len(partitions)}\tReplicationFactor:{replicas}"
                f"\tConfigs:{settings}"
            )
        for partition in () if is_short else partitions:
            if not filters or any(_FILTERS[which](partition, live) for which in filters):
                show(_partition_line(name, partition))


def _partition_line(name: str, partition_view: PartitionView) -> str:
    leader = "none" if partition_view.leader == NO_LEADER else partition_view.leader
    replicas, isr = (",".join(map(str, numbers)) for numbers in (partition_view.replicas, partition_view.isr))
    return (
        f"\tTopic: {name}\tPartition: {partition_view.index}\tLeader: {leader}"
        f"\tReplicas: {replicas}\tIsr: {isr}"
    )


def _in_words(error: KafkaError, words: Mapping[int, str]) -> OttlaError:
    return OttlaError(words[error.code]) if error.code in words else error


_FILTERS: dict[str, Callable[[PartitionView, set[int]], bool]] = {
    "under-replicated-partitions": lambda partition, _: len(partition.isr) < len(partition.replicas),
    "unavailable-partitions": lambda partition, live: partition.leader not in live,
}
_ACTS = {"create": _create, "list": _list, "describe": _describe, "alter": _alter, "delete": _delete}
