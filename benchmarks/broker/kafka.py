"""Apache Kafka as its own start script runs it: the same heap, the same collector, otherwise defaults."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.broker.frames import NEW, OLD, Dialect
from benchmarks.broker.processes import LOCALHOST, Contender, Missing, Server, free_port, started
from tools.peer_cache import KAFKA_0_9, KAFKA_4, Unavailable, kafka_libs, program

NAME = "Apache Kafka"
_FORMAT_S = 60
_CLUSTER_ID = "b3R0bGEtYmVuY2htYXJrcw"
# What kafka-server-start.sh and kafka-run-class.sh give to Java.
_JAVA_OPTIONS = [
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-Djava.awt.headless=true",
]

Start = Callable[[], contextlib.AbstractContextManager[Server]]


@dataclass(frozen=True)
class Rival:
    """A Kafka and the dialect in which it, and ours beside it, are spoken to."""

    contender: Contender
    dialect: Dialect


@contextlib.contextmanager
def rivals() -> Iterator[list[Rival]]:
    """Every Kafka that there is to compare with, running."""
    with contextlib.ExitStack() as servers:
        versions = ((KAFKA_0_9, OLD), (KAFKA_4, NEW))
        yield [Rival(servers.enter_context(running(version)), dialect) for version, dialect in versions]


@contextlib.contextmanager
def running(version: str) -> Iterator[Contender]:
    """This Kafka, running, or why there is none."""
    with contextlib.ExitStack() as life:
        try:
            start = life.enter_context(installed(version))
        except Unavailable as error:
            yield Missing(NAME, version, str(error))
        else:
            yield life.enter_context(start())


@contextlib.contextmanager
def installed(version: str) -> Iterator[Start]:
    """A way to start this Kafka once: what it needs is there, so that only its own start takes time."""
    libs = kafka_libs(version)
    with tempfile.TemporaryDirectory(prefix="kafka-benchmark-", ignore_cleanup_errors=True) as directory:
        prepare = _with_zookeeper if version == KAFKA_0_9 else _formatted
        with prepare(libs, Path(directory)) as (properties, port):
            command = _java(libs, "kafka.Kafka", str(properties))
            yield lambda: started(NAME, version, command, port)


@contextlib.contextmanager
def _with_zookeeper(libs: Path, place: Path) -> Iterator[tuple[Path, int]]:
    keeper_port, port = free_port(), free_port()
    keeper = _java(
        libs, "org.apache.zookeeper.server.ZooKeeperServerMain", str(keeper_port), str(place / "zookeeper")
    )
    with started("ZooKeeper", "", keeper, keeper_port):
        settings = {
            "broker.id": "1",
            "host.name": LOCALHOST,
            "port": str(port),
            "zookeeper.connect": f"{LOCALHOST}:{keeper_port}",
        }
        yield _written(place, settings), port


@contextlib.contextmanager
def _formatted(libs: Path, place: Path) -> Iterator[tuple[Path, int]]:
    controller_port, port = free_port(), free_port()
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{LOCALHOST}:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{LOCALHOST}:{port},CONTROLLER://{LOCALHOST}:{controller_port}",
        "offsets.topic.replication.factor": "1",
    }
    properties = _written(place, settings)
    command = _java(libs, "kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(properties))
    subprocess.run(command, check=True, capture_output=True, timeout=_FORMAT_S, cwd=place)
    yield properties, port


def _written(place: Path, settings: dict[str, str]) -> Path:
    properties = place / "server.properties"
    lines = [f"{key}={value}\n" for key, value in (settings | {"log.dirs": str(place / "data")}).items()]
    properties.write_text("".join(lines))
    return properties


def _java(libs: Path, *arguments: str) -> list[str]:
    return [program("java"), *_JAVA_OPTIONS, "-cp", f"{libs}/*", *arguments]
