"""Exact positions of groups in the other cluster: a group continues there at the record it would have read.

Before every commit, a mirror that keeps partitions writes to a topic of the target which source offset became
which target offset (`offset_runs`). With these notes a group that has stopped on the source is moved:

    translate_group("billing", "mirror-group", source={"bootstrap.servers": …}, target={…})
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from ottla.admin import Admin, GroupKind, NewTopic
from ottla.consumer.partition import replay
from ottla.mirror.mirror_settings import Properties, admin_properties
from ottla.mirror.offset_runs import OffsetRun, in_force, notes, runs_in, translated
from ottla.mirror.topic_follower import ignoring
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError, NotTranslatable
from ottla.model.topic_partition import TopicAndPartition
from ottla.producer import Producer

log = logging.getLogger(__name__)

RUNS_TOPIC = "ottla-mirror-offsets"
Runs = Mapping[TopicAndPartition, list[OffsetRun]]


class RunNotes:
    """Writes the notes of a mirror's group. The topic has one partition, so that notes are in order."""

    def __init__(self, producer: Producer, mirror_group: str) -> None:
        self._producer = producer
        self._group = mirror_group

    def write(self, runs: Runs, positions: Mapping[TopicAndPartition, int]) -> None:
        """Store runs, and wait until they are stored: the positions that are committed next rely on them."""
        deliveries = [
            self._producer.send(RUNS_TOPIC, note, _key(self._group, source), partition=0)
            for source, noted in runs.items()
            if noted
            for note in notes(noted, max(positions[source], noted[-1].source + noted[-1].records))
        ]
        for delivery in deliveries:
            delivery.result()


def create_runs_topic(target: Admin) -> None:
    """Create the topic of notes with one partition and endless retention. Raises OttlaError."""
    replicas = min(3, len(target.describe_cluster().brokers))
    with ignoring(Code.TOPIC_ALREADY_EXISTS):
        target.create_topics(NewTopic(RUNS_TOPIC, 1, max(1, replicas), configs={"retention.ms": -1}))


def translate_group(
    group: str,
    mirror_group: str,
    *,
    source: Properties,
    target: Properties,
    dry_run: bool = False,
    kind: GroupKind | None = None,
) -> dict[TopicAndPartition, int]:
    """Give a group on the target the positions that it has on the source, and return them.

    Only partitions that this mirror has copied count. With `dry_run` nothing is written. Raises
    NotTranslatable if the group is ahead of the mirror, ConfigError if it has members on the source, and
    what Admin raises.
    """
    with Admin(admin_properties(source)) as source_admin, Admin(admin_properties(target)) as target_admin:
        members = source_admin.describe_groups(group, kind=kind).members
        if members:
            raise ConfigError(f"group {group!r} has {len(members)} members on the source: stop them first")
        committed = source_admin.group_offsets(group, kind=kind)
        known = read_runs(target, mirror_group)
        moved = {
            topic_partition: _moved(group, topic_partition, position.offset, known[topic_partition])
            for topic_partition, position in committed.items()
            if topic_partition in known
        }
        if moved and not dry_run:
            target_admin.alter_group_offsets(group, moved)
            log.info("group %s: %d positions were translated", group, len(moved))
        return moved


def _moved(group: str, source: TopicAndPartition, offset: int, runs: list[OffsetRun]) -> int:
    target = translated(runs, offset)
    if target is None:
        end = runs[-1].source + runs[-1].records
        raise NotTranslatable(
            f"group {group!r}: {source} is at {offset}, and mirrored up to {end}: let it catch up first"
        )
    return target


def read_runs(target: Properties, mirror_group: str) -> dict[TopicAndPartition, list[OffsetRun]]:
    """Return the runs that count, of each partition that the mirror has noted."""
    noted: dict[TopicAndPartition, list[OffsetRun]] = {}
    properties: dict[str, Any] = {**admin_properties(target), "isolation_level": "read_committed"}
    for message in replay(RUNS_TOPIC, **properties).messages():
        source = _source(message.raw_key or b"", mirror_group)
        if source is not None:
            noted.setdefault(source, []).extend(runs_in(message.raw_value or b"[]"))
    return {source: in_force(runs) for source, runs in noted.items()}


def _key(group: str, source: TopicAndPartition) -> bytes:
    return f"{source.topic}\t{source.partition}\t{group}".encode()


def _source(key: bytes, group: str) -> TopicAndPartition | None:
    """Return the partition of a note's key; None if the note belongs to another group.

    Only groups may contain tabs.
    """
    topic, _, rest = key.decode(errors="replace").partition("\t")
    partition, _, key_group = rest.partition("\t")
    return TopicAndPartition(topic, int(partition)) if key_group == group and partition.isdigit() else None
