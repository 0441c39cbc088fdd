"""A broker that refuses some records of a batch names them: these fail with the reason, the others do not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, OttlaError
from ottla.producer import Producer

TIMEOUT_S = 60
BAD = range(3, 100, 10)
OTHERS = "not stored, because other records of its batch were refused"
KEYLESS = "a compacted topic takes no record without a key"


@pytest.fixture
def one(broker: EmbeddedBroker) -> Iterator[Producer]:
    with Producer(bootstrap_servers=broker.bootstrap, linger_ms=60_000) as producer:
        yield producer


def make_topic(broker: EmbeddedBroker, name: str, **config: Any) -> str:
    broker.create_topic(name, config=config)
    return name


def failure(error: OttlaError | None, code: Code) -> str:
    assert isinstance(error, KafkaError)
    assert error.code == code
    return str(error)


@pytest.mark.parametrize("count", [40, 100])  # few are walked, many are columns
def test_records_without_keys_in_a_compacted_topic(broker: EmbeddedBroker, one: Producer, count: int) -> None:
    topic = make_topic(broker, f"compacted-{count}", cleanup_policy="compact")
    sent = [one.send(topic, b"v", None if row in BAD else b"k") for row in range(count)]
    with pytest.raises(KafkaError):
        one.flush(TIMEOUT_S)
    texts = [failure(delivery.exception(TIMEOUT_S), Code.INVALID_RECORD) for delivery in sent]
    assert [row for row in range(count) if KEYLESS in texts[row]] == [row for row in BAD if row < count]
    assert sum(OTHERS in text for text in texts) == count - len([row for row in BAD if row < count])


@pytest.mark.parametrize("age_ms", [10**8, -(10**8)])
@pytest.mark.parametrize("count", [40, 100])
def test_times_that_are_too_far_away(broker: EmbeddedBroker, one: Producer, count: int, age_ms: int) -> None:
    limits = {"message_timestamp_before_max_ms": 10**7, "message_timestamp_after_max_ms": 10**7}
    topic = make_topic(broker, f"times-{count}-{age_ms > 0}", **limits)
    now_ms = int(time.time() * 1000)
    times = [now_ms - age_ms if row in BAD else now_ms for row in range(count)]
    table = pa.table({"value": [b"v"] * count, "timestamp": times})
    delivery = one.send_batch(topic, table)
    one_by_one = [one.send(topic, b"v", timestamp_ms=at) for at in times]
    with pytest.raises(KafkaError):
        one.flush(TIMEOUT_S)
    failed = {
        int(row): failure(error, Code.INVALID_TIMESTAMP)
        for rows, error in delivery.failures(TIMEOUT_S)
        for row in rows
    }
    bad = [row for row in BAD if row < count]
    assert sorted(failed) == list(range(count))
    assert [row for row in sorted(failed) if f"timestamp {now_ms - age_ms} is" in failed[row]] == bad
    texts = [failure(sent.exception(TIMEOUT_S), Code.INVALID_TIMESTAMP) for sent in one_by_one]
    assert [row for row in range(count) if OTHERS not in texts[row]] == bad


def test_a_producer_goes_on_after_refused_records(broker: EmbeddedBroker, one: Producer) -> None:
    topic = make_topic(broker, "goes-on", cleanup_policy="compact")
    refused = one.send(topic, b"v")
    with pytest.raises(KafkaError, match=KEYLESS):
        one.flush(TIMEOUT_S)
    assert refused.done()
    accepted = one.send(topic, b"v", b"k")
    one.flush(TIMEOUT_S)
    assert accepted.result(TIMEOUT_S).offset == 0
