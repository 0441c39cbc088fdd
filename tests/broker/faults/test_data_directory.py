"""Whose data these are: one broker at a time, its own id and cluster, a port of its own. Refusals say so."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.model.errors import ConfigError, DirectoryInUse, StorageError
from tests.broker.faults.batches import batch
from tests.broker.faults.broker_process import BrokerFailed, BrokerProcess
from tests.broker.faults.raw_client import RawClient


def fill(broker: EmbeddedBroker | BrokerProcess) -> None:
    with RawClient(broker.port) as client:
        assert client.create("t") == 0
        assert client.produce("t", batch((b"k", b"v"))).base_offset == 0


def holds(broker: EmbeddedBroker | BrokerProcess) -> bool:
    with RawClient(broker.port) as client:
        return [record.value for record in client.records("t")] == [b"v"]


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_a_second_broker_on_the_directory_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with EmbeddedBroker(data_dir) as first:
        fill(first)
        with pytest.raises(DirectoryInUse, match=re.escape(str(data_dir))):
            EmbeddedBroker(data_dir).start()
        with pytest.raises(BrokerFailed) as failure:
            BrokerProcess(data_dir)
        assert failure.value.code == 1
        assert str(data_dir) in failure.value.log
        assert "Traceback" not in failure.value.log
        assert holds(first)
    with EmbeddedBroker(data_dir) as second:
        assert holds(second)


def test_two_processes_on_one_directory(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with BrokerProcess(data_dir) as first:
        fill(first)
        with pytest.raises(DirectoryInUse):
            EmbeddedBroker(data_dir).start()
        with pytest.raises(BrokerFailed, match="ottla: "):
            BrokerProcess(data_dir)
        assert holds(first)
        first.kill()
    with EmbeddedBroker(data_dir) as second:  # the lock went with the process
        assert holds(second)


def test_a_port_that_is_taken_is_named(tmp_path: Path, taken_port: int) -> None:
    data_dir = tmp_path / "data"
    with pytest.raises(ConfigError, match=f"127.0.0.1:{taken_port}"):
        EmbeddedBroker(data_dir, port=taken_port).start()
    with pytest.raises(BrokerFailed) as failure:
        BrokerProcess(data_dir, arguments=["--port", str(taken_port)])
    assert failure.value.code == 1
    assert f"127.0.0.1:{taken_port}" in failure.value.log
    assert "Traceback" not in failure.value.log
    with EmbeddedBroker(data_dir) as broker:  # and the directory is free
        fill(broker)


def test_the_data_of_another_broker_id_are_refused(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker:
        fill(broker)
    with pytest.raises(StorageError, match=r"broker\.id=0, not 5: these are the data of another broker"):
        EmbeddedBroker(tmp_path, properties={"broker.id": "5"}).start()
    with EmbeddedBroker(tmp_path) as broker:
        assert holds(broker)


def test_the_data_of_another_cluster_are_refused(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path, properties={"ottla.cluster.id": "one"}) as broker:
        fill(broker)
    with pytest.raises(StorageError, match=r"cluster\.id=one, not two"):
        EmbeddedBroker(tmp_path, properties={"ottla.cluster.id": "two"}).start()
    with EmbeddedBroker(tmp_path) as broker:
        assert holds(broker)


def test_a_directory_that_is_a_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"")
    with pytest.raises(BrokerFailed) as failure:
        BrokerProcess(path)
    assert failure.value.code == 1
    assert str(path) in failure.value.log
    assert "Traceback" not in failure.value.log


def test_a_damaged_catalog_is_named_with_the_remedy(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker:
        fill(broker)
    catalog = tmp_path / "ottla.json"
    catalog.write_text(catalog.read_text()[:-20])
    with pytest.raises(StorageError, match=r"ottla\.json.*ottla log repair"):
        EmbeddedBroker(tmp_path).start()
    catalog.unlink()
    with EmbeddedBroker(tmp_path) as broker:
        assert holds(broker)
