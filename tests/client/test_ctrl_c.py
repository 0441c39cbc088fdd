"""Ctrl-C ends a client that waits: for an answer, a connection, a leader, another thread's question."""

from __future__ import annotations

import pytest

from ottla.broker.embedded import EmbeddedBroker
from tests.client.raw_server import RawServer
from tests.interruption import interrupted

START = """
import sys
from ottla.client.client_config import ClientConfig
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


@pytest.mark.parametrize("program", [ANSWER, ANOTHER], ids=["an answer", "another thread"])
def test_a_broker_that_does_not_answer(program: str) -> None:
    server = RawServer.silent()
    with server:
        complaint = interrupted(START + program, str(server.address), "0.9")
    assert "KeyboardInterrupt" in complaint
    assert "ResourceWarning" not in complaint


def test_a_leader_that_is_not_there() -> None:
    with EmbeddedBroker(properties={"auto.create.topics.enable": "false"}) as broker:
        complaint = interrupted(START + LEADER, broker.bootstrap, "")
    assert complaint.rstrip().endswith("KeyboardInterrupt")
    assert "ResourceWarning" not in complaint
