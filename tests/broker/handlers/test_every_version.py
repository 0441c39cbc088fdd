"""Every API in every version that is served, with requests that Kafka's own classes made: there is an answer.

What is asked makes little sense (topics that do not exist, numbers out of thin air), which is how a handler
gets to its refusals. An answer that the version has no room for, or an error that nobody expected, would
close the connection or be logged.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.broker.handlers.registry import handlers
from ottla.broker.serving.handler import Handler
from ottla.model.error_codes import Code
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.schema import Request, decode, encode
from tests.broker.wire_client import Client

GOLDEN = Path(__file__).parents[2] / "golden" / "messages.jsonl"
BY_NAME = {handler.request.API.name: handler for handler in handlers().values()}
REFUSED = "refused"  # by Kafka's own encoder: nothing to send


def requests() -> Iterator[tuple[Handler, int, str, Request]]:  # type: ignore[type-arg]
    """Those of versions that are served without ZooKeeper."""
    for line in GOLDEN.read_text().splitlines():
        row = json.loads(line)
        handler = BY_NAME.get(row["api"])
        if handler is None or row["direction"] != "request" or row["bytes"] == REFUSED:
            continue
        if row["version"] in handler.served(zookeeper=False):
            message = decode(handler.request, row["version"], bytes.fromhex(row["bytes"]))
            yield handler, row["version"], row["variant"], message


ALL = list(requests())


def test_every_served_version_is_among_them() -> None:
    found = {(handler.request.API.key, version) for handler, version, _, _ in ALL}
    served = {
        (key, version)
        for key, handler in handlers().items()
        for version in range(handler.served(zookeeper=False).oldest, handler.versions.newest + 1)
    }
    assert found == served


@pytest.mark.parametrize("name", BY_NAME)
def test_a_refusal_fits_into_every_version(name: str) -> None:
    """As a fault of a test, or when a handler fails."""
    for handler, version, variant, message in ALL:
        if handler.request.API.name == name:
            refusal = handler.refuse(message, Code.UNKNOWN_SERVER_ERROR, version)
            assert encode(refusal, version), f"v{version} {variant}"


@pytest.mark.parametrize("name", BY_NAME)
def test_every_request_is_answered(
    broker: EmbeddedBroker, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        for handler, version, variant, message in ALL:
            if handler.request.API.name != name:
                continue
            if isinstance(message, ProduceRequest) and message.acks == 0:
                continue
            with Client.of(broker.bootstrap) as client:
                answer = client.call(message, version)
            assert isinstance(answer, handler.request.API.response), f"v{version} {variant}"
    assert [record.getMessage() for record in caplog.records] == []


@pytest.mark.parametrize("name", BY_NAME)
def test_a_fault_can_be_put_into_every_api(broker: EmbeddedBroker, name: str) -> None:
    handler, version, _, message = [row for row in ALL if row[0].request.API.name == name][-1]
    if isinstance(message, ProduceRequest):
        message.acks = 1
    rule = broker.fail(name, Code.UNKNOWN_SERVER_ERROR)
    with Client.of(broker.bootstrap) as client:
        answer = client.call(message, version)
    assert isinstance(answer, handler.request.API.response)
    assert rule.struck == 1
