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
from ottla.broker.handlers.registry import handler, served_versions
from ottla.model.error_codes import Code
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.registry import api
from ottla.wire.schema import Api, Request, decode, encode
from tests.broker.wire_client import Client

GOLDEN = Path(__file__).parents[2] / "golden" / "messages.jsonl"
SERVED = served_versions(zookeeper=False)
BY_NAME = {api(key).name: api(key) for key in SERVED}
REFUSED = "refused"  # by Kafka's own encoder: nothing to send


def requests() -> Iterator[tuple[Api, int, str, Request]]:  # type: ignore[type-arg]
    """Those of versions that are served without ZooKeeper."""
    for line in GOLDEN.read_text().splitlines():
        row = json.loads(line)
        known = BY_NAME.get(row["api"])
        if known is None or row["direction"] != "request" or row["bytes"] == REFUSED:
            continue
        if row["version"] in SERVED[known.key]:
            message = decode(known.request, row["version"], bytes.fromhex(row["bytes"]))
            yield known, row["version"], row["variant"], message


ALL = list(requests())


def test_every_served_version_is_among_them() -> None:
    found = {(known.key, version) for known, version, _, _ in ALL}
    served = {
        (key, version)
        for key, versions in SERVED.items()
        for version in range(versions.oldest, versions.newest + 1)
    }
    assert found == served


@pytest.mark.parametrize("name", BY_NAME)
def test_a_refusal_fits_into_every_version(name: str) -> None:
    """As a fault of a test, or when a handler fails."""
    for known, version, variant, message in ALL:
        if known.name == name:
            refusal = handler(known.key).refuse(message, Code.UNKNOWN_SERVER_ERROR, version)
            assert encode(refusal, version), f"v{version} {variant}"


@pytest.mark.parametrize("name", BY_NAME)
def test_every_request_is_answered(
    broker: EmbeddedBroker, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        for known, version, variant, message in ALL:
            if known.name != name:
                continue
            if isinstance(message, ProduceRequest) and message.acks == 0:
                continue
            with Client.of(broker.bootstrap) as client:
                answer = client.call(message, version)
            assert isinstance(answer, known.response), f"v{version} {variant}"
    assert [record.getMessage() for record in caplog.records] == []


@pytest.mark.parametrize("name", BY_NAME)
def test_a_fault_can_be_put_into_every_api(broker: EmbeddedBroker, name: str) -> None:
    known, version, _, message = [row for row in ALL if row[0].name == name][-1]
    if isinstance(message, ProduceRequest):
        message.acks = 1
    rule = broker.fail(name, Code.UNKNOWN_SERVER_ERROR)
    with Client.of(broker.bootstrap) as client:
        answer = client.call(message, version)
    assert isinstance(answer, known.response)
    assert rule.struck == 1
