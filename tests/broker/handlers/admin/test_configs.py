"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs: over a socket, at once, and after a restart."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.broker.storage.record_batches import batch_of
from ottla.model.error_codes import Code
from ottla.wire.api import alter_configs, incremental_alter_configs
from ottla.wire.api.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribedConfig,
    DescribedResource,
)
from ottla.wire.api.produce import ProducePartition, ProduceRequest, ProduceTopic
from tests.broker.handlers.admin.calls import create as create_topics
from tests.broker.handlers.admin.calls import created, delete, described, names, topic
from tests.broker.wire_client import Client

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC_CONFIG, BROKER_CONFIG, BROKERS_CONFIG, STATIC, DEFAULT = 1, 2, 3, 4, 5


def resource(
    client: Client, kind: int, name: str, keys: list[str] | None = None, *, version: int = 4
) -> DescribedResource:
    asked = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    request = DescribeConfigsRequest(resources=[asked])
    if version >= 1:
        request.include_synonyms = True
    if version >= 3:
        request.include_documentation = True
    (found,) = client.call(request, version).results
    assert (found.resource_type, found.resource_name) == (kind, name)
    return found


def configs(client: Client, kind: int, name: str, **fields: Any) -> dict[str, DescribedConfig]:
    found = resource(client, kind, name, **fields)
    assert found.error_code == Code.NONE, found.error_message
    return {one.name: one for one in found.configs}


def value(client: Client, kind: int, name: str, config: str) -> tuple[str | None, int]:
    found = configs(client, kind, name)[config]
    return found.value, found.config_source


def alter(
    client: Client,
    kind: int,
    name: str,
    changes: Mapping[str, tuple[int, str | None]],
    *,
    version: int = 1,
    validate_only: bool = False,
) -> tuple[int, str | None]:
    """Change single settings: the error and its message."""
    entries = [
        incremental_alter_configs.IncrementalAlterConfig(name=config, config_operation=operation, value=text)
        for config, (operation, text) in changes.items()
    ]
    asked = incremental_alter_configs.IncrementalAlterResource(
        resource_type=kind, resource_name=name, configs=entries
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[asked], validate_only=validate_only
    )
    (result,) = client.call(request, version).responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result.error_code, result.error_message


def replace(
    client: Client,
    kind: int,
    name: str,
    settings: Mapping[str, str | None],
    *,
    version: int = 2,
    validate_only: bool = False,
) -> tuple[int, str | None]:
    """Replace all settings: the error and its message."""
    entries = [alter_configs.AlterConfig(name=config, value=text) for config, text in settings.items()]
    asked = alter_configs.AlterResource(resource_type=kind, resource_name=name, configs=entries)
    request = alter_configs.AlterConfigsRequest(resources=[asked], validate_only=validate_only)
    (result,) = client.call(request, version).responses
    return result.error_code, result.error_message


def produce_error(client: Client, name: str, records: bytes) -> int:
    data = [ProduceTopic(name=name, partition_data=[ProducePartition(index=0, records=records)])]
    response = client.call(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=data), 9)
    return response.responses[0].partition_responses[0].error_code


# --- describe -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(5))
def test_a_topic_in_every_version(client: Client, version: int) -> None:
    name = created(client, f"told-{version}", retention_ms="1000")
    found = configs(client, TOPIC, name, version=version)
    own, other = found["retention.ms"], found["segment.bytes"]
    assert (own.value, other.value) == ("1000", "1073741824")
    assert not own.read_only
    if version == 0:
        assert (own.is_default, other.is_default) == (False, True)
    else:
        assert (own.config_source, other.config_source) == (TOPIC_CONFIG, DEFAULT)
        assert [one.name for one in own.synonyms] == ["retention.ms", "log.retention.hours"]
    if version >= 3:
        assert own.config_type == 5
        assert own.documentation


@pytest.mark.parametrize("version", range(5))
def test_a_broker_in_every_version(clients: list[Client], version: int) -> None:
    for broker_id, client in enumerate(clients):
        found = configs(client, BROKER, str(broker_id), version=version)
        assert found["broker.id"].value == str(broker_id)
        assert found["offsets.topic.num.partitions"].value == "4"
        assert found["offsets.topic.num.partitions"].read_only
        if version >= 1:
            assert found["offsets.topic.num.partitions"].config_source == STATIC


