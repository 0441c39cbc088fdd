"""AlterConfigs and IncrementalAlterConfigs. The codes are those that a Kafka 3.9.1 gave to the same."""

from __future__ import annotations

import pytest

from ottla.broker.settings.broker_config import BrokerConfig, DynamicOverrides
from ottla.broker.settings.config_changes import (
    ConfigChangeOutcome,
    ConfigOperation,
    incremental_outcomes,
    incremental_response,
    replacement_outcomes,
    replacement_response,
)
from ottla.broker.settings.config_view import ConfigView
from ottla.model.error_codes import Code
from ottla.wire.api import alter_configs, incremental_alter_configs
from ottla.wire.schema import encode

SET, DELETE, APPEND, SUBTRACT = ConfigOperation
TOPIC, BROKER = 2, 4
STARTED = BrokerConfig.from_properties({"log.dirs": "data", "broker.id": "7", "log.retention.minutes": "90"})
OVERRIDES = {"retention.ms": "1000", "cleanup.policy": "compact, delete"}
VIEW = ConfigView(STARTED, DynamicOverrides(broker={"max.connections": "5"}), {"t": OVERRIDES}.get)
Change = tuple[str, str | None, int]


def incremental(
    kind: int, name: str, *changes: Change, validate_only: bool = False, view: ConfigView = VIEW
) -> ConfigChangeOutcome:
    resource = incremental_alter_configs.IncrementalAlterResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            incremental_alter_configs.IncrementalAlterConfig(
                name=key, config_operation=operation, value=value
            )
            for key, value, operation in changes
        ],
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[resource], validate_only=validate_only
    )
    outcomes = incremental_outcomes(request, view)
    for version in range(2):
        encode(incremental_response(outcomes), version)
    return outcomes[0]


def replacement(kind: int, name: str, values: dict[str, str | None]) -> ConfigChangeOutcome:
    configs = [alter_configs.AlterConfig(name=key, value=value) for key, value in values.items()]
    resource = alter_configs.AlterResource(resource_type=kind, resource_name=name, configs=configs)
    request = alter_configs.AlterConfigsRequest(resources=[resource], validate_only=False)
    outcomes = replacement_outcomes(request, VIEW)
    for version in range(3):
        encode(replacement_response(outcomes), version)
    return outcomes[0]


@pytest.mark.parametrize(
    ("changes", "after"),
    [
        ([("retention.ms", "5", SET)], {**OVERRIDES, "retention.ms": "5"}),
        ([("retention.ms", None, DELETE)], {"cleanup.policy": "compact, delete"}),
        ([("segment.ms", None, DELETE)], OVERRIDES),
        ([("no.such", None, DELETE)], OVERRIDES),
        ([("cleanup.policy", "compact", SUBTRACT)], {**OVERRIDES, "cleanup.policy": "delete"}),
        ([("cleanup.policy", "delete", APPEND)], {**OVERRIDES, "cleanup.policy": "compact,delete"}),
        (
            [("leader.replication.throttled.replicas", "0:1,1:2", APPEND)],
            {**OVERRIDES, "leader.replication.throttled.replicas": "0:1,1:2"},
        ),
        (
            [("leader.replication.throttled.replicas", "0:1", SUBTRACT)],
            {**OVERRIDES, "leader.replication.throttled.replicas": ""},
        ),
    ],
)
def test_single_changes_to_a_topic(changes: list[Change], after: dict[str, str]) -> None:
    outcome = incremental(TOPIC, "t", *changes)
    assert (outcome.error_code, outcome.error_message, outcome.overrides) == (Code.NONE, None, after)


def test_a_list_without_an_override_starts_from_the_default() -> None:
    view = ConfigView(STARTED, DynamicOverrides(), lambda _: {})
    outcome = incremental(TOPIC, "t", ("cleanup.policy", "compact", APPEND), view=view)
    assert outcome.overrides == {"cleanup.policy": "delete,compact"}


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ([("foo", "5", SET)], Code.INVALID_CONFIG, "foo is not a setting of a topic"),
        ([("retention.ms", "5", APPEND)], Code.INVALID_CONFIG, "retention.ms is not a list"),
        ([("foo", "5", APPEND)], Code.INVALID_CONFIG, "foo is not a list"),
        ([("cleanup.policy", "x", APPEND)], Code.INVALID_CONFIG, "it must be compact or delete"),
        ([("retention.ms", "5", SET), ("segment.ms", "0", SET)], Code.INVALID_CONFIG, "segment.ms=0"),
        ([("retention.ms", None, SET)], Code.INVALID_REQUEST, "retention.ms: the value is missing"),
        ([("retention.ms", "1", SET), ("retention.ms", "2", SET)], Code.INVALID_REQUEST, "more than once"),
        ([("retention.ms", "1", 9)], Code.INVALID_REQUEST, "operation 9"),
    ],
)
def test_a_topic_changes_wholly_or_not_at_all(changes: list[Change], code: Code, message: str) -> None:
    outcome = incremental(TOPIC, "t", *changes)
    assert (outcome.error_code, outcome.overrides) == (code, None)
    assert message in (outcome.error_message or "")


