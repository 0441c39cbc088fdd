"""What consoles and tools ask beyond topics and groups, over a socket: settings of groups, quotas, moves."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.broker.settings.loggers import logger_levels
from ottla.model.error_codes import Code
from ottla.wire.api.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterQuotaEntity,
    QuotaChange,
    QuotaChanges,
)
from ottla.wire.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.api.api_versions import ApiVersionsRequest
from ottla.wire.api.describe_client_quotas import DescribeClientQuotasRequest, QuotaFilter
from ottla.wire.api.describe_quorum import DescribeQuorumRequest, QuorumPartitionRequest, QuorumTopicRequest
from ottla.wire.api.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    PartitionCursor,
    TopicName,
)
from ottla.wire.api.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from ottla.wire.api.incremental_alter_configs import (
    IncrementalAlterConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterResource,
)
from ottla.wire.api.list_config_resources import ListConfigResourcesRequest
from ottla.wire.api.push_telemetry import PushTelemetryRequest
from tests.broker.handlers.admin.calls import create, created, described, produce, topic
from tests.broker.wire_client import Client
from tools.peers import KAFKA_4, RealKafka

GROUP, CLIENT_METRICS, BROKER_LOGGER = 32, 16, 8


def configure(client: Client, kind: int, name: str, setting: str, value: str) -> int:
    change = IncrementalAlterConfig(name=setting, config_operation=0, value=value)
    resource = IncrementalAlterResource(resource_type=kind, resource_name=name, configs=[change])
    return client.call(IncrementalAlterConfigsRequest(resources=[resource])).responses[0].error_code


def move(client: Client, name: str, replicas: list[int] | None, version: int = 1, **more: bool) -> int:
    part = ReassignablePartition(partition_index=0, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=name, partitions=[part])], **more
    )
    response = client.call(request, version)
    assert response.error_code == Code.NONE
    return response.responses[0].partitions[0].error_code


def test_partitions_move_between_the_brokers_of_a_process(clients: list[Client]) -> None:
    client = clients[0]
    create(client, topic("moved", assignments={0: [0]}))
    produce(client, "moved", 2)
    epoch = described(client, "moved").partitions[0].leader_epoch
    assert move(client, "moved", [2, 1]) == Code.NONE
    partition = described(clients[1], "moved").partitions[0]
    assert (partition.leader_id, partition.replica_nodes, partition.isr_nodes) == (2, [2, 1], [2, 1])
    assert partition.leader_epoch > epoch
    produce(clients[2], "moved", 1)
    assert move(client, "moved", [1, 2], version=0) == Code.NONE
    assert described(client, "moved").partitions[0].leader_id == 2, "a leader that stays a replica stays"
    assert move(client, "moved", [0], allow_replication_factor_change=False) == (
        Code.INVALID_REPLICATION_FACTOR
    )
    assert move(client, "moved", [0, 9]) == Code.INVALID_REPLICA_ASSIGNMENT
    assert move(client, "moved", None) == Code.NO_REASSIGNMENT_IN_PROGRESS
    assert move(client, "nowhere", [0]) == Code.UNKNOWN_TOPIC_OR_PARTITION


def quota(client: Client, entity: dict[str, str | None], *changes: tuple[str, float | None]) -> int:
    parts = [AlterQuotaEntity(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    ops = [QuotaChange(key=key, value=value or 0.0, remove=value is None) for key, value in changes]
    request = AlterClientQuotasRequest(entries=[QuotaChanges(entity=parts, ops=ops)])
    return client.call(request).entries[0].error_code


def quotas(client: Client) -> list[tuple[dict[str, str | None], dict[str, float]]]:
    entries = client.call(DescribeClientQuotasRequest()).entries or ()
    return [
        (
            {part.entity_type: part.entity_name for part in one.entity},
            {value.key: value.value for value in one.values},
        )
        for one in entries
    ]


def test_quotas_and_settings_of_groups_survive_a_restart(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker, Client.of(broker.bootstrap) as client:
        assert quota(client, {"user": "u"}, ("producer_byte_rate", 5.0), ("request_percentage", 1.5)) == 0
        assert quota(client, {"user": None}, ("consumer_byte_rate", 7.0)) == Code.NONE
        assert quota(client, {"user": "u"}, ("request_percentage", None)) == Code.NONE
        assert quota(client, {"user": ""}, ("consumer_byte_rate", 7.0)) == Code.INVALID_REQUEST
        twice = ("consumer_byte_rate", 1.0), ("consumer_byte_rate", 2.0)
        assert quota(client, {"user": "u"}, *twice) == Code.INVALID_REQUEST
        assert quota(client, {}, ("consumer_byte_rate", 7.0)) == Code.INVALID_REQUEST
        assert configure(client, GROUP, "g", "consumer.session.timeout.ms", "50000") == Code.NONE
        assert configure(client, CLIENT_METRICS, "m", "interval.ms", "500") == Code.NONE
    with EmbeddedBroker(tmp_path) as broker, Client.of(broker.bootstrap) as client:
        assert quotas(client) == [
            ({"user": "u"}, {"producer_byte_rate": 5.0}),
            ({"user": None}, {"consumer_byte_rate": 7.0}),
        ]
        listed = client.call(ListConfigResourcesRequest(resource_types=[GROUP, CLIENT_METRICS]))
        assert [(one.resource_name, one.resource_type) for one in listed.config_resources] == [
            ("g", GROUP),
            ("m", CLIENT_METRICS),
        ]
        (only,) = client.call(ListConfigResourcesRequest(), 0).config_resources
        assert only.resource_name == "m"
        names = {one.resource_name for one in client.call(ListConfigResourcesRequest()).config_resources}
        assert names == {"g", "m", "0"}


def test_a_filter_that_makes_no_sense_is_refused(client: Client) -> None:
    wrong = [
        [QuotaFilter(entity_type="user", match_type=0, match=None)],
        [QuotaFilter(entity_type="user", match_type=1, match="u")],
        [QuotaFilter(entity_type="user", match_type=9, match=None)],
        [QuotaFilter(entity_type="", match_type=0, match="u")],
        [QuotaFilter(entity_type="user", match_type=1)] * 2,
    ]
    for components in wrong:
        answer = client.call(DescribeClientQuotasRequest(components=components))
        assert (answer.error_code, answer.entries) == (Code.INVALID_REQUEST, None)


def test_topics_are_described_in_parts(client: Client) -> None:
    created(client, "parts-a", 3)
    created(client, "parts-b", 2)
    asked = [TopicName(name=name) for name in ("parts-b", "nowhere", "parts-a", "a b")]
    seen: list[tuple[str | None, int, list[int]]] = []
    cursor = None
    for _ in range(10):
        request = DescribeTopicPartitionsRequest(topics=asked, response_partition_limit=2, cursor=cursor)
        answer = client.call(request)
        assert sum(len(one.partitions) for one in answer.topics) <= 2
        seen += [
            (one.name, one.error_code, [part.partition_index for part in one.partitions])
            for one in answer.topics
        ]
        cursor = answer.next_cursor
        if cursor is None:
            break
    assert seen == [
        ("a b", Code.INVALID_TOPIC_EXCEPTION, []),
        ("nowhere", Code.UNKNOWN_TOPIC_OR_PARTITION, []),
        ("parts-a", 0, [0, 1]),
        ("parts-a", 0, [2]),
        ("parts-b", 0, [0]),
        ("parts-b", 0, [1]),
    ]
    everything = client.call(DescribeTopicPartitionsRequest())
    assert {"parts-a", "parts-b"} <= {one.name for one in everything.topics}
    for wrong in (
        PartitionCursor(topic_name="zzz"),
        PartitionCursor(topic_name="parts-a", partition_index=-1),
    ):
        answer = client.call(DescribeTopicPartitionsRequest(topics=asked, cursor=wrong))
        assert {one.error_code for one in answer.topics} == {Code.INVALID_REQUEST}


def test_the_first_broker_is_the_quorum(client: Client) -> None:
    part = QuorumPartitionRequest(partition_index=0)
    topics = [QuorumTopicRequest(topic_name=name, partitions=[part]) for name in ("__cluster_metadata", "t")]
    answer = client.call(DescribeQuorumRequest(topics=topics))
    (known,), (unknown,) = (one.partitions for one in answer.topics)
    assert (known.leader_id, [one.replica_id for one in known.current_voters]) == (0, [0])
    assert [one.replica_id for one in known.observers] == [1, 2]
    assert unknown.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert [node.node_id for node in answer.nodes] == [0]


def test_loggers_are_set_and_left_to_those_above_them(client: Client) -> None:
    name = "ottla.broker.node"
    logging.getLogger(name)
    before = logger_levels()[name]
    try:
        assert configure(client, BROKER_LOGGER, "0", name, "ERROR") == Code.NONE
        assert logger_levels()[name] == "ERROR"
        assert configure(client, BROKER_LOGGER, "0", name, "LOUD") == Code.INVALID_CONFIG
        assert configure(client, BROKER_LOGGER, "0", "ottla.nobody", "INFO") == Code.INVALID_CONFIG
        assert configure(client, BROKER_LOGGER, "1", name, "INFO") == Code.INVALID_REQUEST
        change = IncrementalAlterConfig(name=name, config_operation=1, value=None)
        resource = IncrementalAlterResource(resource_type=BROKER_LOGGER, resource_name="0", configs=[change])
        assert not client.call(IncrementalAlterConfigsRequest(resources=[resource])).responses[0].error_code
        assert logger_levels()[name] == before
    finally:
        logging.getLogger(name).setLevel(logging.NOTSET)


# --- telemetry, which no Kafka lists without a plugin ---------------------------------------------------


@pytest.fixture(scope="module", params=["ottla", KAFKA_4])
def asked(request: pytest.FixtureRequest, real_kafka: Callable[[str], RealKafka]) -> Iterator[Client]:
    if request.param == "ottla":
        with EmbeddedBroker() as broker, Client.of(broker.bootstrap) as client:
            yield client
    else:
        with Client.of(real_kafka(request.param).bootstrap) as client:
            yield client


def test_telemetry_is_answered_as_without_a_plugin(asked: Client) -> None:
    listed = {one.api_key for one in asked.call(ApiVersionsRequest("test", "1"), 4).api_keys}
    assert not listed & {71, 72}
    answer = asked.call(GetTelemetrySubscriptionsRequest())
    assert answer.error_code == Code.NONE
    assert answer.client_instance_id != bytes(16)
    assert (answer.requested_metrics, answer.delta_temporality) == ([], True)
    assert (answer.push_interval_ms, answer.telemetry_max_bytes) == (300_000, 1 << 20)
    assert answer.accepted_compression_types == [4, 3, 1, 2]
    named = answer.client_instance_id
    wrong = PushTelemetryRequest(client_instance_id=named, subscription_id=answer.subscription_id + 1)
    assert asked.call(wrong).error_code == Code.UNKNOWN_SUBSCRIPTION_ID
    assert asked.call(PushTelemetryRequest()).error_code == Code.INVALID_REQUEST