def test_only_what_is_asked_for(client: Client) -> None:
    name = created(client, "asked")
    found = resource(client, TOPIC, name, ["segment.bytes", "no.such.setting"])
    assert [one.name for one in found.configs] == ["segment.bytes"]
    assert len(resource(client, TOPIC, name, []).configs) == len(resource(client, TOPIC, name).configs) > 30


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "nowhere", Code.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "", Code.INVALID_TOPIC_EXCEPTION),
        (BROKER, "1", Code.INVALID_REQUEST),
        (BROKER, "first", Code.INVALID_REQUEST),
        (BROKER_LOGGER, "", Code.INVALID_REQUEST),
        (CLIENT_METRICS, "", Code.INVALID_REQUEST),
        (GROUP, "", Code.INVALID_REQUEST),
        (0, "x", Code.INVALID_REQUEST),
        (99, "x", Code.INVALID_REQUEST),
    ],
)
def test_what_has_no_settings_here(client: Client, kind: int, name: str, error: Code) -> None:
    found = resource(client, kind, name)
    assert (found.error_code, found.configs) == (error, [])
    assert found.error_message
    if (kind, name) == (TOPIC, ""):
        error = Code.INVALID_REQUEST  # as Kafka: all topics at once cannot be altered
    for code, message in (
        alter(client, kind, name, {"retention.ms": (SET, "1")}),
        replace(client, kind, name, {"retention.ms": "1"}),
    ):
        assert code == error
        assert message


# --- alter topics ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(2))
def test_single_settings_in_every_version(clients: list[Client], version: int) -> None:
    client = clients[2]  # any broker does it
    name = created(client, f"single-{version}", retention_ms="1000", segment_bytes="2000")
    changes = {
        "retention.ms": (DELETE, None),
        "max.message.bytes": (SET, "500"),
        "cleanup.policy": (APPEND, "compact"),
    }
    assert alter(client, TOPIC, name, changes, version=version, validate_only=True) == (Code.NONE, None)
    assert value(client, TOPIC, name, "max.message.bytes")[1] == DEFAULT
    assert alter(client, TOPIC, name, changes, version=version) == (Code.NONE, None)
    for one in clients:
        assert value(one, TOPIC, name, "retention.ms") == ("604800000", DEFAULT)
        assert value(one, TOPIC, name, "max.message.bytes") == ("500", TOPIC_CONFIG)
        assert value(one, TOPIC, name, "cleanup.policy") == ("delete,compact", TOPIC_CONFIG)
        assert value(one, TOPIC, name, "segment.bytes") == ("2000", TOPIC_CONFIG)
    changes = {"cleanup.policy": (SUBTRACT, "delete")}
    assert alter(client, TOPIC, name, changes, version=version) == (Code.NONE, None)
    assert value(client, TOPIC, name, "cleanup.policy") == ("compact", TOPIC_CONFIG)


@pytest.mark.parametrize("version", range(3))
def test_all_settings_in_every_version(client: Client, version: int) -> None:
    name = created(client, f"all-{version}", retention_ms="1000")
    asked = {"segment.bytes": "3000"}
    assert replace(client, TOPIC, name, asked, version=version, validate_only=True) == (Code.NONE, None)
    assert value(client, TOPIC, name, "retention.ms") == ("1000", TOPIC_CONFIG)
    assert replace(client, TOPIC, name, asked, version=version) == (Code.NONE, None)
    assert value(client, TOPIC, name, "retention.ms")[1] == DEFAULT
    assert value(client, TOPIC, name, "segment.bytes") == ("3000", TOPIC_CONFIG)


def test_a_topics_setting_counts_at_once(client: Client) -> None:
    name = created(client, "strict")
    records = bytes(batch_of([(None, b"x" * 1000)], 1_700_000_000_000).data)
    assert produce_error(client, name, records) == Code.NONE
    assert alter(client, TOPIC, name, {"max.message.bytes": (SET, "500")}) == (Code.NONE, None)
    assert produce_error(client, name, records) == Code.MESSAGE_TOO_LARGE
    assert alter(client, TOPIC, name, {"max.message.bytes": (DELETE, None)}) == (Code.NONE, None)
    assert produce_error(client, name, records) == Code.NONE


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"retention.ms": (SET, "soon")}, Code.INVALID_CONFIG),
        ({"retension.ms": (SET, "1")}, Code.INVALID_CONFIG),
        ({"retention.ms": (APPEND, "1")}, Code.INVALID_CONFIG),
        ({"retention.ms": (SET, None)}, Code.INVALID_REQUEST),
        ({"retention.ms": (9, "1")}, Code.INVALID_REQUEST),
        ({"segment.ms": (SET, "5"), "retention.ms": (SET, "soon")}, Code.INVALID_CONFIG),
    ],
)
def test_a_bad_change_changes_nothing(
    client: Client, changes: dict[str, tuple[int, str | None]], error: Code
) -> None:
    if "firm" not in names(client):
        created(client, "firm")
    before = [(one.name, one.value) for one in resource(client, TOPIC, "firm").configs]
    for validate_only in (True, False):
        code, message = alter(client, TOPIC, "firm", changes, validate_only=validate_only)
        assert code == error
        assert message
    assert [(one.name, one.value) for one in resource(client, TOPIC, "firm").configs] == before


