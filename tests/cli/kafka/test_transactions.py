"""kafka-transactions beside Kafka's own, and `ottla transactions`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from ottla import Admin, ConfigError, KafkaError, Producer, ProducerFenced, TopicAndPartition, replay
from ottla.admin import PartitionProducer
from ottla.broker.coordination.led_partitions import partition_for
from ottla.cli.kafka.transaction_records import FORMATTER
from tests.cli.kafka.conftest import Era, created, ours

TOOL = "org.apache.kafka.tools.TransactionsCommand"
TOPIC, ID = "in-transactions", "tool-1"
PLACE = TopicAndPartition(TOPIC, 0)


@pytest.fixture(scope="module")
def producer(new: Era) -> Iterator[Producer]:
    """With a committed transaction, and an open one that begins at offset 2."""
    created(new, TOPIC)
    with Producer(bootstrap_servers=new.kafka.bootstrap, transactional_id=ID) as producer:
        with producer.transaction():
            producer.send(TOPIC, "committed")
        producer.begin()
        producer.send(TOPIC, "open").result(60)
        yield producer


def without_duration(text: str) -> str:
    """The time since the transaction began differs, and with it the width of its column."""
    return re.sub(r"\t\d+ *(\tin-trans)", r"\tsome\1", text)


@pytest.mark.usefixtures("producer")
@pytest.mark.parametrize(
    "line",
    [
        "list",
        "list --duration-filter 3600000",
        "list --transactional-id-pattern tool-.*",
        "list --transactional-id-pattern other",
        f"describe --transactional-id {ID}",
        "describe --transactional-id nobody",
        f"describe-producers --topic {TOPIC} --partition 0",
        f"describe-producers --topic {TOPIC} --partition 0 --broker-id 1",
        f"find-hanging --topic {TOPIC}",
        f"find-hanging --topic {TOPIC} --max-transaction-timeout 0",
        "find-hanging --broker-id 1 --max-transaction-timeout 0",
        "find-hanging",
        "find-hanging --broker-id 1 --partition 0",
        f"abort --topic {TOPIC} --partition 0",
        f"abort --topic {TOPIC} --partition 0 --start-offset 77",
        f"abort --topic {TOPIC} --partition 0 --producer-id 7",
        f"abort --topic {TOPIC} --partition 0 --producer-id 7 --producer-epoch 0",
    ],
)
def test_the_tool_prints_what_kafkas_prints(new: Era, line: str) -> None:
    at = ("--bootstrap-server", new.kafka.bootstrap)
    theirs, found = new.tool(TOOL, *at, *line.split()), ours("kafka-transactions", *at, *line.split())
    assert (found.code, without_duration(found.printed)) == (theirs.code, without_duration(theirs.printed))
    assert found.complaints == theirs.complaints


@pytest.mark.usefixtures("producer")
def test_our_command_and_admin_show_the_same(new: Era) -> None:
    at = ("--bootstrap-server", new.kafka.bootstrap, "--format", "json")
    with Admin(bootstrap_servers=new.kafka.bootstrap) as admin:
        (listed,) = admin.list_transactions(states=["Ongoing"])
        described = admin.describe_transactions(ID)
        assert (listed.transactional_id, listed.state, described.state) == (ID, "Ongoing", "Ongoing")
        assert described.partitions == (PLACE,)
        (known,) = admin.describe_producers(PLACE)
        assert (known.start_offset, known.producer_id) == (2, listed.producer_id)
        with pytest.raises(ConfigError, match="Nonsense"):
            admin.list_transactions(states=["Nonsense"])
        with pytest.raises(KafkaError, match="TRANSACTIONAL_ID_NOT_FOUND"):
            admin.describe_transactions("nobody")
        assert admin.find_hanging_transactions(TOPIC, longer_than=0) == ()
    (row,) = json.loads(ours("transactions", "list", ID, *at).printed)["rows"]
    assert row == {
        "transactional_id": ID,
        "state": "Ongoing",
        "producer_id": known.producer_id,
        "coordinator": 1,
    }
    (row,) = json.loads(ours("transactions", "describe", ID, *at).printed)["rows"]
    assert (row["topic"], row["partition"], row["epoch"]) == (TOPIC, 0, known.producer_epoch)
    assert json.loads(ours("transactions", "find-hanging", TOPIC, *at).printed)["rows"] == []


def test_an_open_transaction_can_be_aborted_from_outside(new: Era, producer: Producer) -> None:
    at = ("--bootstrap-server", new.kafka.bootstrap)
    wanted = ("transactions", "abort", TOPIC, "--partition", "0", *at)
    assert ours(*wanted, "--start-offset", "1", "--dry-run").code == 1
    assert ours(*wanted, "--start-offset", "2", "--dry-run").code == 0
    assert ours(*wanted, "--start-offset", "2").code == 0
    table = replay(TOPIC, bootstrap_servers=new.kafka.bootstrap, isolation_level="read_committed").to_table()
    assert table["value"].to_pylist() == [b"committed"]
    with Admin(bootstrap_servers=new.kafka.bootstrap) as admin:
        (known,) = admin.describe_producers(PLACE)
        assert known.start_offset is None
        with pytest.raises(ConfigError, match="no open transaction begins at offset 2"):
            admin.abort_transaction(PLACE, 2)
        with pytest.raises(KafkaError):
            admin.abort_transaction(PLACE, PartitionProducer(known.producer_id, 0, 0, -1, -1))
    producer.abort()


def test_transactions_are_terminated_as_by_kafkas_tool(new: Era) -> None:
    at = ("--bootstrap-server", new.kafka.bootstrap)
    created(new, "terminated")
    states: list[tuple[int, str, int, int]] = []
    with Admin(bootstrap_servers=new.kafka.bootstrap) as admin:
        for terminate in (
            lambda name: new.tool(TOOL, *at, "forceTerminateTransaction", "--transactionalId", name),
            lambda name: ours(
                "kafka-transactions", *at, "forceTerminateTransaction", "--transactionalId", name
            ),
            lambda name: ours("transactions", "terminate", name, *at),
        ):
            name = f"stuck-{len(states)}"
            with Producer(bootstrap_servers=new.kafka.bootstrap, transactional_id=name) as producer:
                producer.begin()
                producer.send("terminated", name).result(60)
                done = terminate(name)
                with pytest.raises(ProducerFenced):
                    producer.commit()
                described = admin.describe_transactions(name)
                states.append((done.code, described.state, described.timeout_ms, described.producer_epoch))
    assert states == [(0, "Empty", 30_000, 2)] * 3
    table = replay("terminated", bootstrap_servers=new.kafka.bootstrap, isolation_level="read_committed")
    assert table.to_table().num_rows == 0


@pytest.mark.usefixtures("producer")
def test_the_log_of_transactions_is_printed_as_by_kafka(new: Era) -> None:
    directory = new.kafka.data_dir / "data" / f"__transaction_state-{partition_for(ID)}"
    files = ("--files", str(directory / "00000000000000000000.log"))
    theirs = new.tool("org.apache.kafka.tools.DumpLogSegments", "--transaction-log-decoder", *files)
    assert f'"transactionalId":"{ID}"' in theirs.printed
    assert ours("kafka-dump-log", "--transaction-log-decoder", *files).printed == theirs.printed
    line = f"--bootstrap-server {new.kafka.bootstrap} --topic __transaction_state --from-beginning"
    line += f" --timeout-ms 3000 --formatter {FORMATTER}"
    found = ours("kafka-console-consumer", *line.split()).printed
    kafkas = new.tool("org.apache.kafka.tools.consumer.ConsoleConsumer", *line.split()).printed
    assert f'"transactionalId":"{ID}"' in kafkas
    assert sorted(found.split('{"key"')) == sorted(kafkas.split('{"key"'))
