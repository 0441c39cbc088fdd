"""Topics for a load: small ones as any client's first metadata request creates them, and large ones."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping

from benchmarks.broker.frames import Dialect
from benchmarks.broker.lines import Line
from benchmarks.broker.load import Address
from ottla.admin import Admin, NewPartitions, NewTopic
from ottla.wire.api.metadata import MetadataRequest, MetadataTopic

READY_S = 60
_POLL_S = 0.005
_CREATED_AT_ONCE = 5_000
"""Kafka 4 refuses a request that makes 10,000 partitions."""


def new_topic(address: Address, dialect: Dialect) -> str:
    """A topic of one partition with the broker's defaults, ready to be written to."""
    name = f"benchmark-{uuid.uuid4().hex[:12]}"
    deadline = time.monotonic() + READY_S
    while not _has_leader(address, dialect, name):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{name} has no leader on {address} after {READY_S} s")
        time.sleep(_POLL_S)
    return name


def create_large(
    bootstrap: str, name: str, partitions: int, timeout_s: float, configs: Mapping[str, str] | None = None
) -> None:
    """Create a topic of any number of partitions, in as many requests as Kafka needs."""
    with Admin(bootstrap_servers=bootstrap, request_timeout_ms=int(timeout_s * 1000)) as admin:
        admin.create_topics(NewTopic(name, min(partitions, _CREATED_AT_ONCE), configs=dict(configs or {})))
        for total in range(2 * _CREATED_AT_ONCE, partitions + _CREATED_AT_ONCE, _CREATED_AT_ONCE):
            admin.create_partitions(NewPartitions(name, total=min(total, partitions)))


def _has_leader(address: Address, dialect: Dialect, topic: str) -> bool:
    question = MetadataRequest(topics=[MetadataTopic(name=topic)])
    with Line(address) as line:
        (found,) = line.ask(question, dialect.metadata_version).topics
    return found.error_code == 0 and all(part.error_code == 0 for part in found.partitions)
