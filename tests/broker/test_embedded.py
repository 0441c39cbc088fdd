"""EmbeddedBroker as its users hold it: life, ports, data, errors, and real clients through all of that."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from ottla import ConfigError, EmbeddedBroker, KafkaError, StorageError
from ottla.model.error_codes import Code
from tests.broker.real_clients import (
    Sender,
    group_member,
    python_member,
    read,
    read_with,
    read_with_python,
    send,
)
from tests.waiting import wait_for

CLEAN_MARK = ".kafka_cleanshutdown"
VALUES = [b"%d" % number for number in range(10)]


def broker_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("ottla-broker")]


# --- life

FORK = """
import multiprocessing, sys
from ottla import Admin, ConfigError, ConsumerClosed, EmbeddedBroker, GroupConsumer, Producer

def work(broker, member):
    for use in (lambda: broker.create_topic("late"), member.poll, member.commit):
        try:
            use()
        except (ConfigError, ConsumerClosed) as error:
            print(error, flush=True)
    member.close()
    broker.close()
    sys.exit(7)

with EmbeddedBroker() as broker:
    at = {"bootstrap.servers": broker.bootstrap}
    with Producer(at) as producer:
        producer.send("orders", "tea")
    with GroupConsumer("orders", at, group_id="kitchen", auto_offset_reset="earliest") as member:
        message = next(member.messages(timeout=60))
        child = multiprocessing.get_context("fork").Process(target=work, args=(broker, member))
        child.start()
        child.join(60)
        member.commit(message)
        with Admin(at) as admin:
            print(child.exitcode, broker.data_dir.exists(), len(admin.describe_groups("kitchen").members))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_leaves_broker_and_member_to_its_parent() -> None:
    run = subprocess.run(
        [sys.executable, "-c", FORK], capture_output=True, text=True, check=False, timeout=120
    )
    assert run.returncode == 0, run.stderr
    here, *refused, parent = run.stdout.splitlines()
    assert "the process that forked this one" in here
    assert (
        refused
        == ["group 'kitchen': this consumer belongs to the process that forked this one; make another one"]
        * 2
    )
    assert parent == "7 True 1"


def test_a_context_manager_starts_and_closes_it() -> None:
    with EmbeddedBroker() as broker:
        assert broker.is_running
        assert broker.bootstrap == f"127.0.0.1:{broker.port}"
        assert send(broker.bootstrap, "events", VALUES) == list(range(10))
        assert read(broker.bootstrap, "events", 10) == VALUES
    assert not broker.is_running
    assert broker_threads() == []


def test_a_started_one_can_be_used_in_a_with_statement() -> None:
    with EmbeddedBroker().start() as broker:
        assert broker.is_running
    assert not broker.is_running


def test_stop_and_start_keep_port_and_data() -> None:
    broker = EmbeddedBroker().start()
    bootstrap = broker.bootstrap
    send(bootstrap, "events", VALUES)
    broker.stop()
    assert (broker.data_dir / CLEAN_MARK).exists()
    with broker:
        assert broker.bootstrap == bootstrap
        assert not (broker.data_dir / CLEAN_MARK).exists()
        assert send(bootstrap, "events", [b"later"]) == [10]
        assert read(bootstrap, "events", 11) == [*VALUES, b"later"]


def test_several_brokers_keep_their_ports_too() -> None:
    with EmbeddedBroker(brokers=3) as broker:
        bootstrap = broker.bootstrap
        assert len(set(bootstrap.split(","))) == 3
        broker.stop()
        broker.start()
        assert broker.bootstrap == bootstrap


def test_a_data_directory_outlives_its_broker(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path / "new" / "data") as first:
        first.create_topic("events", 2, config={"retention.ms": "-1"})
        send(first.bootstrap, "events", VALUES, partition=1)
    with EmbeddedBroker(first.data_dir) as second:
        assert read(second.bootstrap, "events", 10, partition=1) == VALUES
        with pytest.raises(KafkaError, match="TOPIC_ALREADY_EXISTS"):
            second.create_topic("events")


def test_a_temporary_directory_goes_with_its_broker() -> None:
    with EmbeddedBroker() as broker:
        data_dir = broker.data_dir
        broker.create_topic("events")
        assert (data_dir / "events-0").is_dir()
    assert not data_dir.exists()
    with pytest.raises(ConfigError, match="its temporary data is gone"):
        broker.start()


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary directories are made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_stopped_broker_that_is_dropped_leaves_nothing(scratch: Path) -> None:
    broker = EmbeddedBroker().start()
    broker.stop()
    assert len(list(scratch.iterdir())) == 1
    del broker
    gc.collect()
    assert list(scratch.iterdir()) == []


