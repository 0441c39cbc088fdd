"""Groups of every kind at the command line: listed, described, moved, their lag, and `ottla groups watch`."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import IO, Any

from prometheus_client.parser import text_string_to_metric_families

from ottla import Admin, EmbeddedBroker, GroupConsumer, Producer, ShareConsumer
from ottla.admin import GroupDescription, GroupKind, GroupMember, TopicAndPartition
from ottla.cli.group_watch import NOBODY, Change, changes
from ottla.consumer.classic import ConsumerConnector
from ottla.zookeeper.server import ZooKeeperServer
from tests.cli.kafka.conftest import ours
from tests.consumer.classic.conftest import QUICK, registered_at
from tests.waiting import wait_for

PLACES = [TopicAndPartition("orders", number) for number in range(3)]
KINDS = ("classic", "consumer", "share", "zookeeper")


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


@contextmanager
def watching(*arguments: str) -> Iterator[list[dict[str, Any]]]:
    """The rows that `ottla groups watch` has printed so far, in a process of its own."""
    rows: list[dict[str, Any]] = []
    command = [sys.executable, "-m", "ottla", "groups", "watch", *arguments]
    command += ["--format", "json", "--interval", "0.05"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:

        def read(lines: IO[str]) -> None:
            for line in lines:
                rows.extend(json.loads(line)["rows"])

        assert process.stdout is not None
        reader = threading.Thread(target=read, args=(process.stdout,))
        reader.start()
        try:
            yield rows
        finally:
            process.kill()
            reader.join()


def member_of(kind: str, bootstrap: str, connect: str) -> GroupConsumer | ShareConsumer | ConsumerConnector:
    """A member of a group that is named as its kind, and reads both partitions."""
    if kind == "zookeeper":
        settings = {**QUICK, "zookeeper.connect": connect, "group.id": kind, "consumer_id": "cook"}
        settings["auto_commit_enable"] = False
        connector = ConsumerConnector(settings)
        connector.create_message_streams({"orders": 1})
        return connector
    at: dict[str, Any] = {"group_id": kind, "bootstrap_servers": bootstrap, "client_id": "cook"}
    if kind == "share":
        return ShareConsumer("orders", **at)
    return GroupConsumer("orders", group_protocol=kind, enable_auto_commit=False, **at)


def test_rebalances_of_every_kind_are_seen_as_they_happen(zookeeper_server: ZooKeeperServer) -> None:
    connect = f"{zookeeper_server.connect}/watch"
    properties = {"group.initial.rebalance.delay.ms": 0, **registered_at(connect)}
    with EmbeddedBroker(properties=properties) as broker:
        broker.create_topic("orders", 2)
        with watching(*KINDS, "-b", broker.bootstrap, "--zookeeper", connect) as rows, ExitStack() as stack:
            members = [member_of(kind, broker.bootstrap, connect) for kind in KINDS]
            for member in members:
                stack.callback(member.close)

            def readers(group: str) -> dict[str, str]:
                for member in members:
                    if not isinstance(member, ConsumerConnector):
                        member.poll(timeout=0.01)
                return {row["what"]: row["after"] for row in rows if row["group"] == group}

            for kind in KINDS:
                wait_for(
                    lambda kind=kind: {"orders-0", "orders-1"} <= readers(kind).keys(),
                    f"the partitions of {kind} are seen with their reader",
                )
                seen = readers(kind)
                assert NOBODY not in (seen["orders-0"], seen["orders-1"], seen["member"])
                assert seen["state"] == "Stable"
            assert {row["type"] for row in rows if row["kind"] == "kafka"} == {"classic", "consumer", "share"}
            assert {row["group"] for row in rows if row["kind"] == "zookeeper"} == {"zookeeper"}
            stack.close()
            for kind in KINDS:
                wait_for(
                    lambda kind=kind: (
                        [row["after"] for row in rows if row["group"] == kind and row["what"] == "orders-0"][
                            -1
                        ]
                        == NOBODY
                    ),
                    f"it is seen that {kind} has no reader any more",
                )


def rows_of(*line: str) -> list[dict[str, Any]]:
    """What a command prints as JSON."""
    run = ours(*line, "--format", "json")
    assert (run.code, run.complaints) == (0, "")
    rows: list[dict[str, Any]] = json.loads(run.printed)["rows"]
    return rows


def columns(rows: Sequence[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


def check_listed(*at: str) -> None:
    listed = columns(rows_of("groups", *at), "group", "kind", "type", "protocol", "state")
    assert sorted(listed) == [
        ("classic", "kafka", "classic", "consumer", "Stable"),
        ("consumer", "kafka", "consumer", "consumer", "Stable"),
        ("share", "kafka", "share", "share", "Stable"),
        ("zookeeper", "zookeeper", "", "consumer", "Stable"),
    ]
    described = rows_of("groups", "describe", *KINDS, *at)
    assert columns(described, "group", "type", "state", "offsets", "partitions") == [
        (kind, kind if kind != "zookeeper" else "", "Stable", 2, 2) for kind in KINDS
    ]
    assert all(row["client"] == "cook" for row in described if row["kind"] == "kafka")
    epochs = {row["group"]: (row["epoch"], row["member_epoch"]) for row in described}
    assert epochs["classic"] == epochs["zookeeper"] == (None, None)
    for kind in ("consumer", "share"):
        assert epochs[kind][0] == epochs[kind][1] > 0


def check_lag(*at: str) -> None:
    lag = rows_of("lag", *KINDS, *at)
    assert columns(lag, "group", "partition", "committed", "end", "lag") == [
        row for kind in KINDS for row in ((kind, 0, 1, 5, 4), (kind, 1, 2, 5, 3))
    ]
    assert all(row["member"] is not None and row["seconds"] > 0 for row in lag)
    gauges = ours("lag", *KINDS, *at, "--format", "prometheus").printed
    (family,) = (
        one for one in text_string_to_metric_families(gauges) if one.name == "kafka_consumergroup_lag"
    )
    assert sorted((one.labels["consumergroup"], one.value) for one in family.samples) == sorted(
        (kind, value) for kind in KINDS for value in (4.0, 3.0)
    )


def test_every_kind_is_listed_described_and_moved_and_has_its_lag(zookeeper_server: ZooKeeperServer) -> None:
    connect = f"{zookeeper_server.connect}/groups"
    properties = {"group.initial.rebalance.delay.ms": 0, **registered_at(connect)}
    first, second = PLACES[:2]
    with EmbeddedBroker(properties=properties) as broker, ExitStack() as stack:
        at = ("-b", broker.bootstrap, "--zookeeper", connect)
        broker.create_topic("orders", 2)
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(10):
                producer.send("orders", b"tea", partition=number % 2)
        admin = stack.enter_context(Admin(bootstrap_servers=broker.bootstrap, zookeeper_connect=connect))
        for kind in ("classic", "consumer"):
            admin.alter_group_offsets(kind, {first: 1, second: 2}, kind=GroupKind.KAFKA)
        admin.alter_group_offsets("zookeeper", {first: 1, second: 2}, kind=GroupKind.ZOOKEEPER)
        admin.alter_share_group_offsets("share", {first: 1, second: 2})
        with ExitStack() as readers:
            members = [member_of(kind, broker.bootstrap, connect) for kind in KINDS]
            for member in members:
                readers.callback(member.close)
                if isinstance(member, ShareConsumer):
                    member.poll(timeout=0)  # it joins; a second poll would accept what the first has brought

            def assigned(kind: str) -> int:
                for one in members:
                    if isinstance(one, GroupConsumer):
                        one.poll(timeout=0)
                return sum(len(one.assignment) for one in admin.describe_groups(kind).members)

            for kind in KINDS:
                wait_for(lambda kind=kind: assigned(kind) == 2, f"the member of {kind} has both partitions")

            check_listed(*at)
            check_lag(*at)
        for kind in KINDS:
            moved = rows_of("reset", kind, "orders", "--to", "earliest", "--execute", *at)
            assert columns(moved, "partition", "before", "after", "done") == [
                (0, 1, 0, True),
                (1, 2, 0, True),
            ]
