"""kafka-get-offsets beside GetOffsetShell of Kafka 0.9 and of Kafka 4, on the same clusters."""

from __future__ import annotations

import pytest

from tests.cli.kafka.conftest import Era, ours

NEW_CLASS = "org.apache.kafka.tools.GetOffsetShell"
OLD_CLASS = "kafka.tools.GetOffsetShell"
LINES = "".join(f"{number}\n" for number in range(20))


@pytest.fixture(scope="module")
def new_topic(new: Era) -> str:
    at = ("--bootstrap-server", new.kafka.bootstrap)
    new.tool(
        "org.apache.kafka.tools.TopicCommand", *at, "--create", "--topic", "offsets", "--partitions", "4"
    )
    producer = (
        "--topic",
        "offsets",
        "--producer-property",
        "partitioner.class=org.apache.kafka.clients.producer.RoundRobinPartitioner",
    )
    assert new.tool("org.apache.kafka.tools.ConsoleProducer", *at, *producer, text=LINES).code == 0
    return "offsets"


@pytest.mark.parametrize(
    "line",
    [
        "--topic offsets --time -1",
        "-topic offsets --time -2",
        "--topic offs.* --time latest --partitions 0,2,9",
        "--topic offsets --time max-timestamp",
        "--topic offsets --time -3",
        "--topic offsets --time 1000",
        "--topic-partitions offsets:1,offsets:3-,nosuch",
        "--topic-partitions :-2",
        "--topic nosuch",
        "--topic offsets --time soon",
        "--topic offsets --partitions x",
        "--topic offsets --topic-partitions offsets",
    ],
)
def test_as_kafka_4(new: Era, new_topic: str, line: str) -> None:
    arguments = ("--bootstrap-server", new.kafka.bootstrap, *line.split())
    assert ours("kafka-get-offsets", *arguments) == new.tool(NEW_CLASS, *arguments)


@pytest.fixture(scope="module")
def old_topic(shared_old: Era) -> str:
    kafka = shared_old.kafka
    create = ("--create", "--topic", "offsets", "--partitions", "3", "--replication-factor", "1")
    shared_old.tool("kafka.admin.TopicCommand", "--zookeeper", kafka.zookeeper, *create)
    send = ("--broker-list", kafka.bootstrap, "--topic", "offsets", "--request-required-acks", "1")
    assert shared_old.tool("kafka.tools.ConsoleProducer", *send, text=LINES).code == 0
    return "offsets"


@pytest.mark.parametrize(
    "line",
    [
        "-topic offsets --time -1",
        "-topic offsets --time -2",
        "--topic offsets --time -1 --offsets 5 --partitions 1,0",
        "--topic offsets --time 1000",
        "--topic offsets --time -2 --partitions 2,7",
    ],
)
def test_as_kafka_0_9(old: Era, old_topic: str, line: str) -> None:
    arguments = ("--broker-list", old.kafka.bootstrap, *line.split())
    theirs = old.tool(OLD_CLASS, *arguments)
    found = ours("kafka-run-class.sh", OLD_CLASS, *arguments)
    # Without --partitions Kafka 0.9 prints them as they lie in a hash map.
    assert (found.code, found.complaints) == (theirs.code, theirs.complaints)
    assert sorted(found.printed.splitlines()) == sorted(theirs.printed.splitlines())


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("--topic orders --time -1 --nosuch", "Error occurred: nosuch is not a recognized option"),
        ("--topic orders --broker-list host:1", 'Error occurred: Missing required argument "[time]"'),
        (
            "--bootstrap-server host",
            "Error occurred: Please provide valid host:port like host1:9091,host2:9092",
        ),
    ],
)
def test_a_wrong_command_line(line: str, told: str) -> None:
    found = ours("kafka-get-offsets", *line.split())
    assert (found.code, found.printed, found.complaints.splitlines()[0]) == (1, "", told)


def test_a_class_that_there_is_not() -> None:
    found = ours("kafka-run-class", "kafka.tools.GetOffsetShel")
    assert found.code == 1
    assert found.complaints.endswith("kafka.tools.GetOffsetShel, but there is GetOffsetShell\n")
