"""Real Apache Kafka servers for tests and benchmarks.

    libs = kafka_libs("4.3.1")              # the jars of the server, the clients and the command-line tools
    with RealKafka("0.9.0.1") as kafka:     # with a ZooKeeper of its own
        kafka.bootstrap, kafka.zookeeper, kafka.pid, kafka.log
        with RealKafka("0.9.0.1", joins=kafka, broker_id=2) as other:   # a cluster, by the same ZooKeeper
            other.kill()                                                # and start() again
    RealKafka("3.9.1", with_zookeeper=True)     # otherwise 3.9 runs in KRaft mode, as 4.x does

What cannot be fetched or started raises Unavailable with the reason. Every server listens on free ports of
127.0.0.1 and ends with this process, however that ends.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from ottla.model.closing import Closing
from ottla.zookeeper import process_guard
from tools.java_process import QUICK_START, ArchiveWriter, archive_of, class_path, java_command, read_options
from tools.peer_cache import KAFKA_0_8, KAFKA_0_9, KAFKA_3, KAFKA_4, Unavailable, kafka_libs, program

__all__ = ["KAFKA_0_8", "KAFKA_0_9", "KAFKA_3", "KAFKA_4", "RealKafka", "Unavailable", "kafka_libs"]

HOST = "127.0.0.1"
_START_S, _STOP_S = 180.0, 15.0
_ARCHIVE_STOP_S = 90.0
"""For a server that writes the archive of its classes when it ends."""
_LOG_LINES_SHOWN = 25
_BROKER = "kafka.Kafka"
_ENDED_BY_ITSELF = (0, 128 + signal.SIGTERM)
_CLUSTER_ID = "b3R0bGEtcGVlcnMtdGVzdA"
_OLD = {KAFKA_0_8, KAFKA_0_9}
_ALONE = {
    "offsets.topic.num.partitions": "5",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
_SMALL = {"num.network.threads": "1", "num.io.threads": "2", "background.threads": "2"}
"""Each thread of Kafka wakes up several times a second: a server that waits took 3 % of a processor."""


class _Server:
    """A Java process behind a guard, which ends it when this process ends, however that happens."""

    def __init__(self, libs: Path, main_class: str, work: Path, name: str, options: Sequence[str]) -> None:
        self._libs, self._main_class, self._options = libs, main_class, options
        self._archive: ArchiveWriter | None = None
        self.log = work / f"{name}.log"
        self.pid = 0
        self._guard: subprocess.Popen[bytes] | None = None

    def start(self, arguments: Sequence[str], ready: Callable[[], bool]) -> None:
        logging = self.log.with_suffix(".log4j")
        logging.write_text(
            "log4j.rootLogger=INFO, out\nlog4j.appender.out=org.apache.log4j.ConsoleAppender\n"
            "log4j.appender.out.layout=org.apache.log4j.PatternLayout\n"
            "log4j.appender.out.layout.ConversionPattern=%d %p %c{1}: %m%n\n"
        )
        archive = archive_of(self._libs)
        self._archive = None if archive.exists() or self._main_class != _BROKER else ArchiveWriter(archive)
        self._stop_s = _ARCHIVE_STOP_S if self._archive else _STOP_S
        command = [program("java"), *self._options]
        command += self._archive.options if self._archive else read_options(archive)
        command += [f"-Dlog4j.configuration=file:{logging}", "-Dzookeeper.jmx.log4j.disable=true"]
        command += ["-Dzookeeper.admin.enableServer=false"]
        command += [*class_path(self._libs), self._main_class, *arguments]
        with open(self.log, "ab") as log:
            self._guard = subprocess.Popen(
                [sys.executable, "-I", process_guard.__file__, str(self._stop_s), *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        assert self._guard.stdout is not None
        self.pid = int(self._guard.stdout.readline() or 0)
        deadline = time.monotonic() + _START_S
        while not ready():
            if self._guard.poll() is not None or time.monotonic() > deadline:
                self.stop()
                lines = self.log.read_text(errors="replace").splitlines()[-_LOG_LINES_SHOWN:]
                raise Unavailable(f"{self._main_class} did not start:\n" + "\n".join(lines))
            time.sleep(0.05)

    def stop(self) -> None:
        guard, self._guard = self._guard, None
        if guard is None:
            return
        for pipe in (guard.stdin, guard.stdout):
            if pipe is not None:
                pipe.close()
        try:
            guard.wait(self._stop_s + 5)
        except subprocess.TimeoutExpired:
            guard.kill()
            guard.wait()
        if self._archive:
            self._archive.keep(is_whole=guard.returncode in _ENDED_BY_ITSELF)
        self.pid = 0


class RealKafka(Closing):
    """One Apache Kafka broker on free ports of 127.0.0.1, with its ZooKeeper if it has one.

    `restart` keeps the port and the data. Without `data_dir` the data is removed at the end. `listeners` are
    names of further ones (SSL, SASL_SSL, …) with ports of their own (`listener_ports`), which `properties`
    set up; `storage` are more arguments of the storage tool's `format` (--add-scram …). Both not for 0.9.
    Brokers of 0.9 make a cluster if the others join the first, each under an id of its own. A server that
    `is_measured` starts slowly and is fast when it is warm. `java_options` are of the broker's process.
    """

    def __init__(
        self,
        version: str,
        *,
        data_dir: Path | None = None,
        properties: Mapping[str, str] | None = None,
        heap_mb: int = 256,
        listeners: Sequence[str] = (),
        storage: Sequence[str] = (),
        joins: RealKafka | None = None,
        broker_id: int = 1,
        with_zookeeper: bool = False,
        is_measured: bool = False,
        java_options: Sequence[str] = (),
    ) -> None:
        if joins is not None and not joins.zookeeper:
            raise ValueError(f"Kafka {joins.version} has no ZooKeeper that another broker could join")
        self.version: str = version
        self.broker_id = broker_id
        self._libs = kafka_libs(version)
        self._scratch = None if data_dir else tempfile.TemporaryDirectory(prefix="ottla-kafka-")
        self.data_dir = data_dir or Path(self._scratch.name if self._scratch else "")
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self._extra = dict(properties or {})
        self.port, self._side_port = _free_ports(2)
        self.bootstrap = f"{HOST}:{self.port}"
        self.listener_ports = dict(zip(listeners, _free_ports(len(listeners)), strict=True))
        self._storage = storage
        self._is_measured = is_measured
        self.zookeeper: str = f"{HOST}:{self._side_port}" if version in _OLD or with_zookeeper else ""
        self._has_keeper = bool(self.zookeeper) and joins is None
        if joins is not None:
            self.zookeeper = joins.zookeeper
        options = ["-XX:+UseSerialGC", "-XX:-UsePerfData"] if is_measured else [*QUICK_START]
        own = [f"-Xmx{heap_mb}m", *options, *java_options]
        self._kafka = _Server(self._libs, _BROKER, self.data_dir, "kafka", own)
        keeper = "org.apache.zookeeper.server.ZooKeeperServerMain"
        self._keeper = _Server(self._libs, keeper, self.data_dir, "zookeeper", ["-Xmx128m", *options])
        self.log = self._kafka.log

    @property
    def pid(self) -> int:
        """The broker's process id; 0 when it does not run."""
        return self._kafka.pid

    def start(self) -> None:
        """Start and wait until the broker names itself in its metadata."""
        properties = self.data_dir / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in self._properties().items()))
        if self._has_keeper and not self._keeper.pid:
            keeper_dir = str(self.data_dir / "zookeeper")
            self._keeper.start([str(self._side_port), keeper_dir], lambda: _accepts(self._side_port))
        elif not self.zookeeper and not (self.data_dir / "data").exists():
            self._format(properties)
        # 0.8 tells of no broker before there is a topic.
        ready = _accepts if self.version == KAFKA_0_8 else _knows_itself
        self._kafka.start([str(properties)], lambda: ready(self.port))

    def stop(self) -> None:
        """Stop the broker; its ZooKeeper goes on until `close`."""
        self._kafka.stop()

    def kill(self) -> None:
        """End the broker as a power cut does; `start` brings it back."""
        os.kill(self.pid, signal.SIGKILL)
        self._kafka.stop()

    def restart(self) -> None:
        """Stop and start on the same port and data."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop everything and remove the data if its place was not given."""
        self._kafka.stop()
        self._keeper.stop()
        if self._scratch is not None:
            self._scratch.cleanup()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def _format(self, properties: Path) -> None:
        command = [*java_command(self._libs), "kafka.tools.StorageTool", "format"]
        command += ["-t", _CLUSTER_ID, "-c", str(properties), *self._storage]
        subprocess.run(command, check=True, capture_output=True, timeout=_START_S, cwd=self.data_dir)

    def _properties(self) -> dict[str, str]:
        if self.zookeeper:
            properties = {
                "broker.id": str(self.broker_id),
                "zookeeper.connect": self.zookeeper,
                "delete.topic.enable": "true",
            }
            if self.version in _OLD:
                properties |= {"host.name": HOST, "port": str(self.port)}
            else:
                properties |= {"listeners": f"PLAINTEXT://{HOST}:{self.port}", **_ALONE}
        else:
            properties = {
                "process.roles": "broker,controller",
                "node.id": "1",
                "controller.quorum.voters": f"1@{HOST}:{self._side_port}",
                "listeners": ",".join(
                    f"{name}://{HOST}:{port}"
                    for name, port in (
                        ("PLAINTEXT", self.port),
                        ("CONTROLLER", self._side_port),
                        *self.listener_ports.items(),
                    )
                ),
                "controller.listener.names": "CONTROLLER",
                "share.coordinator.state.topic.replication.factor": "1",
                "share.coordinator.state.topic.min.isr": "1",
                **_ALONE,
            }
            if not self._is_measured:
                properties |= {
                    "metadata.max.idle.interval.ms": "0",
                    "group.coordinator.threads": "1",
                    "share.coordinator.threads": "1",
                }
        properties |= {"log.dirs": str(self.data_dir / "data"), "offsets.topic.replication.factor": "1"}
        if not self._is_measured:
            properties |= _SMALL
        return properties | self._extra


def _free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind((HOST, 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def _accepts(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), 2):
            return True
    except OSError:
        return False


def _knows_itself(port: int) -> bool:
    """Whether the broker answers Metadata version 0 and lists a broker: only then clients can start."""
    request = struct.pack(">hhih5si", 3, 0, 1, 5, b"ottla", 0)
    try:
        with socket.create_connection((HOST, port), 2) as connection:
            connection.settimeout(5)
            connection.sendall(struct.pack(">i", len(request)) + request)
            with connection.makefile("rb") as answer:
                head = answer.read(12)
    except OSError:
        return False
    return len(head) == 12 and struct.unpack(">iii", head)[2] > 0
