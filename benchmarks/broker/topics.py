"""Topics for a load: created as any client's first metadata request creates them, on old and new brokers."""

from __future__ import annotations

import time
import uuid

from benchmarks.broker.frames import Dialect
from benchmarks.broker.lines import Line
from benchmarks.broker.load import Address
from ottla.wire.api.metadata import MetadataRequest, MetadataTopic

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
    with Line(address) as line:
        (found,) = line.ask(question, dialect.metadata_version).topics
    return found.error_code == 0 and all(part.error_code == 0 for part in found.partitions)
