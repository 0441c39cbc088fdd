"""Topics of partition directories that the catalog does not name: from Apache Kafka, or put there by hand.

What their settings were is not known. So nothing of them is deleted until somebody says how long they are to
be kept: retention is off in the settings that they get. Only the offsets topic is Kafka's own, and known.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from ottla.broker.catalog import Topic
from ottla.log import file_names, partition_metadata
from ottla.log.checkpoints import TopicPartition
from ottla.log.log_directory import LogDirectory

KEPT = {"retention.ms": "-1", "retention.bytes": "-1"}


def adopted(
    directory: LogDirectory, known: Mapping[str, Topic], broker_id: int, own: Mapping[str, Mapping[str, str]]
) -> list[Topic]:
    """A topic for each name that is not `known`. `own` are the settings of the broker's own topics.

    A topic keeps the id that its directories name, unless another one has it: two with one id would be taken
    for each other. Its leader epochs go on behind those in the logs, for it has a new leader.
    """
    counts: dict[str, int] = {}
    for name, index in [*directory.logs, *directory.damaged]:
        if name not in known:
            counts[name] = max(counts.get(name, 0), index + 1)
    used = {topic.topic_id for topic in known.values()}
    topics = []
    for name, count in sorted(counts.items()):
        places = [(name, index) for index in range(count)]
        topic_id = _stored_id(directory.path, places)
        if topic_id is None or topic_id in used:
            topic_id = os.urandom(16)
        used.add(topic_id)
        logs = [directory.logs.get(place) for place in places]
        epochs = tuple(log.epochs.latest + 1 if log else 0 for log in logs)
        topics.append(Topic(name, topic_id, ((broker_id,),) * count, epochs, dict(own.get(name, KEPT))))
    return topics


def _stored_id(root: Path, places: Iterable[TopicPartition]) -> bytes | None:
    """The id in the first directory that has one."""
    for place in places:
        topic_id = partition_metadata.read(file_names.partition_directory(root, *place))
        if topic_id is not None:
            return topic_id
    return None
