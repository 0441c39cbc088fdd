"""DescribeConfigs. What is compared with is what a Kafka 3.9.1 answered when it was asked the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.settings.broker_config import BrokerConfig, DynamicOverrides
from ottla.broker.settings.config_view import ConfigView
from ottla.broker.settings.described_configs import (
    ConfigType,
    DescribedSetting,
    created_configs,
    described_broker,
    described_resources,
    described_topic,
)
from ottla.model.error_codes import Code
from ottla.wire.api.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribedResource,
)
from ottla.wire.schema import decode, encode

STARTED = BrokerConfig.from_properties(
    {
        "node.id": "7",
        "log.dirs": "data",
        "log.retention.hours": "24",
        "log.retention.minutes": "90",
        "message.max.bytes": "2000000",
        "num.io.threads": "8",
        "ssl.key.password": "secret",
    }
)
DYNAMIC = DynamicOverrides(
    broker={"log.retention.ms": "5000", "log.cleanup.policy": "delete,compact", "max.connections": "50"},
    default={"log.retention.ms": "6000", "max.connections.per.ip": "50"},
)
OVERRIDES = {"retention.ms": " 1000 ", "cleanup.policy": "compact, delete"}


def by_name(described: list[DescribedSetting]) -> dict[str, DescribedSetting]:
    assert [one.name for one in described] == sorted(one.name for one in described)
    return {one.name: one for one in described}


def facts(setting: DescribedSetting) -> tuple[str | None, int, list[tuple[object, ...]]]:
    return setting.value, setting.source, [tuple(synonym) for synonym in setting.synonyms]


TOPIC = {
    "cleanup.policy": (
        "compact,delete",
        1,
        [
            ("cleanup.policy", "compact,delete", 1),
            ("log.cleanup.policy", "delete,compact", 2),
            ("log.cleanup.policy", "delete", 5),
        ],
    ),
    "retention.ms": (
        "1000",
        1,
        [
            ("retention.ms", "1000", 1),
            ("log.retention.ms", "5000", 2),
            ("log.retention.ms", "6000", 3),
            ("log.retention.minutes", "90", 4),
            ("log.retention.hours", "24", 4),
            ("log.retention.hours", "168", 5),
        ],
    ),
    "max.message.bytes": (
        "2000000",
        4,
        [("message.max.bytes", "2000000", 4), ("message.max.bytes", "1048588", 5)],
    ),
    "segment.bytes": ("1073741824", 5, [("log.segment.bytes", "1073741824", 5)]),
    "min.cleanable.dirty.ratio": ("0.5", 5, [("log.cleaner.min.cleanable.ratio", "0.5", 5)]),
    "preallocate": ("false", 5, [("log.preallocate", "false", 5)]),
    "remote.storage.enable": ("false", 5, []),
    "leader.replication.throttled.replicas": ("", 5, []),
}

BROKER = {
    "broker.id": ("7", 4, [("broker.id", "7", 4), ("broker.id", "0", 5)]),
    "node.id": ("7", 4, [("node.id", "7", 4), ("node.id", "0", 5)]),
    "log.cleanup.policy": (
        "delete,compact",
        2,
        [("log.cleanup.policy", "delete,compact", 2), ("log.cleanup.policy", "delete", 5)],
    ),
    "log.dirs": ("data", 4, [("log.dirs", "data", 4)]),
    "log.flush.interval.messages": (
        "9223372036854775807",
        5,
        [("log.flush.interval.messages", "9223372036854775807", 5)],
    ),
    "log.flush.interval.ms": (None, 5, []),
    "log.retention.hours": ("24", 4, [("log.retention.hours", "24", 4), ("log.retention.hours", "168", 5)]),
    "log.retention.ms": (
        "5000",
        2,
        [
            ("log.retention.ms", "5000", 2),
            ("log.retention.ms", "6000", 3),
            ("log.retention.minutes", "90", 4),
            ("log.retention.hours", "24", 4),
            ("log.retention.hours", "168", 5),
        ],
    ),
    "log.roll.hours": ("168", 5, [("log.roll.hours", "168", 5)]),
    "log.roll.ms": (None, 5, []),
    "max.connections": ("50", 2, [("max.connections", "50", 2), ("max.connections", "10000", 5)]),
    "max.connections.per.ip": (
        "50",
        3,
        [("max.connections.per.ip", "50", 3), ("max.connections.per.ip", "2147483647", 5)],
    ),
    "num.partitions": ("1", 5, [("num.partitions", "1", 5)]),
    "num.io.threads": ("8", 4, [("num.io.threads", "8", 4), ("num.io.threads", "8", 5)]),
    "background.threads": ("10", 5, [("background.threads", "10", 5)]),
    "default.replication.factor": ("1", 5, [("default.replication.factor", "1", 5)]),
}


@pytest.mark.parametrize("name", TOPIC)
def test_topic(name: str) -> None:
    one = by_name(described_topic(STARTED, OVERRIDES, DYNAMIC))[name]
    assert facts(one) == TOPIC[name]
    assert (one.read_only, one.sensitive) == (False, False)
    assert one.is_default == (name not in OVERRIDES)


@pytest.mark.parametrize("name", BROKER)
def test_broker(name: str) -> None:
    assert facts(by_name(described_broker(STARTED, DYNAMIC))[name]) == BROKER[name]


def test_a_value_in_hours_is_told_in_the_unit_of_the_topic() -> None:
    described = by_name(described_topic(STARTED, {}))
    assert facts(described["retention.ms"])[:2] == (str(90 * 60_000), 4)
    hours = BrokerConfig.from_properties({"log.dir": "x", "log.retention.hours": "-1"})
    assert by_name(described_topic(hours, {}))["retention.ms"].value == "-1"
    assert facts(described["segment.ms"]) == ("604800000", 5, [("log.roll.hours", "168", 5)])


def test_what_can_change_and_what_must_not_be_shown() -> None:
    described = by_name(described_broker(STARTED))
    assert described["num.partitions"].read_only
    assert not described["message.max.bytes"].read_only
    secret = described["ssl.key.password"]
    assert (secret.value, secret.sensitive, secret.synonyms[0].value) == (None, True, None)
    assert secret.type is ConfigType.PASSWORD
    assert described["log.cleanup.policy"].type is ConfigType.LIST


def test_a_config_made_in_code_is_described_like_one_from_properties() -> None:
    made = BrokerConfig(
        data_dir=Path("data"), port=0, broker_id=2, num_partitions=4, advertised_host="h", advertised_port=1
    )
    described = by_name(described_broker(made))
    assert facts(described["listeners"])[:2] == ("PLAINTEXT://127.0.0.1:0", 4)
    assert facts(described["advertised.listeners"])[:2] == ("PLAINTEXT://h:1", 4)
    assert facts(described["broker.id"])[:2] == ("2", 4)
    assert facts(described["num.partitions"])[:2] == ("4", 4)
    assert facts(described["log.dirs"])[:2] == ("data", 4)
    assert {one.name for one in described.values() if one.source == 4} == {
        *("listeners", "advertised.listeners", "broker.id", "node.id", "num.partitions", "log.dirs")
    }


def test_what_creating_a_topic_tells() -> None:
    told = {one.name: one for one in created_configs(described_topic(STARTED, OVERRIDES))}
    assert (told["retention.ms"].value, told["retention.ms"].config_source) == ("1000", 1)
    assert (told["segment.ms"].value, told["segment.ms"].config_source) == ("604800000", 5)
    assert len(told) == 37


def asked(
    resource_type: int, name: str, keys: list[str] | None = None, version: int = 4
) -> DescribedResource:
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=resource_type, resource_name=name, configuration_keys=keys)
        ],
        include_synonyms=True,
        include_documentation=True,
    )
    view = ConfigView(STARTED, DYNAMIC, {"t": OVERRIDES}.get)
    answer = DescribeConfigsResponse(results=list(described_resources(request, view)))
    if version:
        for config in answer.results[0].configs:
            config.is_default = False
    sent = b"".join(encode(answer, version))
    return decode(DescribeConfigsResponse, version, sent).results[0]


@pytest.mark.parametrize("version", range(5))
def test_answers_can_be_sent_in_every_version(version: int) -> None:
    answer = asked(2, "t", version=version)
    assert (answer.error_code, len(answer.configs)) == (Code.NONE, 37)
    one = next(config for config in answer.configs if config.name == "retention.ms")
    assert (one.value, one.read_only, one.is_sensitive) == ("1000", False, False)
    if version == 0:
        assert not one.is_default
        assert next(config for config in answer.configs if config.name == "max.message.bytes").is_default
    else:
        assert (one.config_source, len(one.synonyms)) == (1, 6)
    if version >= 3:
        assert one.config_type == ConfigType.LONG
        assert one.documentation


def test_only_the_named_keys_are_told() -> None:
    assert [one.name for one in asked(2, "t", ["retention.ms", "zzz"]).configs] == ["retention.ms"]
    assert len(asked(2, "t", []).configs) == 37


def test_the_nameless_broker_is_what_was_set_for_all() -> None:
    told = {one.name: one for one in asked(4, "").configs}
    assert told.keys() == {"log.retention.ms", "max.connections.per.ip"}
    assert told["log.retention.ms"].value == "6000"
    assert [(one.name, one.value, one.source) for one in told["log.retention.ms"].synonyms] == [
        ("log.retention.ms", "6000", 3)
    ]


@pytest.mark.parametrize(
    ("resource_type", "name", "code"),
    [
        (2, "nope", Code.UNKNOWN_TOPIC_OR_PARTITION),
        (2, "", Code.INVALID_TOPIC_EXCEPTION),
        (4, "9", Code.INVALID_REQUEST),
        (4, "x", Code.INVALID_REQUEST),
        (1, "x", Code.INVALID_REQUEST),
    ],
)
def test_what_is_not_there_is_an_error_of_its_resource(resource_type: int, name: str, code: Code) -> None:
    answer = asked(resource_type, name)
    assert (answer.error_code, answer.configs) == (code, [])
    assert answer.error_message
