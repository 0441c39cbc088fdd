"""The command lines of the project's notes, as they stand there, with `ottla` before them.

Hosts and ports are those of a ZooKeeper and an embedded broker that registers in it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla import EmbeddedBroker, Producer
from ottla.zookeeper.server import ZooKeeperServer
from ottla.zookeeper.zookeeper_errors import ServerFailed
from tests.cli.kafka.conftest import ours
from tests.waiting import wait_for

READS_A_RECORD = " --max-messages 1"
"""A test cannot read for ever."""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    place: Path = tmp_path_factory.mktemp("seed")
    try:
        keeper = ZooKeeperServer(place / "zookeeper")
        keeper.start()
    except ServerFailed as error:
        pytest.skip(f"ZooKeeper cannot be run here: {error}")
    try:
        with EmbeddedBroker(properties={"zookeeper.connect": keeper.connect}) as broker:
            broker.create_topic("ExternalAdService", 1)
            broker.create_topic("mytest", 1)
            with Producer(bootstrap_servers=broker.bootstrap) as producer:
                producer.send("mytest", b"first", partition=0)
            described = shlex.split(f"kafka-topics.sh --describe --zookeeper {keeper.connect}")
            wait_for(lambda: ours(*described).printed.count("Leader: 0") == 2, "both topics are registered")
            yield {
                "zookeeper:2181": keeper.connect,
                "kafka:9092": broker.bootstrap,
                "ac03a8b2bbbf:9092": broker.bootstrap,
            }
    finally:
        keeper.stop()


@pytest.mark.parametrize(
    ("line", "text", "printed"),
    [
        (
            "kafka-topics.sh --describe --zookeeper zookeeper:2181 --topic ExternalAdService",
            "",
            "Topic:ExternalAdService\tPartitionCount:1\tReplicationFactor:1\tConfigs:\n"
            "\tTopic: ExternalAdService\tPartition: 0\tLeader: 0\tReplicas: 0\tIsr: 0\n",
        ),
        ("kafka-console-producer.sh --broker-list kafka:9092 --topic ExternalAdService", "an ad\n", ""),
        (
            "kafka-console-consumer.sh --bootstrap-server ac03a8b2bbbf:9092 --topic mytest --from-beginning"
            + READS_A_RECORD,
            "",
            "first\n",
        ),
        (
            "kafka-console-consumer.sh --bootstrap-server kafka:9092 --topic mytest --from-beginning"
            " --group test" + READS_A_RECORD,
            "",
            "first\n",
        ),
        (
            "kafka-consumer-groups.sh --bootstrap-server kafka:9092 --describe --group test",
            "",
            "\nGROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             "
            "CONSUMER-ID     HOST            CLIENT-ID\n"
            "test            mytest          0          1               1               0               "
            "-               -               -\n",
        ),
        (
            "kafka-run-class.sh kafka.tools.GetOffsetShell --broker-list ac03a8b2bbbf:9092 "
            "-topic mytest --time -1",
            "",
            "mytest:0:1\n",
        ),
        (
            "kafka-run-class.sh kafka.tools.GetOffsetShell --broker-list ac03a8b2bbbf:9092 "
            "-topic mytest --time -2",
            "",
            "mytest:0:0\n",
        ),
    ],
)
def test_a_line(hosts: dict[str, str], line: str, text: str, printed: str) -> None:
    for written, real in hosts.items():
        line = line.replace(written, real)
    found = ours(*shlex.split(line), text=text)
    assert (found.code, found.printed) == (0, printed)


def test_groups_are_listed(hosts: dict[str, str]) -> None:
    line = f"kafka-consumer-groups.sh --bootstrap-server {hosts['kafka:9092']} --list"
    assert "test" in ours(*shlex.split(line)).printed.splitlines()
