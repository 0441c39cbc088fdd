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
from tools.peer_cache import KAFKA_4

CLIENTS = Path(__file__).parent / "clients"


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


ALL = (
    Client("confluent-kafka", _python("confluent_client.py")),
    Client("kafka-python", _python("kafka_python_client.py")),
    Client("aiokafka", _python("aiokafka_client.py")),
)
BY_NAME = {client.name: client for client in ALL}
