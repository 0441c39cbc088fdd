"""The access table beside Apache Kafka's: the same requests of the same users get the same verdicts.

What Kafka says is in tests/golden/access.jsonl, made by `python -m tests.broker.security.access_requests`.
"""

from __future__ import annotations

import json

from ottla.broker.embedded import EmbeddedBroker
from ottla.model.error_codes import Code
from ottla.wire.api.produce import ProducePartition, ProduceRequest, ProduceTopic
from tests.broker.security.access_requests import (
    GOLDEN,
    ONLY,
    SETTINGS,
    WITHOUT,
    kafkas_verdicts,
    logged_in,
    prepare,
    verdicts,
)
from tests.broker.security.access_rows import REQUESTS, TOPIC
from tests.log.record_sets import batch
from tests.scale import nightly

LISTENERS = {"listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0"}
STRICTER = "1 Produce 9"
"""Kafka asks for rights on the transactional id only if the batch is in a transaction; we always do."""


def test_every_user_gets_kafkas_verdict() -> None:
    kafkas = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
    with EmbeddedBroker(properties={**SETTINGS, **LISTENERS}) as broker:
        prepare(broker.bootstrap)
        ours = list(verdicts(broker.bootstrap_at("SASL_PLAINTEXT")))
    assert len(ours) == len(kafkas) == len(REQUESTS) * (1 + len(ONLY) + len(WITHOUT))
    differing = [
        f"{row['request']} as {row['user']}: {row['verdict']}, Kafka {kafka['verdict']}"
        for row, kafka in zip(ours, kafkas, strict=True)
        if row != kafka and row["request"] != STRICTER
    ]
    assert differing == []


@nightly("asks Apache Kafka again")
def test_kafka_still_says_so() -> None:
    assert list(kafkas_verdicts()) == [json.loads(line) for line in GOLDEN.read_text().splitlines()]


def test_a_batch_of_a_transaction_names_it() -> None:
    """Else rights on the transactional id would not be asked for, also where the lane knows the request."""
    plain, transactional = (
        batch((b"k", b"v")),
        batch((b"k", b"v"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True),
    )
    with EmbeddedBroker(properties={**SETTINGS, **LISTENERS}) as broker:
        prepare(broker.bootstrap)
        with logged_in(broker.bootstrap_at("SASL_PLAINTEXT"), "topic-write") as client:
            for records, error in (
                (plain, Code.NONE),
                (plain, Code.NONE),
                (transactional, Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
                (plain, Code.NONE),
            ):
                part = ProducePartition(index=0, records=records)
                request = ProduceRequest(
                    acks=-1, timeout_ms=5000, topic_data=[ProduceTopic(name=TOPIC, partition_data=[part])]
                )
                answer = client.call(request, 9)
                assert answer.responses[0].partition_responses[0].error_code == error
