"""Positions of groups in the other cluster, exactly: a group goes on there at the record it would have read.

A mirror into the same partitions notes, in a topic of the target and before every commit, which offsets
became which (`offset_runs`). A group that has stopped on the source is moved by them:

    translate_group("billing", "mirror-group", source={"bootstrap.servers": …}, target={…})
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from ottla.admin import Admin, GroupKind, NewTopic
from ottla.fetching import TopicAndPartition
from ottla.mirror.errors import NotTranslatable
from ottla.mirror.offset_runs import Run, in_force, notes, runs_in, translated
from ottla.mirror.settings import Properties, admin_properties
from ottla.mirror.topic_follower import unless
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError
from ottla.partition import replay
from ottla.producer import Producer

log = logging.getLogger(__name__)

RUNS_TOPIC = "ottla-mirror-offsets"
Runs = Mapping[TopicAndPartition, list[Run]]


class RunNotes:
    """Writes what a mirror's group learnt. The topic has one partition, so that notes have an order."""

    def __init__(self, producer: Producer, mirror_group: str) -> None:
        self._producer = producer
        self._group = mirror_group

    def write(self, runs: Runs, positions: Mapping[TopicAndPartition, int]) -> None:
        """Store runs, and wait until they are: positions that are committed next rely on them."""
        deliveries = [
            self._producer.send(RUNS_TOPIC, note, _key(self._group, place), partition=0)
            for place, some in runs.items()
            if some
            for note in notes(some, max(positions[place], some[-1].source + some[-1].records))
        ]
        for delivery in deliveries:
            delivery.result()


def make_runs_topic(target: Admin) -> None:
    """With one partition, and kept for ever. Raises OttlaError."""
    replicas = min(3, len(target.describe_cluster().brokers))
    with unless(Code.TOPIC_ALREADY_EXISTS):
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
    """Give a group without members on the target the positions that it has on the source.

    Only partitions that this mirror has copied count. Raises NotTranslatable if the group is ahead of the
    mirror, ConfigError if it has members on the source, and what Admin raises.
    """
    with Admin(admin_properties(source)) as ours, Admin(admin_properties(target)) as theirs:
        members = ours.describe_groups(group, kind=kind).members
        if members:
            raise ConfigError(
                f"group {group!r} has {len(members)} members on the source, and moves on: stop it first"
            )
        committed = ours.group_offsets(group, kind=kind)
        known = read_runs(target, mirror_group)
        moved = {
            place: _moved(group, place, one.offset, known[place])
            for place, one in committed.items()
            if place in known
        }
        if moved and not dry_run:
            theirs.alter_group_offsets(group, moved)
            log.info("group %s: %d positions were translated", group, len(moved))
        return moved


def _moved(group: str, place: TopicAndPartition, offset: int, runs: list[Run]) -> int:
    found = translated(runs, offset)
    if found is None:
        end = runs[-1].source + runs[-1].records
        raise NotTranslatable(
            f"group {group!r}: {place} is at {offset}, and mirrored up to {end}: let the mirror go on first"
        )
    return found


def read_runs(target: Properties, mirror_group: str) -> dict[TopicAndPartition, list[Run]]:
    """All that the mirror noted, as it is in force."""
    noted: dict[TopicAndPartition, list[Run]] = {}
    properties: dict[str, Any] = admin_properties(target)
    for message in replay(RUNS_TOPIC, **properties).messages():
        place = _place(message.raw_key or b"", mirror_group)
        if place is not None:
            noted.setdefault(place, []).extend(runs_in(message.raw_value or b"[]"))
    return {place: in_force(runs) for place, runs in noted.items()}


def _key(group: str, place: TopicAndPartition) -> bytes:
    return f"{place.topic}\t{place.partition}\t{group}".encode()


def _place(key: bytes, group: str) -> TopicAndPartition | None:
    """Of a key of this group, None of another's; topics have no tabs in their names, and groups may."""
    topic, _, rest = key.decode(errors="replace").partition("\t")
    partition, _, whose = rest.partition("\t")
    return TopicAndPartition(topic, int(partition)) if whose == group and partition.isdigit() else None
