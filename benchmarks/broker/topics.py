"""Topics for a load: created as any client's first metadata request creates them, on old and new brokers."""

from __future__ import annotations

import time
import uuid

from benchmarks.broker.frames import CLIENT_ID, Dialect
from benchmarks.broker.load import Address, connected
from ottla.wire.api.metadata import MetadataRequest, MetadataTopic
from ottla.wire.client_connection import ClientConnection, ReceivedResponse

READY_S = 60
_POLL_S = 0.005


def new_topic(address: Address, dialect: Dialect) -> str:
    """A topic of one partition with the broker's defaults, ready to be written to."""
    name = f"benchmark-{uuid.uuid4().hex[:12]}"
    deadline = time.monotonic() + READY_S
    while not _has_leader(address, dialect, name):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{name} has no leader on {address} after {READY_S} s")
        time.sleep(_POLL_S)
    return name


def _has_leader(address: Address, dialect: Dialect, topic: str) -> bool:
    question = MetadataRequest(topics=[MetadataTopic(name=topic)])
    wire = ClientConnection(client_id=CLIENT_ID)
    with connected(address) as connection:
        for part in wire.send(question, version=dialect.metadata_version).parts:
            connection.sendall(part)
        while (event := wire.next_event()) is None:
            count = connection.recv_into(wire.get_buffer())
            wire.received(count) if count else wire.eof()
    if not isinstance(event, ReceivedResponse):
        raise ConnectionError(f"{address} closed the connection instead of answering Metadata")
    (found,) = event.message.topics  # type: ignore[attr-defined]
    return found.error_code == 0 and all(part.error_code == 0 for part in found.partitions)