def test_a_broker_that_is_dropped_while_it_runs_warns_and_stops(scratch: Path) -> None:
    kept = [EmbeddedBroker().start()]
    with pytest.warns(ResourceWarning, match=f"EmbeddedBroker at {kept[0].bootstrap}.* was not closed"):
        kept.clear()
    gc.collect()
    wait_for(lambda: not broker_threads() and not list(scratch.iterdir()))


def test_its_repr_says_where_it_listens(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path, brokers=2) as broker:
        assert repr(broker) == f"<EmbeddedBroker of 2 brokers at {broker.bootstrap}, data in {tmp_path}>"
        broker.stop()
        assert repr(broker) == f"<EmbeddedBroker of 2 brokers not running, data in {tmp_path}>"


@pytest.mark.parametrize(
    "settings",
    [
        {"properties": {"num.partitions": 3, "auto.create.topics.enable": True}},
        {"properties": {"num.partitions": "3", "auto_create_topics_enable": "true"}},
        {"num_partitions": 3, "auto_create_topics_enable": True},
    ],
)
def test_settings_are_a_mapping_or_keywords_texts_or_values(settings: dict[str, Any]) -> None:
    with EmbeddedBroker(**settings) as broker:
        config = broker._running().config
        assert (config.num_partitions, config.auto_create_topics) == (3, True)


def test_a_setting_under_two_names_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"num_partitions and num\.partitions are the same setting"):
        EmbeddedBroker(properties={"num.partitions": 3}, num_partitions=4)


def test_a_broker_that_cannot_start_leaves_nothing(scratch: Path) -> None:
    with EmbeddedBroker() as other:
        taken = f"127.0.0.1:{other.port}"
        second = EmbeddedBroker(port=other.port)
        with pytest.raises(ConfigError, match=f"broker 0 cannot listen on {taken}: .*in use"), second:
            pass
        assert list(scratch.iterdir()) == [other.data_dir]
    assert broker_threads() == []


def test_a_broker_whose_port_was_taken_can_be_started_later() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        broker = EmbeddedBroker(port=taken.getsockname()[1])
        with pytest.raises(ConfigError, match="cannot listen"):
            broker.start()
    with broker:
        assert send(broker.bootstrap, "events", [b"v"]) == [0]


def test_start_twice_is_refused_and_stop_twice_is_not() -> None:
    with EmbeddedBroker() as broker:
        with pytest.raises(ConfigError, match="running already"):
            broker.start()
        broker.stop()
        broker.stop()
        broker.close()
        broker.close()


@pytest.mark.parametrize(
    "use",
    [
        lambda broker: broker.bootstrap,
        lambda broker: broker.port,
        lambda broker: broker.create_topic("events"),
        lambda broker: broker.delete_topic("events"),
        lambda broker: broker.stop_broker(0),
        lambda broker: broker.start_broker(0),
        lambda broker: broker.move_leader("events", 0, 0),
        lambda broker: broker.fail("Produce", Code.NOT_LEADER_OR_FOLLOWER),
        lambda broker: broker.clear_faults(),
        lambda broker: broker.heal(),
    ],
)
def test_what_does_not_run_says_so(use: Callable[[EmbeddedBroker], object], tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path)
    with pytest.raises(ConfigError, match="not running: start"):
        use(broker)
    broker.start()
    broker.stop()
    with pytest.raises(ConfigError, match="not running: start"):
        use(broker)


# --- beside others


def test_two_brokers_in_one_process() -> None:
    with EmbeddedBroker() as one, EmbeddedBroker() as other:
        assert one.port != other.port
        send(one.bootstrap, "events", [b"one"])
        send(other.bootstrap, "events", [b"other"])
        assert read(one.bootstrap, "events", 1) == [b"one"]
        assert read(other.bootstrap, "events", 1) == [b"other"]


def test_two_brokers_never_share_a_data_directory(tmp_path: Path) -> None:
    second = EmbeddedBroker(tmp_path)
    with EmbeddedBroker(tmp_path) as first:
        with pytest.raises(StorageError, match="in use by another broker"):
            second.start()
        assert send(first.bootstrap, "events", [b"v"]) == [0]
    with second:
        assert read(second.bootstrap, "events", 1) == [b"v"]


