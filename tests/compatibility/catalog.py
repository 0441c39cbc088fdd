"""The clients of the matrix: how each is had and started, and which real Kafka proves its script."""

from __future__ import annotations

import re
import subprocess
import sys
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.compatibility.conversation import converse
from tests.compatibility.targets import Target
from tests.compatibility.verdicts import Report
from tools.java_process import java_command
from tools.peer_cache import (
    KAFKA_0_9,
    KAFKA_3,
    KAFKA_4,
    KAFKA_CLIENTS,
    KAFKAJS,
    Unavailable,
    go_programs,
    java_classes,
    kafka_libs,
    kcat,
    npm_package,
    program,
)

CLIENTS = Path(__file__).parent / "clients"
CLIENT_LIBRARY, COMMAND_LINE, ZOOKEEPER_TOOLS = "client library", "command line", "through ZooKeeper"


@dataclass(frozen=True)
class Client:
    """One column of the matrix."""

    name: str
    command: Callable[[], list[str]]
    """How its script is started; raises Unavailable where the client cannot be had."""

    kind: str = CLIENT_LIBRARY
    oracle: str = KAFKA_4
    """The Kafka version that proves the script: the newest that still takes what this client sends."""

    @property
    def needs_zookeeper(self) -> bool:
        return self.kind == ZOOKEEPER_TOOLS

    def run(self, target: AbstractContextManager[Target]) -> Report:
        """All steps against this broker; a report that says so where client or broker cannot be had."""
        try:
            command = self.command()
            with target as broker:
                return self._converse(command, broker)
        except Unavailable as error:
            return Report(self.name, missing=str(error))

    def _converse(self, command: list[str], target: Target) -> Report:
        arguments = [target.bootstrap, f"c{uuid.uuid4().hex[:8]}", target.zookeeper]
        return converse(self.name, [*command, *arguments], target)


def python_client(script: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, str(CLIENTS / script)]


def _kcat() -> list[str]:
    return [sys.executable, str(CLIENTS / "kcat_client.py"), kcat()]


def go_client(program_name: str) -> Callable[[], list[str]]:
    return lambda: [str(go_programs(CLIENTS / "golang") / program_name)]


def node_client(script: str) -> Callable[[], list[str]]:
    def command() -> list[str]:
        modules = npm_package(KAFKAJS) / "node_modules"
        return ["/usr/bin/env", f"NODE_PATH={modules}", program("node"), str(CLIENTS / script)]

    return command


def _java(source: str, version: str, *jars: Path) -> list[str]:
    """Java with Kafka's jars and one of our programs; its name is what is to follow."""
    classes = java_classes(CLIENTS / "java" / source, version)
    command = java_command(kafka_libs(version), classes, *jars, heap_mb=256)
    return [*command, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]


def java_program(name: str, version: str, *jars: Path) -> Callable[[], list[str]]:
    return lambda: [*_java(f"{name}.java", version, *jars), name]


def _java_tools(script: str, version: str) -> Callable[[], list[str]]:
    """Tools leave by exiting, and send what they have left while Java goes down: both are played to them."""

    def command() -> list[str]:
        java, *rest = _java("ToolRunner.java", version)
        major = _java_major(java)
        if version == KAFKA_0_9 and major >= 24:
            raise Unavailable(
                f"Java {major} has no security manager, which the tools of {version} are run under"
            )
        options = ["--add-opens=java.base/java.lang=ALL-UNNAMED"]
        options += ["-Djava.security.manager=allow"] if version == KAFKA_0_9 else []
        return [sys.executable, str(CLIENTS / script), java, *options, *rest, version]

    return command


@cache
def _java_major(java: str) -> int:
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=30).stderr
    found = re.search(r'version "(\d+)', told)
    return int(found[1]) if found else 0


ALL = (
    Client("confluent-kafka", python_client("confluent_client.py")),
    Client("kcat", _kcat),
    Client("kafka-python", python_client("kafka_python_client.py")),
    Client("aiokafka", python_client("aiokafka_client.py")),
    Client("sarama", go_client("sarama")),
    Client("sarama of 2020", go_client("sarama126"), oracle=KAFKA_3),
    Client("franz-go", go_client("franz")),
    Client("kafkajs", node_client("kafkajs_client.js")),
    Client("Java client 3.9", java_program("ClientSteps", KAFKA_3)),
    Client("Java client 4", java_program("ClientSteps", KAFKA_CLIENTS)),
    Client("command-line tools 3.9", _java_tools("tools_client.py", KAFKA_3), COMMAND_LINE),
    Client("command-line tools 4", _java_tools("tools_client.py", KAFKA_4), COMMAND_LINE),
    Client(
        "Scala tools 0.9.0.1",
        _java_tools("scala_tools_client.py", KAFKA_0_9),
        ZOOKEEPER_TOOLS,
        KAFKA_0_9,
    ),
)
BY_NAME = {client.name: client for client in ALL}
