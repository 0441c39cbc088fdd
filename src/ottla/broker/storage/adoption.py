"""Adopts partition directories that the catalog does not name: from Apache Kafka, or put there by hand.

Their settings are not known. So retention is off in the settings that they get: nothing of them is deleted
until an administrator sets it. Only the settings of the offsets topic are known.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from ottla.broker.storage.catalog import Topic
from ottla.log import file_names, partition_metadata
from ottla.log.checkpoints import TopicPartition
from ottla.log.log_directory import LogDirectory

KEPT = {"retention.ms": "-1", "retention.bytes": "-1"}


def adopted(
    directory: LogDirectory, known: Mapping[str, Topic], broker_id: int, own: Mapping[str, Mapping[str, str]]
) -> list[Topic]:
    """Return a topic for each name that is not `known`. `own` are the settings of the broker's own topics.

    A topic keeps the id that its directories have, unless another topic has that id. Its leader epochs
    continue after those in the logs, since it has a new leader.
    """
    counts: dict[str, int] = {}
    for name, index in [*directory.logs, *directory.damaged]:
        if name not in known:
            counts[name] = max(counts.get(name, 0), index + 1)
    used = {topic.topic_id for topic in known.values()}
    topics = []
    for name, count in sorted(counts.items()):
        keys = [(name, index) for index in range(count)]
        topic_id = _stored_id(directory.path, keys)
        if topic_id is None or topic_id in used:
            topic_id = os.urandom(16)
        used.add(topic_id)
        logs = [directory.logs.get(key) for key in keys]
        epochs = tuple(log.epochs.latest + 1 if log else 0 for log in logs)
        topics.append(Topic(name, topic_id, ((broker_id,),) * count, epochs, dict(own.get(name, KEPT))))
    return topics


def _stored_id(root: Path, keys: Iterable[TopicPartition]) -> bytes | None:
    """Return the topic id of the first directory that has one, or None."""
    for key in keys:
        topic_id = partition_metadata.read(file_names.partition_directory(root, *key))
        if topic_id is not None:
            return topic_id
    return None