def test_inside_a_running_event_loop() -> None:
    async def main() -> bytes:
        with EmbeddedBroker() as broker:
            producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap)
            await producer.start()
            await producer.send_and_wait("events", b"from asyncio")
            await producer.stop()
            consumer = AIOKafkaConsumer(
                "events", bootstrap_servers=broker.bootstrap, group_id="g", auto_offset_reset="earliest"
            )
            await consumer.start()
            message = await consumer.getone()
            await consumer.stop()
            return message.value

    assert asyncio.run(asyncio.wait_for(main(), 60)) == b"from asyncio"


def test_every_thread_may_use_it() -> None:
    with EmbeddedBroker() as broker:
        threads = [
            threading.Thread(target=broker.create_topic, args=(f"topic-{number}",)) for number in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        made = {path.name for path in broker.data_dir.iterdir() if path.is_dir()}
        assert made == {f"topic-{number}-0" for number in range(8)}


SMOKE = """
import sys
sys.modules["uvloop"] = None  # as if it were not installed
sys.path.insert(0, "tests")
from tests.broker.real_clients import read, send
from ottla import EmbeddedBroker
with EmbeddedBroker() as broker:
    values = [b"%d" % number for number in range(1000)]
    send(broker.bootstrap, "events", values, enable_idempotence=True)
    assert read(broker.bootstrap, "events", 1000) == values
    broker.stop()
    broker.start()
    assert read(broker.bootstrap, "events", 1000) == values
    print(type(broker._thread()._loop).__module__)
"""


def test_without_uvloop_asyncio_does() -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", SMOKE],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        timeout=120,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("asyncio.")


# --- clients that are there when it goes


def test_stop_does_not_wait_for_clients() -> None:
    """A consumer that polls, a producer, a member that waits for others, and one who never says a word."""
    with EmbeddedBroker(properties={"group.initial.rebalance.delay.ms": "60000"}) as broker:
        sender = Sender(broker.bootstrap)
        sender.send("events", VALUES)
        sender.flush()
        member = group_member(broker.bootstrap, "g", ["events"])
        member.poll(0.5)
        with socket.create_connection(("127.0.0.1", broker.port)) as silent:
            broker.stop()
            silent.settimeout(30)
            assert silent.recv(1) == b""
        assert broker_threads() == []
        member.close()


def test_a_producer_goes_on_after_a_restart() -> None:
    with EmbeddedBroker() as broker:
        bootstrap = broker.bootstrap
        sender = Sender(
            bootstrap, enable_idempotence=True, reconnect_backoff_ms=20, reconnect_backoff_max_ms=200
        )
        sender.send("events", VALUES)
        sender.flush()
        broker.stop()
        sender.send("events", VALUES)
        broker.start()
        sender.flush()
        assert not sender.failed
        assert read(bootstrap, "events", 20) == VALUES * 2


def test_a_group_of_librdkafka_goes_on_from_its_commits() -> None:
    with EmbeddedBroker() as broker:
        send(broker.bootstrap, "events", VALUES)
        member = group_member(broker.bootstrap, "g", ["events"])
        assert read_with(member, 10) == VALUES
        member.commit(asynchronous=False)
        broker.stop()
        broker.start()
        send(broker.bootstrap, "events", [b"after"])
        assert read_with(member, 1) == [b"after"]
        member.commit(asynchronous=False)
        member.close()
        send(broker.bootstrap, "events", [b"last"])
        successor = group_member(broker.bootstrap, "g", ["events"])
        assert read_with(successor, 1) == [b"last"]
        successor.close()


def test_a_group_of_kafka_python_goes_on_from_its_commits() -> None:
    with EmbeddedBroker() as broker:
        send(broker.bootstrap, "events", VALUES)
        with python_member(broker.bootstrap, "g", ["events"]) as member:
            assert read_with_python(member, 10) == VALUES
            member.commit()
            broker.stop()
            broker.start()
            send(broker.bootstrap, "events", [b"after"])
            assert read_with_python(member, 1) == [b"after"]
            member.commit()
        send(broker.bootstrap, "events", [b"last"])
        with python_member(broker.bootstrap, "g", ["events"]) as successor:
            assert read_with_python(successor, 1) == [b"last"]


# --- topics


@pytest.fixture
def one_broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        broker.create_topic("events")
        yield broker


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"name": "events"}, Code.TOPIC_ALREADY_EXISTS),
        ({"name": "a b"}, Code.INVALID_TOPIC_EXCEPTION),
        ({"name": ""}, Code.INVALID_TOPIC_EXCEPTION),
        ({"name": ".."}, Code.INVALID_TOPIC_EXCEPTION),
        ({"name": "x" * 250}, Code.INVALID_TOPIC_EXCEPTION),
        ({"name": "new", "partitions": 0}, Code.INVALID_PARTITIONS),
        ({"name": "new", "partitions": 1_000_000}, Code.INVALID_PARTITIONS),
        ({"name": "new", "replication_factor": 2}, Code.INVALID_REPLICATION_FACTOR),
        ({"name": "new", "config": {"retention": "1"}}, Code.INVALID_CONFIG),
        ({"name": "new", "config": {"retention.ms": "soon"}}, Code.INVALID_CONFIG),
    ],
)
def test_topics_that_cannot_be_made(
    one_broker: EmbeddedBroker, arguments: dict[str, Any], error: Code
) -> None:
    with pytest.raises(KafkaError) as caught:
        one_broker.create_topic(**arguments)
    assert caught.value.code == error
    assert not list(one_broker.data_dir.glob("new-*"))