def test_a_resource_is_named_once(client: Client) -> None:
    name = created(client, "twice")
    asked = alter_configs.AlterResource(resource_type=TOPIC, resource_name=name)
    request = alter_configs.AlterConfigsRequest(resources=[asked, asked])
    assert [one.error_code for one in client.call(request).responses] == [Code.INVALID_REQUEST] * 2


# --- alter brokers --------------------------------------------------------------------------------------


def test_brokers_defaults_count_for_topics_at_once() -> None:
    with EmbeddedBroker(brokers=2) as broker, Client.of(broker.bootstrap) as client:
        created(client, "follows")
        created(client, "firm", retention_ms="5")
        for_all, for_one = {"log.retention.ms": (SET, "3000")}, {"log.retention.ms": (SET, "2000")}
        assert alter(client, BROKER, "", for_all) == (Code.NONE, None)
        assert value(client, TOPIC, "follows", "retention.ms") == ("3000", BROKERS_CONFIG)
        assert value(client, BROKER, "0", "log.retention.ms") == ("3000", BROKERS_CONFIG)
        assert [one.name for one in resource(client, BROKER, "").configs] == ["log.retention.ms"]
        assert alter(client, BROKER, "0", for_one) == (Code.NONE, None)
        assert value(client, TOPIC, "follows", "retention.ms") == ("2000", BROKER_CONFIG)
        assert value(client, TOPIC, "firm", "retention.ms") == ("5", TOPIC_CONFIG)
        (made,) = create_topics(client, topic("later"))
        assert {one.name: one.value for one in made.configs or []}["retention.ms"] == "2000"
        assert replace(client, BROKER, "0", {}) == (Code.NONE, None)
        assert alter(client, BROKER, "", {"log.retention.ms": (DELETE, None)}) == (Code.NONE, None)
        assert value(client, TOPIC, "follows", "retention.ms") == ("604800000", DEFAULT)


def test_a_brokers_default_is_enforced_at_once() -> None:
    records = bytes(batch_of([(None, b"x" * 1000)], 1_700_000_000_000).data)
    with EmbeddedBroker() as broker, Client.of(broker.bootstrap) as client:
        created(client, "t")
        assert alter(client, BROKER, "0", {"message.max.bytes": (SET, "500")}) == (Code.NONE, None)
        assert produce_error(client, "t", records) == Code.MESSAGE_TOO_LARGE
        broker.stop()
        broker.start()
        with Client.of(broker.bootstrap) as again:
            assert produce_error(again, "t", records) == Code.MESSAGE_TOO_LARGE
            assert replace(again, BROKER, "0", {}) == (Code.NONE, None)
            assert produce_error(again, "t", records) == Code.NONE


def test_what_a_running_broker_does_not_take(clients: list[Client]) -> None:
    client = clients[0]
    for changes in (
        {"broker.id": (SET, "7")},
        {"log.retention.ms": (SET, "soon")},
        {"log.retention.ms": (SET, "0")},
        {"num.io.threads": (SET, "many")},
    ):
        for name in ("", "0"):
            code, message = alter(client, BROKER, name, changes)
            assert code in (Code.INVALID_REQUEST, Code.INVALID_CONFIG)
            assert message
    for validate_only in (True, False):
        code, message = alter(
            clients[1], BROKER, "1", {"log.retention.ms": (SET, "1")}, validate_only=validate_only
        )
        assert code == Code.INVALID_REQUEST, "all share the first one's"
        assert "broker 0" in (message or "")


def test_a_brokers_default_must_not_contradict_a_topic() -> None:
    with EmbeddedBroker() as broker, Client.of(broker.bootstrap) as client:
        created(client, "lagging", min_compaction_lag_ms="1000")
        code, message = alter(client, BROKER, "", {"log.cleaner.max.compaction.lag.ms": (SET, "500")})
        assert code == Code.INVALID_REQUEST
        assert "lagging" in (message or "")
        assert resource(client, BROKER, "").configs == []
        assert delete(client, "lagging") == [Code.NONE]
        assert alter(client, BROKER, "", {"log.cleaner.max.compaction.lag.ms": (SET, "500")})[0] == Code.NONE


def test_settings_survive_a_restart(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path, brokers=2) as broker:
        with Client.of(broker.bootstrap) as client:
            created(client, "kept")
            assert alter(client, TOPIC, "kept", {"segment.ms": (SET, "777")})[0] == Code.NONE
            assert alter(client, BROKER, "", {"log.retention.ms": (SET, "3000")})[0] == Code.NONE
            assert alter(client, BROKER, "0", {"max.connections": (SET, "55")})[0] == Code.NONE
        broker.stop()
        broker.start()
        with Client.of(broker.bootstrap) as client:
            assert described(client, "kept").error_code == Code.NONE
            assert value(client, TOPIC, "kept", "segment.ms") == ("777", TOPIC_CONFIG)
            assert value(client, TOPIC, "kept", "retention.ms") == ("3000", BROKERS_CONFIG)
            assert value(client, BROKER, "0", "max.connections") == ("55", BROKER_CONFIG)
