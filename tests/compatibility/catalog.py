"""The clients of the matrix: how each is had and started, and which real Kafka proves its script."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.compatibility.conversation import converse
from tests.compatibility.targets import Target
from tests.compatibility.verdicts import Report
from tools.peer_cache import (
    KAFKA_3,
    KAFKA_4,
    KAFKAJS,
    go_programs,
    java_classes,
    kafka_libs,
    kcat,
    npm_package,
    program,
)

CLIENTS = Path(__file__).parent / "clients"
QUICK_JAVA = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
)
"""A script runs for seconds: what matters is how fast Java starts."""


@dataclass(frozen=True)
class Client:
    """One column of the matrix."""

    name: str
    command: Callable[[], list[str]]
    """How its script is started; raises Unavailable where the client cannot be had."""

    oracle: str = KAFKA_4
    """The Kafka version that this client is meant for."""

    needs_zookeeper: bool = False

    def run(self, target: Target) -> Report:
        """All steps against this broker."""
        arguments = [target.bootstrap, f"c{uuid.uuid4().hex[:8]}", target.zookeeper]
        return converse(self.name, [*self.command(), *arguments], target)


def _python(script: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, str(CLIENTS / script)]


def _kcat() -> list[str]:
    return [sys.executable, str(CLIENTS / "kcat_client.py"), kcat()]


def _go(program_name: str) -> Callable[[], list[str]]:
    return lambda: [str(go_programs(CLIENTS / "golang") / program_name)]


def _node() -> list[str]:
    modules = npm_package(KAFKAJS) / "node_modules"
    return ["/usr/bin/env", f"NODE_PATH={modules}", program("node"), str(CLIENTS / "kafkajs_client.js")]


def _java(source: str, version: str) -> list[str]:
    """Java with Kafka's jars and one of our programs; its name is what is to follow."""
    classes = java_classes(CLIENTS / "java" / source, version)
    path = f"{classes}{os.pathsep}{kafka_libs(version)}{os.sep}*"
    return [program("java"), *QUICK_JAVA, "-cp", path]


def _java_client(version: str) -> Callable[[], list[str]]:
    return lambda: [*_java("ClientSteps.java", version), "ClientSteps"]


def _java_tools(script: str, version: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, str(CLIENTS / script), *_java("ToolRunner.java", version), version]


ALL = (
    Client("confluent-kafka", _python("confluent_client.py")),
    Client("kcat", _kcat),
    Client("kafka-python", _python("kafka_python_client.py")),
    Client("aiokafka", _python("aiokafka_client.py")),
    Client("sarama", _go("sarama")),
    Client("franz-go", _go("franz")),
    Client("kafkajs", _node),
    Client("Java client 3.9", _java_client(KAFKA_3)),
    Client("Java client 4", _java_client(KAFKA_4)),
    Client("command-line tools 3.9", _java_tools("tools_client.py", KAFKA_3)),
    Client("command-line tools 4", _java_tools("tools_client.py", KAFKA_4)),
)
BY_NAME = {client.name: client for client in ALL}