def test_a_deleted_topic_is_gone_and_can_be_made_anew(one_broker: EmbeddedBroker) -> None:
    one_broker.create_topic("passing", 2)
    send(one_broker.bootstrap, "passing", VALUES)
    one_broker.delete_topic("passing")
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        one_broker.delete_topic("passing")
    one_broker.create_topic("passing")
    assert send(one_broker.bootstrap, "passing", [b"new"]) == [0]


# --- settings


@pytest.mark.parametrize(
    ("properties", "complaint"),
    [
        ({"num.partition": "3"}, "num.partition is not a property of a broker.*num.partitions"),
        ({"num.partitions": "many"}, "num.partitions=many"),
        ({"num.partitions": "0"}, "num.partitions=0"),
        ({"listeners": "SSL://127.0.0.1:0"}, "listener.name.ssl.ssl.keystore.location.*needs a key store"),
        ({"listeners": "127.0.0.1:0"}, "listeners=127.0.0.1:0.*PROTOCOL://host:port"),
        ({"listeners": "PLAINTEXT://0.0.0.0:0"}, "advertised.listeners.*0.0.0.0"),
        ({"ottla.flush": "never"}, "ottla.flush=never"),
    ],
)
def test_wrong_properties_are_named(properties: dict[str, str], complaint: str, scratch: Path) -> None:
    with pytest.raises(ConfigError, match=complaint):
        EmbeddedBroker(properties=properties)
    gc.collect()
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("brokers", [0, -1])
def test_there_is_at_least_one_broker(brokers: int) -> None:
    with pytest.raises(ConfigError, match=f"brokers={brokers}: at least one"):
        EmbeddedBroker(brokers=brokers).start()


def test_ports_in_a_row_must_exist() -> None:
    with pytest.raises(ConfigError, match="3 brokers from port 65534 on: 65535 is the last port"):
        EmbeddedBroker(port=65534, brokers=3).start()


def test_a_file_is_no_data_directory(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(StorageError, match=re.escape(f"{path}: cannot use it as data directory")):
        EmbeddedBroker(path).start()


# --- where it listens


def test_it_listens_on_the_loopback_address_only(caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedBroker() as broker, pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", broker.port), 5)
    assert caplog.records == []


def test_another_address_must_be_asked_for_twice(caplog: pytest.LogCaptureFixture) -> None:
    """192.0.2.1 is for documentation: no machine has it, so that nothing is opened here."""
    there = {"listeners": "PLAINTEXT://192.0.2.1:0"}
    with pytest.raises(
        ConfigError, match=r"listeners=PLAINTEXT://192\.0\.2\.1:0: any client that reaches .* SASL_SSL"
    ):
        EmbeddedBroker(properties=there).start()
    assert caplog.records == []
    broker = EmbeddedBroker(properties={**there, "ottla.allow.open.listeners": True})
    with pytest.raises(ConfigError, match=r"broker 0 cannot listen on 192\.0\.2\.1:0"):
        broker.start()
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings == ["listening on 192.0.2.1 without a login: any client may read and write"]
