"""Making, changing and deleting topics. What is refused is refused with the code that Kafka has for it.

Each function changes the catalog first: it decides, and a start after a crash carries out what it says.
"""

from __future__ import annotations

import logging
import os
import re
from asyncio import Future
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ottla.broker.catalog import Replicas, Topic
from ottla.broker.cluster import INTERNAL_TOPICS, OFFSETS_TOPIC, Cluster
from ottla.broker.topic_settings import offsets_topic_overrides, topic_config
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, StorageError

log = logging.getLogger(__name__)

NAME_LENGTH_MAX = 249  # a directory name has 255 bytes, and the partition number goes behind
PARTITIONS_MAX = 10_000
"""Of one topic: each is a directory and an open file; Kafka's own advice is far below."""

DEFAULT = -1
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def check_name(name: str) -> None:
    """Raises KafkaError 17 for what cannot be the name of a topic."""
    if not _NAME.fullmatch(name) or name in {".", ".."}:
        what = f"topic {name!r}: ASCII letters, digits, '.', '_' and '-' make a name"
    elif len(name) > NAME_LENGTH_MAX:
        what = f"topic {name[:20]!r}…: {len(name)} characters are more than {NAME_LENGTH_MAX}"
    else:
        return
    raise KafkaError(Code.INVALID_TOPIC_EXCEPTION, what)


def check_new_name(cluster: Cluster, name: str) -> None:
    """Raises KafkaError for a name that cannot be given to a new topic."""
    check_name(name)
    if name in cluster.catalog.topics:
        raise KafkaError(Code.TOPIC_ALREADY_EXISTS, f"topic {name!r}")
    folded = name.replace(".", "_")
    for other in cluster.catalog.topics:
        if other.replace(".", "_") == folded:
            what = f"topic {name!r} collides with {other!r}: metrics do not tell '.' and '_' apart"
            raise KafkaError(Code.INVALID_TOPIC_EXCEPTION, what)


def spread(
    cluster: Cluster, partition_count: int, replication_factor: int, first: int = 0
) -> tuple[Replicas, ...]:
    """Replicas for new partitions, leaders in turn over the brokers that are up. Counts may be DEFAULT."""
    brokers = sorted(cluster.nodes)
    count = cluster.config.num_partitions if partition_count == DEFAULT else partition_count
    factor = 1 if replication_factor == DEFAULT else replication_factor
    if not 1 <= count <= PARTITIONS_MAX:  # before so many are made up
        raise KafkaError(Code.INVALID_PARTITIONS, f"{count} partitions; 1 to {PARTITIONS_MAX} are allowed")
    if not 1 <= factor <= len(brokers):
        what = f"replication factor {factor} with {len(brokers)} brokers"
        raise KafkaError(Code.INVALID_REPLICATION_FACTOR, what)
    return tuple(
        tuple(brokers[(index + step) % len(brokers)] for step in range(factor))
        for index in range(first, first + count)
    )


def assigned(
    cluster: Cluster, assignments: Sequence[Sequence[int]], replication_factor: int = DEFAULT
) -> tuple[Replicas, ...]:
    """Replicas for new partitions as somebody wants them; DEFAULT takes the factor of the first partition.

    Raises KafkaError 39 for brokers that are not there, are named twice, or are not as many everywhere.
    """
    factor = len(assignments[0]) if assignments and replication_factor == DEFAULT else replication_factor
    for brokers in assignments:
        unknown = [broker_id for broker_id in brokers if broker_id not in cluster.nodes]
        if not brokers:
            what = "a partition without a broker"
        elif unknown:
            what = f"{list(brokers)}: there is no broker {unknown[0]}, but {sorted(cluster.nodes)}"
        elif len(set(brokers)) < len(brokers):
            what = f"{list(brokers)}: a broker is named twice"
        elif len(brokers) != factor:
            what = f"{list(brokers)}: {len(brokers)} replicas, where other partitions have {factor}"
        else:
            continue
        raise KafkaError(Code.INVALID_REPLICA_ASSIGNMENT, what)
    return tuple(tuple(brokers) for brokers in assignments)


def draft(
    cluster: Cluster,
    name: str,
    replicas: Sequence[Replicas],
    overrides: Mapping[str, str],
    topic_id: bytes = b"",
) -> Topic:
    """The topic that `create` would make. Raises KafkaError if it must not be."""
    check_new_name(cluster, name)
    topic_config(cluster.config, overrides)
    _check_count(cluster, name, len(replicas))
    return Topic(name, topic_id or os.urandom(16), tuple(replicas), (0,) * len(replicas), dict(overrides))


def _check_count(cluster: Cluster, name: str, count: int) -> None:
    if not 1 <= count <= PARTITIONS_MAX:
        raise KafkaError(Code.INVALID_PARTITIONS, f"{count} partitions; 1 to {PARTITIONS_MAX} are allowed")
    wanted = cluster.config.groups.offsets_partition_count
    if name == OFFSETS_TOPIC and count != wanted:
        # Groups are found by a hash over this number: with another they would lose their offsets.
        what = f"{count} partitions of {name}; offsets.topic.num.partitions says {wanted}"
        raise KafkaError(Code.INVALID_PARTITIONS, what)


