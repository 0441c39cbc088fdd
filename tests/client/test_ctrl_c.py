"""Ctrl-C ends a client that waits: for an answer, a connection, a leader, another thread's question."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from ottla.broker.embedded import EmbeddedBroker
from tests.client.raw_server import RawServer

START = """
import sys
from ottla.client.config import ClientConfig
from ottla.client.connection import Connection
from ottla.client.metadata import ClusterMetadata
from ottla.wire.api.metadata import MetadataRequest
config = ClientConfig.from_properties({"bootstrap.servers": sys.argv[1], "broker.version": sys.argv[2]})
def ready():
    print("waiting", flush=True)
"""

ANSWER = """
with Connection.open(config.bootstrap[0], config) as connection:
    connection.send(MetadataRequest(topics=[]))
    ready()
    connection.receive()
"""

LEADER = """
with ClusterMetadata(config) as metadata:
    ready()
    metadata.leader("no-such-topic", 0)
"""

ANOTHER = """
import threading
with ClusterMetadata(config) as metadata:
    thread = threading.Thread(target=metadata.refresh, args=(["a"],), daemon=True)
    thread.start()
    while not metadata._is_asking: pass
    ready()
    try:
        metadata.refresh(["b"])
    finally:
        metadata.interrupt()
"""


def interrupted(program: str, bootstrap: str, version: str) -> str:
    """What a program says at its end that is interrupted while it waits."""
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", START + program, bootstrap, version],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n", process.communicate()[1]
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode not in {0, -signal.SIGKILL}
    return said


@pytest.mark.parametrize("program", [ANSWER, ANOTHER], ids=["an answer", "another thread"])
def test_a_broker_that_does_not_answer(program: str) -> None:
    server = RawServer.silent()
    with server:
        said = interrupted(program, str(server.address), "0.9")
    assert "KeyboardInterrupt" in said
    assert "ResourceWarning" not in said


def test_a_leader_that_is_not_there() -> None:
    with EmbeddedBroker(properties={"auto.create.topics.enable": "false"}) as broker:
        said = interrupted(LEADER, broker.bootstrap, "")
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert "ResourceWarning" not in said
