"""`ottla groups watch`: what differs between two looks, and a rebalance of a live group."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import IO

from ottla import EmbeddedBroker, GroupConsumer
from ottla.admin import GroupDescription, GroupKind, GroupMember, TopicAndPartition
from ottla.cli.group_watch import Change, changes
from tests.waiting import wait_for

PLACES = [TopicAndPartition("orders", number) for number in range(3)]


def group(state: str, epoch: int | None = None, **assigned: list[int]) -> dict[GroupKind, GroupDescription]:
    members = tuple(
        GroupMember(name, assignment=tuple(PLACES[number] for number in numbers), epoch=epoch)
        for name, numbers in assigned.items()
    )
    kind = "classic" if epoch is None else "consumer"
    found = GroupDescription("g", GroupKind.KAFKA, state, "consumer", "range", None, members, kind, epoch)
    return {GroupKind.KAFKA: found}


def told(
    before: dict[GroupKind, GroupDescription], after: dict[GroupKind, GroupDescription]
) -> list[tuple[str, ...]]:
    return [change[2:] for change in changes(before, after)]


def test_who_had_what_and_who_has_it_now() -> None:
    alone, both = group("Stable", a=[0, 1, 2]), group("Stable", a=[0], b=[1, 2])
    assert told({}, alone) == [
        ("state", "-", "Stable"),
        ("member", "-", "a"),
        ("orders-0", "-", "a"),
        ("orders-1", "-", "a"),
        ("orders-2", "-", "a"),
    ]
    assert told(alone, alone) == []
    assert told(alone, both) == [("member", "-", "b"), ("orders-1", "a", "b"), ("orders-2", "a", "b")]
    assert told(both, group("Empty"))[:2] == [("state", "Stable", "Empty"), ("member", "a", "-")]
    assert told(both, {})[0] == ("state", "Stable", "-")


def test_epochs_of_groups_whose_coordinator_assigns() -> None:
    assert told(group("Stable", 4, a=[0]), group("Assigning", 5, a=[0])) == [
        ("state", "Stable", "Assigning"),
        ("epoch", "4", "5"),
        ("epoch of a", "4", "5"),
    ]


def test_a_partition_with_two_readers_names_both() -> None:
    assert told(group("Stable", 1, a=[0]), group("Stable", 1, a=[0], b=[0])) == [
        ("member", "-", "b"),
        ("orders-0", "a", "a, b"),
    ]
    (first, *_) = changes({}, group("Stable", 1))
    assert first == Change("kafka", "consumer", "state", "-", "Stable")


def test_a_live_rebalance_is_seen() -> None:
    with EmbeddedBroker(properties={"group.initial.rebalance.delay.ms": 0}) as broker:
        broker.create_topic("orders", 2)
        command = [sys.executable, "-m", "ottla", "groups", "watch", "kitchen", "-b", broker.bootstrap]
        command += ["--format", "json", "--interval", "0.05"]
        seen: set[str] = set()

        def read(lines: IO[str]) -> None:
            for line in lines:
                seen.update(
                    row["what"] for row in json.loads(line)["rows"] if row["after"].startswith("cook")
                )

        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
            assert watching.stdout is not None
            reader = threading.Thread(target=read, args=(watching.stdout,))
            reader.start()
            try:
                with GroupConsumer(
                    "orders", group_id="kitchen", bootstrap_servers=broker.bootstrap, client_id="cook"
                ) as consumer:

                    def has_both() -> bool:
                        consumer.poll(timeout=0.01)
                        return {"orders-0", "orders-1"} <= seen

                    wait_for(has_both, "both partitions are seen with their reader")
            finally:
                watching.kill()
                reader.join()
