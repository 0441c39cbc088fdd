"""Settings that users of Kafka bring along do here what they do there: replicas, addresses, compression."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.admin import Admin, NewTopic, broker_resource
from ottla.broker.embedded import EmbeddedBroker
from ottla.broker.settings.broker_config import BrokerConfig
from ottla.log.batch_header import whole_entries
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError
from ottla.records.compression import Codec
from ottla.wire.api.metadata import MetadataRequest, MetadataTopic
from tests.broker.traffic import data_of, fetch, numbered, produce, read_all
from tests.broker.wire_client import Client
from tests.log.record_sets import batch

NUMBERS = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
LARGE = [(b"k", bytes([number % 7]) * 2000) for number in range(20)]


@pytest.mark.parametrize("rows", [numbered(3), LARGE], ids=["small", "large"])
@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("wanted", NUMBERS)
def test_a_topic_compresses_anew(
    broker: EmbeddedBroker, client: Client, wanted: str, codec: Codec, rows: list[tuple[bytes, bytes]]
) -> None:
    topic = f"stored-{wanted}-{codec.label}-{len(rows)}"
    broker.create_topic(topic, config={"compression.type": wanted})
    for base in (0, len(rows)):  # the second may go through the express lane
        answer = produce(client, topic, batch(*rows, codec=codec))
        assert (answer.error_code, answer.base_offset) == (Code.NONE, base)
    stored = data_of(fetch(client, topic, 0))
    assert {header.codec for header in whole_entries(memoryview(stored))} == {NUMBERS[wanted]}
    assert [value for _, value in read_all(client, topic)] == [value for _, value in rows] * 2


def test_compression_can_change_while_the_broker_runs(broker: EmbeddedBroker, client: Client) -> None:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_configs(
            broker_resource(None), {"compression.type": "gzip", "num.io.threads": 9, "x.y": "1"}
        )
        broker.create_topic("later")
        produce(client, "later", batch(*numbered(3)))
        shown = admin.describe_configs(broker_resource(0))
        assert shown["num.io.threads"].value == "9"
        assert shown["x.y"].value is None  # it may be a secret of some plugin
        admin.alter_configs(
            broker_resource(None), {"compression.type": None, "num.io.threads": None, "x.y": None}
        )
        produce(client, "later", batch(*numbered(3)))
        assert "x.y" not in admin.describe_configs(broker_resource(0))
    entries = whole_entries(memoryview(data_of(fetch(client, "later", 0))))
    assert [header.codec for header in entries] == [1, 0]


def test_where_the_logs_are_is_described(broker: EmbeddedBroker) -> None:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        shown = admin.describe_configs(broker_resource(0))
    assert shown["log.dirs"].value == str(broker.data_dir)
    assert shown["default.replication.factor"].value == "1"


def test_the_default_replication_factor_counts_with_several_brokers() -> None:
    properties = {"default.replication.factor": "3", "num.partitions": "2"}
    with (
        EmbeddedBroker(brokers=3, properties=properties) as cluster,
        Admin(bootstrap_servers=cluster.bootstrap) as admin,
    ):
        assert admin.create_topics(NewTopic("made")).replication_factor == 3
        with Client.of(cluster.bootstrap) as client:
            client.call(MetadataRequest(topics=[MetadataTopic(name="auto")]), 9)
        described = admin.describe_topics("auto")
        assert {len(partition.replicas) for partition in described.partitions} == {3}
    with EmbeddedBroker(properties=properties) as alone, Admin(bootstrap_servers=alone.bootstrap) as admin:
        assert admin.create_topics(NewTopic("made")).replication_factor == 1


def test_several_brokers_are_advertised_with_ports_in_a_row() -> None:
    properties = {"advertised.listeners": "PLAINTEXT://kafka.example:29092"}
    with EmbeddedBroker(brokers=3, properties=properties) as cluster:
        host, port = "127.0.0.1", cluster.port
        with Client(host, port) as client:
            brokers = client.call(MetadataRequest(topics=[]), 9).brokers
    assert [(one.host, one.port) for one in brokers] == [("kafka.example", 29092 + n) for n in range(3)]
    with pytest.raises(ConfigError, match="65535 is the last port"):
        EmbeddedBroker(
            brokers=2, properties={"advertised.listeners": "PLAINTEXT://kafka.example:65535"}
        ).start()


def test_what_stands_beside_an_authorizer_is_known_without_one(tmp_path: Path) -> None:
    beside = {"allow.everyone.if.no.acl.found": "true", "super.users": "User:admin"}
    made = BrokerConfig.from_properties({**beside, "log.dirs": str(tmp_path)})
    assert made.ignored == ()
    assert not made.authorizer.is_on
    with pytest.raises(ConfigError, match=r"kafka.Acl: this broker runs no Java classes"):
        BrokerConfig.from_properties(
            {**beside, "log.dirs": str(tmp_path), "authorizer.class.name": "kafka.Acl"}
        )


def test_two_phase_commit_is_refused(tmp_path: Path) -> None:
    asked = {"transaction.two.phase.commit.enable": "true", "log.dirs": str(tmp_path)}
    with pytest.raises(ConfigError, match="second phase"):
        BrokerConfig.from_properties(asked)