def create(
    cluster: Cluster,
    name: str,
    replicas: Sequence[Replicas],
    overrides: Mapping[str, str],
    topic_id: bytes = b"",
) -> Topic:
    """Make a topic. Raises KafkaError; nothing is left of it then."""
    topic = draft(cluster, name, replicas, overrides, topic_id)
    try:
        cluster.catalog.put([topic])
        cluster.add_partitions(topic)
    except StorageError as error:
        _give_up(cluster, name)
        raise KafkaError(Code.KAFKA_STORAGE_ERROR, str(error)) from error
    return topic


def _give_up(cluster: Cluster, name: str) -> None:
    """Take out what there is of a topic that could not be made."""
    try:
        if name in cluster.catalog.topics:
            delete(cluster, name)
    except (KafkaError, StorageError):
        log.exception("topic %r is left half made; the next start finishes it", name)


def grown(cluster: Cluster, name: str, replicas: Sequence[Replicas]) -> Topic:
    """The topic that `grow` would make. Raises KafkaError if it must not be."""
    topic = cluster.topic(name)
    _check_count(cluster, name, topic.partition_count + len(replicas))
    return replace(
        topic,
        replicas=(*topic.replicas, *replicas),
        leader_epochs=(*topic.leader_epochs, *(0 for _ in replicas)),
    )


def grow(cluster: Cluster, name: str, replicas: Sequence[Replicas]) -> Topic:
    """Add partitions to a topic, all or none."""
    before, larger = cluster.topic(name), grown(cluster, name, replicas)
    try:
        cluster.catalog.put([larger])
        cluster.add_partitions(larger)
    except StorageError as error:
        try:
            cluster.catalog.put([before])
        except StorageError:
            log.exception("topic %r lacks partitions; the next start makes them", name)
        raise KafkaError(Code.KAFKA_STORAGE_ERROR, str(error)) from error
    return larger


def configure(cluster: Cluster, name: str, overrides: Mapping[str, str]) -> Topic:
    """Give a topic other settings, effective at once."""
    topic = cluster.topic(name)
    topic_config(cluster.config, overrides)
    changed = replace(topic, overrides=dict(overrides))
    try:
        cluster.catalog.put([changed])
    except StorageError as error:
        raise KafkaError(Code.KAFKA_STORAGE_ERROR, str(error)) from error
    cluster.apply_settings(changed)
    return changed


def delete(cluster: Cluster, name: str) -> None:
    """Delete a topic: its directories are renamed at once and removed later."""
    topic = cluster.topic(name)
    if topic.is_deleting:
        what = f"topic {name!r} could not be deleted by a failing disk; the next start of the broker will"
        raise KafkaError(Code.KAFKA_STORAGE_ERROR, what)
    delay_ms = cluster.topic_config(topic).log.file_delete_delay_ms
    try:
        cluster.catalog.mark_deleting(name)
        cluster.drop_partitions(name)
        for node in cluster.nodes.values():
            node.groups.forget_topic(name)
        cluster.turn.end()  # what groups forget is written before the topic is gone for good
        cluster.catalog.remove(name)
    except StorageError as error:
        raise KafkaError(Code.KAFKA_STORAGE_ERROR, str(error)) from error
    cluster.loop.call_later(delay_ms / 1000, _remove_files, cluster)


def _remove_files(cluster: Cluster) -> None:
    """Remove what deleted topics have left, beside the loop."""
    if cluster.is_closed:
        return  # the next start will
    work = cluster.loop.run_in_executor(cluster.executor, cluster.directory.purge_deleted)
    work.add_done_callback(_note_failure)


def _note_failure(work: Future[int]) -> None:
    if not work.cancelled() and work.exception() is not None:
        log.error("files of deleted topics stay until the next start: %s", work.exception())


def find_or_create(cluster: Cluster, name: str) -> Topic:
    """A topic that is made by being asked for, if that is allowed; the offsets topic always is."""
    topic = cluster.catalog.topics.get(name)
    if topic is not None and not topic.is_deleting:
        return topic
    if name == OFFSETS_TOPIC:
        return create_offsets_topic(cluster)
    check_name(name)
    if topic is not None or not cluster.config.auto_create_topics or name in INTERNAL_TOPICS:
        raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r}")
    return create(cluster, name, spread(cluster, DEFAULT, DEFAULT), {})


def create_offsets_topic(cluster: Cluster) -> Topic:
    """The topic of groups and offsets, with Kafka's settings."""
    count = cluster.config.groups.offsets_partition_count
    overrides = offsets_topic_overrides(cluster.config)
    return create(cluster, OFFSETS_TOPIC, spread(cluster, count, min(3, len(cluster.nodes))), overrides)
