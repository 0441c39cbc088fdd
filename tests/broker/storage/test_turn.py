"""When a write is acknowledged: with the others of its turn, and after the disk where that is asked for."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.broker.metrics import collected
from ottla.broker.storage.turn import Failures, WriteTurn
from ottla.log.file_system import FileSystem
from ottla.model.error_codes import Code
from ottla.wire.api.api_versions import ApiVersionsRequest
from ottla.wire.api.produce import ProduceResponse
from tests.broker.faults.batches import batch
from tests.broker.traffic import fetch, one, produce, produce_request, read_all
from tests.broker.wire_client import Client

ALWAYS = {"ottla.flush": "always"}
WAIT_S = 120.0


class Disk:
    """Stands between the log and fsync: holds it back, counts it, or fails it, for files of records."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.synced: list[str] = []  # directories of partitions
        self.fails = False
        self._is_free = threading.Event()
        self._is_free.set()
        self._is_entered = threading.Event()
        monkeypatch.setattr(FileSystem, "sync", lambda _, fd: self._sync(fd))

    def _sync(self, fd: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        if path.suffix != ".log":
            return
        self._is_entered.set()
        assert self._is_free.wait(WAIT_S)
        if self.fails:
            raise OSError(5, "Input/output error")
        self.synced.append(path.parent.name)

    def hold(self) -> None:
        self._is_free.clear()
        self._is_entered.clear()

    def release(self) -> None:
        self._is_free.set()

    def wait_until_entered(self) -> None:
        assert self._is_entered.wait(WAIT_S)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("which file is synced is read from /proc")
    one_disk = Disk(monkeypatch)
    yield one_disk
    one_disk.release()


def has_answer(client: Client) -> bool:
    client._socket.setblocking(False)
    try:
        return bool(client._socket.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False
    finally:
        client._socket.settimeout(WAIT_S)


def offset_in(response: object) -> tuple[int, int]:
    assert isinstance(response, ProduceResponse)
    (answer,) = response.responses[0].partition_responses
    return answer.error_code, answer.base_offset


@pytest.mark.parametrize("acks", [1, -1])
def test_always_acknowledges_after_the_disk(disk: Disk, acks: int) -> None:
    with EmbeddedBroker(properties=ALWAYS) as broker, Client.of(broker.bootstrap) as client:
        broker.create_topic("t")
        disk.hold()
        client.send(produce_request(client, {("t", 0): one()}, 9, acks), 9)
        disk.wait_until_entered()
        with Client.of(broker.bootstrap) as other:
            other.call(ApiVersionsRequest(), 0)  # the loop is free meanwhile
        assert not has_answer(client)
        disk.release()
        assert offset_in(client.receive()) == (Code.NONE, 0)
        assert disk.synced == ["t-0"]


def test_what_is_written_meanwhile_is_one_more_group(disk: Disk) -> None:
    with EmbeddedBroker(properties=ALWAYS) as broker, ExitStack() as stack:
        clients = [stack.enter_context(Client.of(broker.bootstrap)) for _ in range(10)]
        broker.create_topic("t", 2)
        disk.hold()
        clients[0].send(produce_request(clients[0], {("t", 0): one()}, 9), 9)
        disk.wait_until_entered()
        for client in clients[1:]:
            client.send(produce_request(client, {("t", 0): one(), ("t", 1): one()}, 9), 9)
        cluster = broker._running().cluster
        log = cluster.store.partition("t", 0).log
        assert log is not None
        while broker._call(lambda: log.high_watermark) < 10:
            pass  # each look is a turn of the loop
        assert not any(has_answer(client) for client in clients)
        disk.release()
        for client in clients:
            client.receive()
        assert sorted(disk.synced) == ["t-0", "t-0", "t-1"]


def test_a_copy_of_what_is_on_its_way_to_the_disk_is_acknowledged_with_it(disk: Disk) -> None:
    records = batch((b"k", b"v"), producer_id=7, producer_epoch=0, sequence=0)
    with EmbeddedBroker(properties=ALWAYS) as broker, Client.of(broker.bootstrap) as client:
        broker.create_topic("t")
        disk.hold()
        client.send(produce_request(client, {("t", 0): bytes(records)}, 9), 9)
        disk.wait_until_entered()
        with Client.of(broker.bootstrap) as other:
            other.send(produce_request(other, {("t", 0): bytes(records)}, 9), 9)
            with Client.of(broker.bootstrap) as third:
                third.call(ApiVersionsRequest(), 0)
            assert not has_answer(client)
            assert not has_answer(other)
            disk.release()
            assert offset_in(client.receive()) == offset_in(other.receive()) == (Code.NONE, 0)
            assert len(read_all(client, "t")) == 1


def test_a_topic_may_ask_for_the_disk_by_itself(disk: Disk) -> None:
    with EmbeddedBroker() as broker, Client.of(broker.bootstrap) as client:
        broker.create_topic("safe", config={"flush.messages": "1"})
        broker.create_topic("quick")
        assert produce(client, "quick", one()).error_code == Code.NONE
        assert disk.synced == []
        assert produce(client, "safe", one()).error_code == Code.NONE
        assert disk.synced == ["safe-0"]


def test_a_failed_fsync_is_an_error_and_the_partition_takes_no_more(disk: Disk, tmp_path: Path) -> None:
    """The system may have dropped the pages: a second attempt would succeed and mean nothing."""
    broker = EmbeddedBroker(tmp_path, properties=ALWAYS).start()
    with Client.of(broker.bootstrap) as client:
        broker.create_topic("t", 2)
        assert produce(client, "t", one(b"kept")).base_offset == 0
        disk.fails = True
        assert produce(client, "t", one(b"lost")).error_code == Code.KAFKA_STORAGE_ERROR
        disk.fails = False
        assert produce(client, "t", one()).error_code == Code.KAFKA_STORAGE_ERROR, "still"
        assert produce(client, "t", one(), 1).error_code == Code.NONE, "the other one is well"
        assert fetch(client, "t", 0).error_code == Code.NONE
    with pytest.raises(Exception, match="offline"):
        broker.close()
    with EmbeddedBroker(tmp_path, properties=ALWAYS) as again, Client.of(again.bootstrap) as client:
        assert read_all(client, "t")[0] == (0, b"kept")
        assert produce(client, "t", one()).error_code == Code.NONE


def test_a_disk_that_fails_is_told_in_the_log_and_the_metrics(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk fails every produce: one line at once, one for the rest, and each is counted."""

    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with EmbeddedBroker() as broker, Client.of(broker.bootstrap) as client:
        broker.create_topic("t", 2)
        assert produce(client, "t", one()).error_code == Code.NONE
        with monkeypatch.context() as full:
            full.setattr(FileSystem, "write", refuse)
            for number in range(10):
                assert produce(client, "t", one(), number % 2).error_code == Code.KAFKA_STORAGE_ERROR
        assert produce(client, "t", one()).error_code == Code.NONE
        service = broker._running()
        faults = service.cluster.runtime.turn.faults
        metrics = broker._call(lambda: collected(service.cluster.store, [], faults))
        assert [metric.samples for metric in metrics if metric.name == "ottla_write_failures_total"] == [
            [({}, 10)]
        ]
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(lines) == 2
    assert lines[0].startswith("t-0: records were refused: ")
    assert "No space left on device" in lines[0]
    assert lines[1].startswith("9 more writes to 2 partitions failed, the last one: ")


def test_one_failure_does_not_cost_the_others_their_answer(disk: Disk) -> None:
    with EmbeddedBroker(properties=ALWAYS) as broker, Client.of(broker.bootstrap) as client:
        broker.create_topic("t", 2)
        cluster = broker._running().cluster
        broker._call(lambda: cluster.runtime.turn.stage(cluster.store.partition("t", 1)))
        broker._call(lambda: cluster.runtime.turn.then(lambda _: 1 / 0))  # type: ignore[arg-type]
        assert produce(client, "t", one()).error_code == Code.NONE
        assert produce(client, "t", one()).base_offset == 1


def test_callbacks_of_a_turn_run_in_their_order() -> None:
    seen: list[int] = []

    async def turn() -> None:
        with ThreadPoolExecutor(1) as executor:
            loop = asyncio.get_running_loop()
            one_turn = WriteTurn(loop, executor, flush_always=False, after=lambda: seen.append(-1))

            def note(number: int, failures: Failures) -> None:
                assert not failures
                seen.append(number)

            for number in range(3):
                one_turn.then(lambda failures, number=number: note(number, failures))
            one_turn.end()
            await one_turn.drain()

    asyncio.run(turn())
    assert seen == [0, 1, 2, -1]
