"""A query in the name of a classic group, whose offsets are in ZooKeeper."""

from __future__ import annotations

from pathlib import Path

from ottla import EmbeddedBroker
from ottla.spark.source_options import Mode, source_options
from ottla.spark.stream_planner import StreamPlanner
from ottla.zookeeper import paths
from ottla.zookeeper.kazoo_session import KazooSettings, KazooZooKeeperSession
from ottla.zookeeper.server import ZooKeeperServer
from tests.real_servers import FAST, require_zookeeper
from tests.spark.conftest import Filled


def test_offsets_come_from_zookeeper_and_go_there(
    broker: EmbeddedBroker, topic: str, fill: Filled, tmp_path: Path
) -> None:
    require_zookeeper()
    fill(topic, range(30))
    path = paths.offset("classic", topic, 1)
    with (
        ZooKeeperServer(tmp_path, settings=FAST) as server,
        KazooZooKeeperSession(KazooSettings(server.connect)) as session,
    ):
        session.create_with_parents(path, b"7")
        given = {
            "kafka.bootstrap.servers": broker.bootstrap,
            "subscribe": topic,
            "group.id": "classic",
            "zookeeper.connect": server.connect,
            "startingOffsets": "group",
        }
        planner = StreamPlanner(source_options(given, Mode.STREAM))
        try:
            start = planner.initial_offset()
            assert start == {topic: {"0": 0, "1": 7, "2": 0}}
            begin = planner.latest_offset(start, None, takes_all=True)
            assert begin == start, "the first batch is empty: it stores the start"
            end = planner.latest_offset(begin, None, takes_all=True)
            assert planner.latest_offset(end, None, takes_all=True) is end
        finally:
            planner.close()
        assert session.get(path).data == b"10"
