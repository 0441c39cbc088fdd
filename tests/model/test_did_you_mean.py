"""The hint is right or absent."""

from __future__ import annotations

import pytest

from ottla.broker.settings.broker_table import BROKER_SETTINGS
from ottla.client.client_config import CLIENT_PROPERTIES
from ottla.consumer.coordinated.group_consumer_config import GROUP_PROPERTIES
from ottla.model.did_you_mean import did_you_mean, hint
from ottla.producer.producer_config import PRODUCER_PROPERTIES

CLIENT = [row.name for row in CLIENT_PROPERTIES]
GROUP = [row.name for row in GROUP_PROPERTIES]
PRODUCER = [row.name for row in PRODUCER_PROPERTIES]


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("boostrap.servers", CLIENT, "bootstrap.servers"),
        ("bootstrap-servers", CLIENT, "bootstrap.servers"),
        ("bootstrapServers", CLIENT, "bootstrap.servers"),
        ("BOOTSTRAP_SERVER", CLIENT, "bootstrap.servers"),
        ("brokers", CLIENT, "bootstrap.servers"),
        ("request_timeout", CLIENT, "request.timeout.ms"),
        ("group", GROUP, "group.id"),
        ("groupid", GROUP, "group.id"),
        ("session.timeout", GROUP, "session.timeout.ms"),
        ("auto.commit", GROUP, "enable.auto.commit"),
        ("max_poll_record", GROUP, "max.poll.records"),
        ("username", GROUP, "sasl.username"),
        ("linger", PRODUCER, "linger.ms"),
        ("compression", PRODUCER, "compression.type"),
        ("num.partition", BROKER_SETTINGS, "num.partitions"),
        ("partitions", BROKER_SETTINGS, "num.partitions"),
        ("auto_create_topics", BROKER_SETTINGS, "auto.create.topics.enable"),
        ("log.retention.mss", BROKER_SETTINGS, "log.retention.ms"),
        ("zookeeper", BROKER_SETTINGS, "zookeeper.connect"),
    ],
)
def test_the_name_that_was_meant(name: str, known: list[str], meant: str) -> None:
    assert did_you_mean(name, known) == meant


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("colour", CLIENT),
        ("timeout.ms", GROUP),  # several have these words
        ("fetch.wind", GROUP),
        ("schema.registry.url", PRODUCER),
        ("statistics.interval.ms", PRODUCER),
        ("replicas", BROKER_SETTINGS),
        ("log", BROKER_SETTINGS),
        ("", CLIENT),
    ],
)
def test_a_name_that_is_like_no_other_gets_no_hint(name: str, known: list[str]) -> None:
    assert did_you_mean(name, known) is None
    assert hint(name, known, otherwise="; see the docs") == "; see the docs"
