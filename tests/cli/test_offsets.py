"""`ottla offsets` and the lag for Prometheus, on the embedded broker and a real ZooKeeper server."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ottla import (
    Admin,
    EmbeddedBroker,
    GroupConsumer,
    OffsetLedger,
    Producer,
    ShareConsumer,
    TopicAndPartition,
)
from ottla.admin import GroupKind
from ottla.consumer.classic import ConsumerConnector
from ottla.zookeeper.server import ZooKeeperServer
from tests.cli.kafka.conftest import ours
from tests.consumer.classic.conftest import QUICK, registered_at
from tests.waiting import PATIENCE_S

HEAD = "group\ttopic\tpartition\tsource\ttarget\tstep\tdone\terror\n"
T0, T1 = TopicAndPartition("orders", 0), TopicAndPartition("orders", 1)


class World:
    """A broker that is registered in ZooKeeper, and what a command line says to reach both."""

    def __init__(self, broker: EmbeddedBroker, connect: str) -> None:
        self.broker = broker
        self.connect = connect
        self.at = ("-b", broker.bootstrap, "--zookeeper", connect)

    def admin(self) -> Admin:
        return Admin(bootstrap_servers=self.broker.bootstrap, zookeeper_connect=self.connect)

    def put(self, group: str, kind: GroupKind, **offsets: int) -> None:
        """Positions as orders_0=17."""
        names = {name.rpartition("_"): offset for name, offset in offsets.items()}
        positions = {
            TopicAndPartition(topic, int(number)): offset for (topic, _, number), offset in names.items()
        }
        with self.admin() as admin:
            admin.alter_group_offsets(group, positions, kind=kind)

    def stored(self, group: str, kind: GroupKind) -> dict[tuple[str, int], int]:
        with self.admin() as admin:
            offsets = admin.group_offsets(group, kind=kind)
        return {
            (topic_partition.topic, topic_partition.partition): stored.offset
            for topic_partition, stored in offsets.items()
        }


@pytest.fixture(autouse=True)
def no_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTTLA_PROFILE", raising=False)
    monkeypatch.setenv("OTTLA_CONFIG", str(tmp_path / "config.toml"))


@pytest.fixture(scope="module")
def world(zookeeper_server: ZooKeeperServer) -> Iterator[World]:
    connect = f"{zookeeper_server.connect}/offsets"
    with EmbeddedBroker(properties=registered_at(connect)) as broker:
        broker.create_topic("orders", 2)
        broker.create_topic("clicks", 1)
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(20):
                producer.send("orders", b"one coffee", partition=number % 2)
        yield World(broker, connect)


def test_a_group_moves_by_plan_and_back(world: World) -> None:
    world.put("billing", GroupKind.ZOOKEEPER, orders_0=7, orders_1=3, clicks_0=0)
    line = ("offsets", "migrate", "--group", "billing", "--format", "tsv", *world.at)
    there = (*line, "--from", "zookeeper", "--to", "kafka")

    def rows(step: str, target: tuple[str, str, str], *, is_done: bool) -> str:
        told = f"{step}\t{'true' if is_done else 'false'}\t\n"
        places = (("clicks\t0\t0", target[0]), ("orders\t0\t7", target[1]), ("orders\t1\t3", target[2]))
        return HEAD + "".join(f"billing\t{place}\t{now}\t{told}" for place, now in places)

    nothing = ("", "", "")
    assert ours(*there) == (0, rows("write", nothing, is_done=False), "")
    assert ours(*there, "--execute", "--dry-run") == (0, rows("write", nothing, is_done=False), "")
    assert world.stored("billing", GroupKind.KAFKA) == {}
    assert ours(*there, "--execute") == (0, rows("write", nothing, is_done=True), "")
    moved = {("clicks", 0): 0, ("orders", 0): 7, ("orders", 1): 3}
    assert world.stored("billing", GroupKind.KAFKA) == moved
    assert ours(*there, "--execute") == (0, rows("same", ("0", "7", "3"), is_done=False), "")

    world.put("billing", GroupKind.KAFKA, orders_0=9)
    back = ours(*line, "--from", "kafka", "--to", "zookeeper", "--topic", "orders:0", "--execute")
    assert back == (0, f"{HEAD}billing\torders\t0\t9\t7\twrite\ttrue\t\n", "")
    assert world.stored("billing", GroupKind.ZOOKEEPER) == {**moved, ("orders", 0): 9}


def test_a_target_that_is_ahead_stops_everything_unless_it_is_forced(world: World) -> None:
    world.put("ahead", GroupKind.ZOOKEEPER, orders_0=7, orders_1=3)
    world.put("ahead", GroupKind.KAFKA, orders_1=5)
    line = (
        "offsets",
        "migrate",
        "-g",
        "ahead",
        "--from",
        "zookeeper",
        "--to",
        "kafka",
        *world.at,
        "--execute",
    )
    refused = ours(*line, "--format", "json")
    told = json.loads(refused.printed)
    assert (refused.code, told["ok"], [row["step"] for row in told["rows"]]) == (
        1,
        False,
        ["write", "refuse"],
    )
    assert told["rows"][1]["error"] == "the target is ahead (5 > 3): leave it out, or force it"
    assert not any(row["done"] for row in told["rows"])
    assert world.stored("ahead", GroupKind.KAFKA) == {("orders", 1): 5}
    assert ours(*line, "--topic", "orders:0").code == 0
    assert world.stored("ahead", GroupKind.KAFKA) == {("orders", 0): 7, ("orders", 1): 5}
    assert ours(*line, "--force").code == 0
    assert world.stored("ahead", GroupKind.KAFKA) == {("orders", 0): 7, ("orders", 1): 3}


def test_live_members_of_both_kinds_are_told_by_name(world: World) -> None:
    line = ("offsets", "migrate", "--format", "json", *world.at, "--execute")
    to_kafka, to_zookeeper = (
        ("--from", "zookeeper", "--to", "kafka"),
        ("--from", "kafka", "--to", "zookeeper"),
    )
    world.put("busy", GroupKind.ZOOKEEPER, orders_0=4)
    settings = {"zookeeper_connect": world.connect, "group_id": "busy", "consumer_id": "reader", **QUICK}
    with ConsumerConnector(settings) as connector:
        connector.create_message_streams({"clicks": 1})
        refused = ours(*line, *to_kafka, "--group", "busy")
    assert refused.code == 1
    assert "'busy' has live members (busy_reader): stop them" in refused.printed
    assert world.stored("busy", GroupKind.KAFKA) == {}

    world.put("waiting", GroupKind.KAFKA, orders_0=4)
    world.put("waiting", GroupKind.ZOOKEEPER, orders_0=6)
    with GroupConsumer("clicks", group_id="waiting", bootstrap_servers=world.broker.bootstrap) as consumer:
        while not consumer.assignment:
            consumer.poll(0.1)
        refused = ours(*line, *to_zookeeper, "--group", "waiting")
        assert refused.code == 1
        assert "'waiting' has live members (" in refused.printed
        # The coordinator takes no commit from outside either, whatever is forced.
        forced = ours(*line, *to_kafka, "--group", "waiting", "--force")
    assert forced.code == 1
    assert "only they may commit: stop them first" in json.loads(forced.printed)["rows"][0]["error"]
    assert world.stored("waiting", GroupKind.KAFKA)["orders", 0] == 4


def test_partitions_that_are_gone_stay_behind(world: World) -> None:
    world.put("stale", GroupKind.ZOOKEEPER, orders_0=1, deleted_0=4)
    line = ("offsets", "migrate", "-g", "stale", "--from", "zookeeper", "--to", "kafka", *world.at)
    assert ours(*line, "--execute", "--format", "tsv").printed == (
        f"{HEAD}stale\tdeleted\t0\t4\t\tgone\tfalse\t\nstale\torders\t0\t1\t\twrite\ttrue\t\n"
    )


def test_into_a_ledger_and_out_of_it(world: World, tmp_path: Path) -> None:
    world.put("results", GroupKind.KAFKA, orders_0=4, orders_1=5)
    database = tmp_path / "results.db"
    line = ("offsets", "migrate", "-g", "results", *world.at, "--ledger", str(database), "--format", "tsv")
    planned = ours(*line, "--from", "kafka", "--to", "ledger")
    assert planned.printed == (
        f"{HEAD}results\torders\t0\t4\t\twrite\tfalse\t\nresults\torders\t1\t5\t\twrite\tfalse\t\n"
    )
    assert not database.exists()
    assert ours(*line, "--from", "kafka", "--to", "ledger", "--execute").code == 0
    with closing(sqlite3.connect(database)) as connection:
        ledger = OffsetLedger(connection, group_id="results")
        assert ledger.start([T0, T1]) == {T0: 4, T1: 5}
        with ledger.transaction() as cursor:
            ledger.record(cursor, T0, 8)
    assert ours(*line, "--from", "ledger", "--to", "kafka", "--execute").code == 0
    assert world.stored("results", GroupKind.KAFKA) == {("orders", 0): 8, ("orders", 1): 5}
    database.write_bytes(b"no database at all" * 100)
    broken = ours(*line, "--from", "ledger", "--to", "kafka")
    assert (broken.code, "results.db: file is not a database" in broken.complaints) == (1, True)


@pytest.mark.parametrize("kind", list(GroupKind))
def test_a_file_holds_positions_of_both_stores(world: World, kind: GroupKind, tmp_path: Path) -> None:
    group, path, name = f"filed-{kind.value}", tmp_path / "offsets.txt", kind.value
    world.put(group, kind, orders_0=4, orders_1=5)
    written = ours("offsets", "export", "-g", group, "--from", name, str(path), *world.at, "--format", "tsv")
    assert written == (0, f"group\tpartitions\n{group}\t2\n", "")
    lines = f"/consumers/{group}/offsets/orders/0:4\n/consumers/{group}/offsets/orders/1:5\n"
    assert path.read_text() == lines
    assert ours("offsets", "export", "-g", group, "--from", name, "-", *world.at) == (0, lines, "")

    world.put(group, kind, orders_0=1, orders_1=2)
    line = ("offsets", "import", "--to", name, *world.at, "--format", "tsv")
    planned = ours(*line, str(path))
    assert planned.code == 0
    assert world.stored(group, kind) == {("orders", 0): 1, ("orders", 1): 2}
    other = "/consumers/another/offsets/orders/0:9\n"
    loaded = ours(*line, "-", "--group", group, "--execute", text=lines + other)
    head = HEAD.replace("\n", f"\n{group}\torders\t")
    assert loaded.printed == f"{head}0\t4\t1\twrite\ttrue\t\n{group}\torders\t1\t5\t2\twrite\ttrue\t\n"
    assert world.stored(group, kind) == {("orders", 0): 4, ("orders", 1): 5}


def test_without_bootstrap_zookeeper_tells_the_brokers(world: World) -> None:
    world.put("found", GroupKind.KAFKA, orders_0=4)
    exported = ours("offsets", "export", "-g", "found", "-", "--zookeeper", world.connect)
    assert exported == (0, "/consumers/found/offsets/orders/0:4\n", "")


def test_what_is_missing_is_asked_for(world: World) -> None:
    for words in [
        (),
        ("migrate", "--from", "kafka", "--to", "zookeeper"),
        ("migrate", "-g", "g", "--from", "kafka"),
        ("migrate", "-g", "g", "--from", "kafka", "--to", "kafka"),
        ("export", "-g", "g"),
        ("import",),
    ]:
        with pytest.raises(SystemExit) as ended:
            ours("offsets", *words)
        assert ended.value.code == 2, words
    at = ("-b", world.broker.bootstrap)
    nobody = ours("offsets", "export", "-g", "nobody", "-", *at)
    assert nobody == (1, "", "ottla: group 'nobody' has no such offsets in kafka\n")
    assert (
        "--zookeeper HOST:PORT"
        in ours("offsets", "export", "-g", "g", "--from", "zookeeper", "-", *at).complaints
    )
    assert "--ledger FILE" in ours("offsets", "export", "-g", "g", "--from", "ledger", "-", *at).complaints
    assert "cannot be read" in ours("offsets", "import", "/nowhere/at/all", *at).complaints
    assert "line 1: x: is not a position" in ours("offsets", "import", "-", *at, text="x\n").complaints


# --- groups with offsets in both stores


def told(world: World, *line: str) -> list[dict[str, object]]:
    run = ours(*line, *world.at, "--format", "json")
    assert (run.code, run.complaints) == (0, "")
    rows: list[dict[str, object]] = json.loads(run.printed)["rows"]
    return rows


def test_both_stores_are_seen_and_what_live_members_use_counts(world: World) -> None:
    group = "in-both"
    world.put(group, GroupKind.KAFKA, orders_0=1)
    settings = {**QUICK, "zookeeper.connect": world.connect, "group.id": group, "auto_commit_enable": False}
    with ConsumerConnector(settings) as connector:
        connector.create_message_streams({"orders": 1})
        connector.commit({T0: 10, T1: 10})
        rows = told(world, "lag", group)
        assert [
            [row[name] for name in ("partition", "store", "committed", "lag", "used")] for row in rows
        ] == [
            [0, "kafka", 1, 9, False],
            [0, "zookeeper", 10, 0, True],
            [1, "zookeeper", 10, 0, True],
        ]
        assert [row["member"] is None for row in rows] == [True, False, False]
        described = told(world, "groups", "describe", group)
        assert [[row[name] for name in ("kind", "state", "offsets", "used")] for row in described] == [
            ["kafka", "Empty", 1, False],
            ["zookeeper", "Stable", 2, True],
        ]
        for store in ("kafka", "zookeeper", "both"):
            refused = ours(
                "reset", group, "orders", "--to", "latest", "--store", store, "--execute", *world.at
            )
            assert (refused.code, refused.printed) == (1, "")
            assert "still has members; stop them first" in refused.complaints
        with world.admin() as admin:
            assert admin.group_lag(group).total == 0
    assert {row["used"] for row in told(world, "lag", group)} == {None}  # nobody is there to use them


def test_a_reset_says_which_store_it_moved_and_moves_both_on_request(world: World) -> None:
    group = "reset-in-both"
    world.put(group, GroupKind.KAFKA, orders_0=1)
    world.put(group, GroupKind.ZOOKEEPER, orders_0=7)

    def moved(*line: str) -> list[list[object]]:
        rows = told(world, "reset", group, "orders:0", *line)
        return [[row[name] for name in ("store", "before", "after", "done")] for row in rows]

    assert moved("--to-offset", "3", "--execute") == [["kafka", 1, 3, True], ["zookeeper", 7, None, False]]
    assert moved("--shift-by", "1", "--store", "zookeeper", "--execute") == [
        ["zookeeper", 7, 8, True],
        ["kafka", 3, None, False],
    ]
    both = ("--to", "latest", "--store", "both")
    assert moved(*both) == [["kafka", 3, 10, False], ["zookeeper", 8, 10, False]]
    assert moved(*both, "--execute") == [["kafka", 3, 10, True], ["zookeeper", 8, 10, True]]
    assert world.stored(group, GroupKind.KAFKA) == world.stored(group, GroupKind.ZOOKEEPER)


# --- lag for Prometheus


def gauges(text: str) -> dict[tuple[str, ...], float]:
    """By metric, kind, group, topic and partition."""
    return {
        (
            sample.name.removeprefix("kafka_consumergroup_"),
            *(sample.labels.get(label, "") for label in ("kind", "consumergroup", "topic", "partition")),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_seconds")  # they differ from one look to the next
    }


def expected(world: World, groups: dict[str, GroupKind]) -> dict[tuple[str, ...], float]:
    """The same, of what Admin tells."""
    found: dict[tuple[str, ...], float] = {}
    with world.admin() as admin:
        for name, kind in groups.items():
            lag = admin.group_lag(name, kind=kind)
            found["members", kind.value, name, "", ""] = len(lag.group.members)
            for one in lag.partitions:
                place = (kind.value, name, one.topic_partition.topic, str(one.topic_partition.partition))
                if one.lag is not None and one.committed is not None:
                    found["lag", *place] = one.lag
                    found["current_offset", *place] = one.committed
    return found


def test_the_lag_of_both_kinds_is_a_gauge_each(world: World) -> None:
    world.put("gauged", GroupKind.KAFKA, orders_0=4, orders_1=10)
    world.put("gauged-in-zookeeper", GroupKind.ZOOKEEPER, orders_0=3)
    groups = {"gauged": GroupKind.KAFKA, "gauged-in-zookeeper": GroupKind.ZOOKEEPER}
    scraped = ours("lag", *groups, *world.at, "--format", "prometheus")
    assert (scraped.code, scraped.complaints) == (0, "")
    found = gauges(scraped.printed)
    assert found == expected(world, groups)
    assert 'kafka_consumergroup_lag_seconds{consumergroup="gauged"' in scraped.printed
    assert found["lag", "kafka", "gauged", "orders", "0"] == 6
    assert found["lag", "zookeeper", "gauged-in-zookeeper", "orders", "0"] == 7
    assert ("lag", "zookeeper", "gauged-in-zookeeper", "orders", "1") not in found  # nothing was committed
    world.put("gauged", GroupKind.ZOOKEEPER, orders_0=1)
    both = gauges(ours("lag", "gauged", *world.at, "--format", "prometheus").printed)
    assert both == expected(world, {"gauged": GroupKind.KAFKA}) | expected(
        world, {"gauged": GroupKind.ZOOKEEPER}
    )


def scraped(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return str(answer.read().decode())


def test_prometheus_asks_as_often_as_it_likes(world: World) -> None:
    world.put("scraped", GroupKind.KAFKA, orders_0=4)
    groups = {"scraped": GroupKind.KAFKA}
    command = [sys.executable, "-m", "ottla", "lag", "scraped", *world.at, "--prometheus", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as serving:
        try:
            assert serving.stdout is not None
            url = serving.stdout.readline().strip()
            assert gauges(scraped(url)) == expected(world, groups)
            world.put("scraped", GroupKind.KAFKA, orders_0=9, orders_1=0)
            assert gauges(scraped(url)) == expected(world, groups)
            with pytest.raises(urllib.error.HTTPError, match="404"):
                scraped(url.replace("/metrics", "/"))
        finally:
            serving.send_signal(signal.SIGINT)
        assert serving.wait(timeout=60) == 130


def test_where_to_listen_is_checked(world: World) -> None:
    at = ("-b", world.broker.bootstrap)
    assert "PORT or HOST:PORT is wanted" in ours("lag", *at, "--prometheus", "here").complaints
    taken = ours("lag", *at, "--prometheus", str(world.broker.port))
    assert (taken.code, "another program listens there" in taken.complaints) == (1, True)
    with pytest.raises(SystemExit):
        ours("lag", *at, "--prometheus", "0", "--watch")
    for seconds in ("-1", "nan"):
        with pytest.raises(SystemExit):
            ours("lag", *at, "--watch", seconds)


def test_a_share_group_is_moved_and_begins_there(world: World) -> None:
    group = "shared"
    at: dict[str, Any] = {"group_id": group, "bootstrap_servers": world.broker.bootstrap}
    line = ("reset", group, "orders", *world.at, "--format", "json")

    def moved(*more: str) -> list[list[object]]:
        rows = json.loads(ours(*line, *more).printed)["rows"]
        return [[row[name] for name in ("partition", "before", "after", "done", "error")] for row in rows]

    with ShareConsumer("orders", **at) as member:  # joins at the end of the logs
        while len(world.stored(group, GroupKind.KAFKA)) < 2:
            member.poll(0.05)
        refused = ours(*line, "--to", "earliest", "--execute")
        assert (refused.code, "still has members" in refused.printed) == (1, True)
    assert moved("--to", "earliest", "--execute") == [[0, 10, 0, True, None], [1, 10, 0, True, None]]
    assert moved("--shift-by", "4", "--execute") == [[0, 0, 4, True, None], [1, 0, 4, True, None]]
    assert [row["committed"] for row in told(world, "lag", group)] == [4, 4]
    with ShareConsumer("orders", **at) as member:
        offsets: list[int] = []
        for message in member.messages(PATIENCE_S):
            assert member.delivery_count(message) == 1
            offsets.append(message.offset)
            if len(offsets) == 12:
                break
    assert sorted(offsets) == sorted([*range(4, 10), *range(4, 10)])
