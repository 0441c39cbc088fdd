"""A group in use moves from ZooKeeper to a coordinator, to the consumer protocol, and all the way back.

Members in ZooKeeper and members of a coordinator do not see each other. So the group stands still while its
offsets are moved (docs/groups.md): records wait, none is lost, none is read twice. Between the protocols of
a coordinator the members change one by one, and nothing stands still.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ottla import EmbeddedBroker
from ottla.consumer.classic import ConsumerConnector
from ottla.zookeeper.server import ZooKeeperServer
from tests.cli.kafka.conftest import ours
from tests.consumer.classic.conftest import QUICK, registered_at
from tests.consumer.coordinated.foreign_members import Confluent, ForeignMember, Ours, Rows
from tests.consumer.coordinated.member_process import CONSUMER
from tests.consumer.coordinated.mixed_group import PARTITIONS, MixedGroup

TOPIC = "moved"
GROUP = f"group-of-{TOPIC}"
KINDS: dict[str, Callable[..., ForeignMember]] = {"ours": Ours, "librdkafka": Confluent}


class InZooKeeper:
    """ConsumerConnector; it commits when it gives partitions up, and at the end."""

    def __init__(self, bootstrap: str, group: str, topic: str, strategy: str, **_: Any) -> None:  # noqa: ARG002
        self._connector = ConsumerConnector(
            {**QUICK, "zookeeper.connect": strategy, "group.id": group, "auto_commit_interval_ms": 600_000}
        )
        (self._stream,) = self._connector.create_message_streams({topic: 1})[topic]

    def poll(self) -> Rows:
        chunk = next(self._stream.chunks(0.05), None)
        if chunk is None:
            return []
        return [(chunk.topic_partition.partition, one) for one in chunk.batch["offset"].to_pylist()]

    def held(self) -> set[int]:
        return {place.partition for place in self._connector.assignment}

    def close(self) -> None:
        self._connector.close()


def test_a_group_in_use_moves_to_every_kind_and_back(zookeeper_server: ZooKeeperServer) -> None:
    connect = f"{zookeeper_server.connect}/moved"
    with EmbeddedBroker(properties=registered_at(connect)) as broker:
        broker.create_topic(TOPIC, PARTITIONS)
        group = MixedGroup(broker.bootstrap, TOPIC)
        try:
            _in_zookeeper(group, connect)
            _stand_still(group, broker, connect, "zookeeper", "kafka")
            for name, make in KINDS.items():
                group.join(f"{name}: range", make, "range")
            group.settle()
            for before, after in (("range", CONSUMER), (CONSUMER, "range")):
                for name, make in KINDS.items():
                    group.produce()
                    group.leave([f"{name}: {before}"])
                    group.join(f"{name}: {after}", make, after)
                    group.settle()
            _stand_still(group, broker, connect, "kafka", "zookeeper")
            _in_zookeeper(group, connect)
            group.check_each_record_was_read_once()
        finally:
            group.close()


def _in_zookeeper(group: MixedGroup, connect: str) -> None:
    for name in ("one", "two"):
        group.join(f"{name}: zookeeper", InZooKeeper, connect)
    group.produce()
    group.settle()
    group.produce()


def _stand_still(group: MixedGroup, broker: EmbeddedBroker, connect: str, source: str, target: str) -> None:
    """All leave, the offsets move, and records are written meanwhile."""
    group.close()
    group.produce()
    line = ("offsets", "migrate", "--group", GROUP, "--from", source, "--to", target, "--execute")
    moved = ours(*line, "-b", broker.bootstrap, "--zookeeper", connect, "--format", "json")
    assert moved.code == 0, moved
    rows = json.loads(moved.printed)["rows"]
    assert len(rows) == PARTITIONS
    assert all(row["done"] and row["error"] is None for row in rows), rows
