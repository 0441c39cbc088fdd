"""Both directions against kafka-python, a second implementation (of the same published field tables)."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from ottla.wire.api.api_versions import ApiVersionsResponse
from ottla.wire.schema import Request, decode, encode
from tests.wire.messages import Row, rows_of

PACKAGES = ["admin", "consumer", "metadata", "producer"]
LACKED = {
    "ApiVersionsRequest",  # their newest version, which came with Kafka 4.4
    "ApiVersionsResponse",
    "DeleteGroupsRequest",
    "DeleteGroupsResponse",
    "ConsumerGroupDescribeRequest",
    "ConsumerGroupDescribeResponse",
    "ConsumerGroupHeartbeatRequest",
    "ConsumerGroupHeartbeatResponse",
    "ShareGroupHeartbeatRequest",
    "ShareGroupHeartbeatResponse",
    "ShareGroupDescribeRequest",
    "ShareGroupDescribeResponse",
    "ShareFetchRequest",
    "ShareFetchResponse",
    "ShareAcknowledgeRequest",
    "ShareAcknowledgeResponse",
    "DescribeShareGroupOffsetsRequest",
    "DescribeShareGroupOffsetsResponse",
    "AlterShareGroupOffsetsRequest",
    "AlterShareGroupOffsetsResponse",
    "DeleteShareGroupOffsetsRequest",
    "DeleteShareGroupOffsetsResponse",
    "GetTelemetrySubscriptionsRequest",
    "GetTelemetrySubscriptionsResponse",
    "PushTelemetryRequest",
    "PushTelemetryResponse",
    "UnregisterBrokerRequest",
    "UnregisterBrokerResponse",
    "TxnOffsetCommitRequest",  # by topic id, since Kafka 4.4
    "TxnOffsetCommitResponse",
}


@cache
def foreign_kinds() -> dict[str, Any]:
    with warnings.catch_warnings():
        # Its field tables are loaded through a function that Python 3.11 deprecates.
        warnings.simplefilter("ignore", DeprecationWarning)
        return {name: value for module in _modules() for name, value in vars(module).items()}


def _modules() -> Iterator[Any]:
    for package in PACKAGES:
        name = f"kafka.protocol.{package}"
        for info in pkgutil.iter_modules(importlib.import_module(name).__path__, f"{name}."):
            yield importlib.import_module(info.name)
    yield importlib.import_module("kafka.protocol.sasl")


def cases(variant: str) -> list[Row]:
    newest = {name: getattr(kind, "max_version", -1) for name, kind in foreign_kinds().items()}
    return [row for row in rows_of(variant) if row.version <= newest.get(row.kind.__name__, -1)]


def test_kafka_python_has_every_message_but_those_that_it_lacks() -> None:
    had = {row.label for row in cases("default")}
    assert {row.kind.__name__ for row in rows_of("default") if row.label not in had} == LACKED


@pytest.mark.parametrize("variant", ["full", "null", "long"])
def test_kafka_python_reads_ours_and_we_read_what_it_writes(variant: str) -> None:
    for row in cases(variant):
        message = row.message
        if isinstance(message, ApiVersionsResponse):
            # With an error it takes any version for 0, as a broker that knows only 0 would answer.
            message.error_code = 0
        ours = b"".join(encode(message, row.version))
        theirs = foreign_kinds()[row.kind.__name__].decode(ours, version=row.version)
        if isinstance(message, Request):
            # Some of its requests look at their header before they encode, even without one.
            theirs.with_header()
        assert decode(row.kind, row.version, theirs.encode()) == message, row.label
