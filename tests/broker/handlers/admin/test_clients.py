"""The admin clients of confluent-kafka and kafka-python against the broker."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.embedded import EmbeddedBroker
from tests.broker.handlers.admin.calls import created, produce
from tests.broker.wire_client import Client
from tests.kafka_python import KafkaAdminClient

TIMEOUT_S = 120


def test_confluent_kafka(cluster: EmbeddedBroker, clients: list[Client]) -> None:
    confluent = pytest.importorskip("confluent_kafka")
    kinds = pytest.importorskip("confluent_kafka.admin")
    admin = kinds.AdminClient({"bootstrap.servers": cluster.bootstrap})

    def done(futures: dict[Any, Any]) -> list[Any]:
        return [future.result(TIMEOUT_S) for future in futures.values()]

    done(admin.create_topics([kinds.NewTopic("librd", 2, 2, config={"retention.ms": "9000"})]))
    with pytest.raises(confluent.KafkaException) as refused:
        done(admin.create_topics([kinds.NewTopic("librd", 2, 2)]))
    assert refused.value.args[0].code() == confluent.KafkaError.TOPIC_ALREADY_EXISTS
    done(admin.create_partitions([kinds.NewPartitions("librd", 4)]))
    found = admin.list_topics("librd", timeout=TIMEOUT_S).topics["librd"].partitions
    assert [(one.leader, one.replicas) for one in found.values()] == [
        (0, [0, 1]),
        (1, [1, 2]),
        (2, [2, 0]),
        (0, [0, 1]),
    ]
    resource = kinds.ConfigResource(kinds.ResourceType.TOPIC, "librd")
    (configs,) = done(admin.describe_configs([resource]))
    assert configs["retention.ms"].value == "9000"
    change = kinds.ConfigEntry("segment.ms", "4000", incremental_operation=kinds.AlterConfigOpType.SET)
    changing = kinds.ConfigResource(kinds.ResourceType.TOPIC, "librd", incremental_configs=[change])
    done(admin.incremental_alter_configs([changing]))
    (configs,) = done(admin.describe_configs([resource]))
    assert (configs["segment.ms"].value, configs["retention.ms"].value) == ("4000", "9000")
    (broker,) = done(admin.describe_configs([kinds.ConfigResource(kinds.ResourceType.BROKER, "1")]))
    assert broker["broker.id"].value == "1"
    produce(clients[0], "librd", 3)
    (records,) = done(admin.delete_records([confluent.TopicPartition("librd", 0, 2)]))
    assert records.low_watermark == 2
    described = admin.describe_cluster(request_timeout=TIMEOUT_S).result(TIMEOUT_S)
    assert [node.id for node in described.nodes] == [0, 1, 2]
    (topic,) = done(admin.describe_topics(confluent.TopicCollection(["librd"])))
    assert len(topic.partitions) == 4
    done(admin.delete_topics(["librd"], operation_timeout=TIMEOUT_S))
    assert "librd" not in admin.list_topics(timeout=TIMEOUT_S).topics


def test_kafka_python(cluster: EmbeddedBroker, clients: list[Client]) -> None:
    kinds = pytest.importorskip("kafka.admin")
    errors = pytest.importorskip("kafka.errors")
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    try:
        admin.create_topics([kinds.NewTopic("pure", 2, 1, topic_configs={"retention.ms": "9000"})])
        with pytest.raises(errors.TopicAlreadyExistsError):
            admin.create_topics([kinds.NewTopic("pure", 2, 1)])
        admin.create_partitions({"pure": kinds.NewPartitions(3)})
        assert len(admin.describe_topics(["pure"])[0]["partitions"]) == 3
        assert admin.describe_cluster()["cluster_id"]
        produce(clients[0], "pure", 3)
        created(clients[0], "impure")
        assert {"pure", "impure"} <= set(admin.list_topics())
        admin.delete_topics(["pure"])
        assert "pure" not in admin.list_topics()
    finally:
        admin.close()
