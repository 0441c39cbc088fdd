"""Kafka Connect as an exactly-once source on our broker, through a kill -9 of the worker and a restart."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla import EmbeddedBroker, replay
from tests.broker.scraping import free_port
from tests.scale import nightly
from tests.waiting import wait_for
from tools.peer_cache import Unavailable, kafka_connect_libs, program

pytestmark = nightly("Connect is 50 MB and starts slowly")

SETTINGS = """
group.id=connect
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
offset.storage.topic=connect-offsets
offset.storage.replication.factor=1
offset.storage.partitions=1
config.storage.topic=connect-configs
config.storage.replication.factor=1
status.storage.topic=connect-status
status.storage.replication.factor=1
status.storage.partitions=1
exactly.once.source.support=enabled
offset.flush.interval.ms=500
session.timeout.ms=6000
plugin.discovery=service_load
"""
LINES = 50


class Worker:
    """A distributed worker with its REST server."""

    def __init__(self, directory: Path, bootstrap: str) -> None:
        self._directory = directory
        self._address = f"http://127.0.0.1:{free_port()}"
        where = f"bootstrap.servers={bootstrap}\nlisteners={self._address}\n"
        self._settings = directory / "worker.properties"
        self._settings.write_text(f"{SETTINGS}{where}plugin.path={kafka_connect_libs()}\n")

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start it; kill it at the end of the block."""
        command = [program("java"), "-Xmx400m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp"]
        command += [f"{kafka_connect_libs()}{os.sep}*", "org.apache.kafka.connect.cli.ConnectDistributed"]
        with (self._directory / "worker.log").open("ab") as log:
            process = subprocess.Popen([*command, str(self._settings)], stdout=log, stderr=log)
        try:
            yield
        finally:
            process.kill()
            process.wait()

    def answer(self, method: str, path: str, body: object = None) -> object:
        """What the REST server answers; None while it does not."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self._address}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return json.loads(response.read())
        except OSError:
            return None


@pytest.mark.timeout(900)
def test_connect_copies_every_line_once(tmp_path: Path) -> None:
    source, lines = tmp_path / "lines.txt", list[bytes]()
    properties = {"group.min.session.timeout.ms": "500"}
    with EmbeddedBroker(tmp_path / "data", properties=properties) as broker:
        broker.create_topic("lines")
        try:
            worker = Worker(tmp_path, broker.bootstrap)
        except Unavailable as reason:
            pytest.skip(str(reason))

        def add() -> None:
            more = [b"line %d" % number for number in range(len(lines), len(lines) + LINES)]
            lines.extend(more)
            with source.open("ab") as file:
                file.write(b"".join(line + b"\n" for line in more))

        def values() -> list[bytes]:
            found = replay("lines", bootstrap_servers=broker.bootstrap, isolation_level="read_committed")
            return list(found.to_table()["value"].to_pylist())

        def wait_for_lines(what: str) -> None:
            wait_for(lambda: len(values()) >= len(lines), what, pause=0.5)

        with worker.running():
            wait_for(lambda: worker.answer("GET", "/connectors") == [], "the worker serves", pause=0.5)
            add()
            connector = {
                "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
                "file": str(source),
                "topic": "lines",
                "exactly.once.support": "required",
            }
            wait_for(lambda: worker.answer("PUT", "/connectors/files/config", connector), "the connector")
            wait_for_lines("the first lines")
            add()
        with worker.running():
            wait_for_lines("lines after a killed worker")
            add()
            broker.stop()
            broker.start()
            wait_for_lines("lines after a restart of the broker")
        assert values() == lines