@pytest.mark.parametrize(
    ("name", "changes", "after"),
    [
        ("7", [("log.retention.ms", "5000", SET)], {"max.connections": "5", "log.retention.ms": "5000"}),
        ("", [("log.retention.ms", "6000", SET)], {"log.retention.ms": "6000"}),
        ("7", [("max.connections", None, DELETE)], {}),
        ("7", [("num.partitions", None, DELETE)], {"max.connections": "5"}),
        ("", [("log.cleanup.policy", "compact", APPEND)], {"log.cleanup.policy": "delete,compact"}),
        ("", [("num.io.threads", "9", SET)], {"num.io.threads": "9"}),
        ("", [("log.cleaner.threads", "2", SET)], {"log.cleaner.threads": "2"}),
        ("", [("background.threads", "11", SET)], {"background.threads": "11"}),
        ("", [("unknown.name", "x", SET)], {"unknown.name": "x"}),
        ("", [("compression.type", "gzip", SET)], {"compression.type": "gzip"}),
    ],
)
def test_single_changes_to_a_broker(name: str, changes: list[Change], after: dict[str, str]) -> None:
    outcome = incremental(BROKER, name, *changes)
    assert (outcome.error_code, outcome.overrides) == (Code.NONE, after)


@pytest.mark.parametrize(
    ("name", "changes", "code", "message"),
    [
        ("7", [("num.partitions", "5", SET)], Code.INVALID_REQUEST, "num.partitions cannot change while"),
        ("", [("num.partitions", "5", SET)], Code.INVALID_REQUEST, "num.partitions cannot change while"),
        ("7", [("log.roll.hours", "1", SET)], Code.INVALID_REQUEST, "log.roll.hours cannot change while"),
        ("8", [("log.retention.ms", "5", SET)], Code.INVALID_REQUEST, "this is broker 7"),
        ("x", [("log.retention.ms", "5", SET)], Code.INVALID_REQUEST, "this is broker 7"),
        ("7", [("message.max.bytes", "x", SET)], Code.INVALID_REQUEST, "message.max.bytes=x"),
        ("7", [("log.segment.bytes", "5", SET)], Code.INVALID_REQUEST, "at least 14"),
        ("7", [("log.retention.ms", "0", SET)], Code.INVALID_REQUEST, "-1 (forever) or above 0"),
        ("7", [("compression.type", "zip", SET)], Code.INVALID_REQUEST, "compression.type=zip"),
        ("7", [("message.max.bytes", "5", APPEND)], Code.INVALID_CONFIG, "message.max.bytes is not a list"),
        ("7", [("num.io.threads", "x", SET)], Code.INVALID_REQUEST, "num.io.threads=x"),
        ("", [("num.io.threads", "0", SET)], Code.INVALID_REQUEST, "num.io.threads=0"),
        ("7", [("queued.max.requests", "5", SET)], Code.INVALID_REQUEST, "cannot change while"),
        ("7", [("ssl.keystore.location", "k", SET)], Code.INVALID_REQUEST, "cannot change while"),
        ("", [("default.replication.factor", "1", SET)], Code.INVALID_REQUEST, "cannot change while"),
    ],
)
def test_refused_changes_to_a_broker(name: str, changes: list[Change], code: Code, message: str) -> None:
    outcome = incremental(BROKER, name, *changes)
    assert (outcome.error_code, outcome.overrides) == (code, None)
    assert message in (outcome.error_message or "")


def test_a_replacement_drops_what_it_does_not_name() -> None:
    assert replacement(TOPIC, "t", {"retention.bytes": "7"}).overrides == {"retention.bytes": "7"}
    assert replacement(TOPIC, "t", {}).overrides == {}
    assert replacement(BROKER, "7", {"log.retention.ms": "7"}).overrides == {"log.retention.ms": "7"}
    assert replacement(TOPIC, "t", {"zzz": "7"}).error_code == Code.INVALID_CONFIG
    assert replacement(TOPIC, "t", {"retention.ms": None}).error_code == Code.INVALID_REQUEST
    assert replacement(BROKER, "7", {"num.partitions": "5"}).error_code == Code.INVALID_REQUEST


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nope", Code.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "", Code.INVALID_REQUEST),
        (8, "", Code.INVALID_REQUEST),
        (99, "t", Code.INVALID_REQUEST),
    ],
)
def test_resources_that_are_not_there(kind: int, name: str, code: Code) -> None:
    assert incremental(kind, name, ("retention.ms", "5", SET)).error_code == code
    assert replacement(kind, name, {"retention.ms": "5"}).error_code == code


def test_validating_changes_nothing() -> None:
    good = incremental(TOPIC, "t", ("retention.ms", "5", SET), validate_only=True)
    assert (good.error_code, good.overrides) == (Code.NONE, None)
    assert (
        incremental(TOPIC, "t", ("retention.ms", "x", SET), validate_only=True).error_code
        == Code.INVALID_CONFIG
    )


def test_a_resource_that_is_named_twice_is_refused_twice() -> None:
    one = alter_configs.AlterResource(
        resource_type=TOPIC,
        resource_name="t",
        configs=[alter_configs.AlterConfig(name="retention.ms", value="5")],
    )
    broker = alter_configs.AlterResource(resource_type=BROKER, resource_name="7", configs=[])
    request = alter_configs.AlterConfigsRequest(resources=[one, broker, one], validate_only=False)
    codes = [outcome.error_code for outcome in replacement_outcomes(request, VIEW)]
    assert codes == [Code.INVALID_REQUEST, Code.NONE, Code.INVALID_REQUEST]


def test_a_topics_change_is_checked_against_what_the_broker_runs_with() -> None:
    lag = {"log.cleaner.max.compaction.lag.ms": "50"}
    view = ConfigView(STARTED, DynamicOverrides(default=lag), lambda _: {})
    outcome = incremental(TOPIC, "t", ("min.compaction.lag.ms", "60", SET), view=view)
    assert outcome.error_code == Code.INVALID_CONFIG
