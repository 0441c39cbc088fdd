"""Lag in Prometheus' format: what it says of names that need care, and of what is not known."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from ottla.admin import GroupDescription, GroupKind, GroupLag, GroupMember, PartitionLag, lag_exposition
from ottla.model.topic_partition import TopicAndPartition


def lag(name: str, kind: GroupKind, *rows: PartitionLag, members: int = 0) -> GroupLag:
    people = tuple(GroupMember(f"member-{number}") for number in range(members))
    return GroupLag(GroupDescription(name, kind, "Empty", "consumer", "", None, people), rows)


def test_a_sample_for_each_partition_whose_lag_is_known() -> None:
    place, other, third = (TopicAndPartition("orders", number) for number in range(3))
    text = lag_exposition(
        [
            lag(
                'a "group"\n',
                GroupKind.KAFKA,
                PartitionLag(place, 4, 10, seconds=2.5),
                PartitionLag(other, None, 10),
                PartitionLag(third, 12, 10),
                members=2,
            ),
            lag("classic", GroupKind.ZOOKEEPER, PartitionLag(place, 9, None)),
        ]
    )
    families = {one.name: one for one in text_string_to_metric_families(text)}
    assert {one.type for one in families.values()} == {"gauge"}
    group = {"consumergroup": 'a "group"\n', "kind": "kafka"}
    classic = {"consumergroup": "classic", "kind": "zookeeper"}

    def at(labels: dict[str, str], number: int) -> dict[str, str]:
        return {**labels, "topic": "orders", "partition": str(number)}

    def told(name: str) -> list[tuple[dict[str, str], float]]:
        return [(one.labels, one.value) for one in families[f"kafka_consumergroup_{name}"].samples]

    assert told("lag") == [(at(group, 0), 6), (at(group, 2), 0)]
    assert told("current_offset") == [(at(group, 0), 4), (at(group, 2), 12), (at(classic, 0), 9)]
    assert told("lag_seconds") == [(at(group, 0), 2.5)]
    assert told("members") == [(group, 2), (classic, 0)]


def test_no_groups_are_no_samples() -> None:
    assert [one.samples for one in text_string_to_metric_families(lag_exposition([]))] == [[]] * 5
