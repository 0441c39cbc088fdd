"""A real Kafka of each era with its own tools in one Java process, and ours beside them, in this process."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import pytest

from ottla.cli.main import main
from tests.compatibility.clients.tool_process import Run, ToolProcess
from tools.java_process import QUICK_START, class_path
from tools.peer_cache import java_classes, program
from tools.peers import KAFKA_0_9, KAFKA_4, RealKafka, Unavailable, kafka_libs

RUNNER = Path(__file__).parents[2] / "compatibility" / "clients" / "java" / "ToolRunner.java"
OPTIONS = ("-Xmx256m", "--add-opens=java.base/java.lang=ALL-UNNAMED")
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"


def java(version: str, *classes: Path) -> list[str]:
    """Java without an archive of classes, which changes the order of fields in what tools print as JSON."""
    return [program("java"), *QUICK_START, *OPTIONS, QUIET, *class_path(kafka_libs(version), *classes)]


def ours(name: str, *arguments: str, text: str = "") -> Run:
    """What our tool does and prints."""
    printed, complaints = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    given = io.TextIOWrapper(io.BytesIO(text.encode()), "utf-8")
    with redirect_stdout(printed), redirect_stderr(complaints), patch.object(sys, "stdin", given):
        code = main([name, *arguments])
    printed.flush()
    return Run(code, printed.buffer.getvalue().decode(), complaints.getvalue())


class Era:
    """A cluster and Kafka's own tools of the same version."""

    def __init__(self, kafka: RealKafka, java: ToolProcess) -> None:
        self.kafka = kafka
        self.java = java

    def command(self, main_class: str, *arguments: str) -> list[str]:
        """Kafka's own tool in a Java process of its own, for what ends only by a signal."""
        return [*java(self.kafka.version), main_class, *arguments]

    def tool(self, main_class: str, *arguments: str, text: str = "") -> Run:
        """What Kafka's own tool does and prints."""
        return self.java.attempt(main_class, *arguments, text=text)


def created(era: Era, topic: str) -> str:
    """A topic of one partition, made by Kafka's own tool."""
    if era.kafka.zookeeper:
        tool, where = "kafka.admin.TopicCommand", ["--zookeeper", era.kafka.zookeeper]
        where += ["--partitions", "1", "--replication-factor", "1"]
    else:
        tool, where = "org.apache.kafka.tools.TopicCommand", ["--bootstrap-server", era.kafka.bootstrap]
    era.tool(tool, *where, "--create", "--topic", topic)
    return topic


def _era(version: str, options: list[str], properties: dict[str, str] | None = None) -> Iterator[Era]:
    try:
        command = java(version, java_classes(RUNNER, version))
        with RealKafka(version, properties=properties) as kafka:
            tools = ToolProcess([*command, *options])
            try:
                yield Era(kafka, tools)
            finally:
                tools.close()
    except Unavailable as error:
        pytest.skip(f"Kafka {version} cannot be run here: {error}")


@pytest.fixture(scope="package")
def new() -> Iterator[Era]:
    """Kafka 4, with an authorizer that lets everybody do everything."""
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    yield from _era(KAFKA_4, [], {"authorizer.class.name": authorizer, "super.users": "User:ANONYMOUS"})


@pytest.fixture(scope="package")
def shared_old() -> Iterator[Era]:
    yield from _era(KAFKA_0_9, ["-Djava.security.manager=allow"])


@pytest.fixture
def old(shared_old: Era, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Era:
    """Kafka 0.9, with a profile that saves finding out that it is 0.9."""
    profiles = tmp_path / "config.toml"
    profiles.write_text('[profiles.old]\nbroker.version = "0.9"\n')
    monkeypatch.setenv("OTTLA_CONFIG", str(profiles))
    monkeypatch.setenv("OTTLA_PROFILE", "old")
    return shared_old
