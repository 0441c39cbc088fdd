"""The settings of single groups: their defaults and bounds are those of the broker, also while it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla import EmbeddedBroker
from ottla.broker.settings.broker_config import BrokerConfig
from ottla.broker.settings.group_table import check_group, group_settings
from ottla.broker.settings.topic_settings import ConfigRefused
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError
from ottla.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.api.incremental_alter_configs import (
    IncrementalAlterConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterResource,
)
from tests.broker.wire_client import Client

BROKER, GROUP = 4, 32
LOCK = "share.record.lock.duration.ms"


def config(directory: Path, properties: dict[str, str] | None = None) -> BrokerConfig:
    return BrokerConfig.from_properties({"log.dirs": str(directory), **(properties or {})})


def test_the_brokers_values_are_the_defaults(tmp_path: Path) -> None:
    own = config(tmp_path, {f"group.{LOCK}": "20000", "group.consumer.heartbeat.interval.ms": "6000"})
    settings = group_settings({"share.delivery.count.limit": "7"}, own)
    assert settings[LOCK] == 20_000
    assert settings["consumer.heartbeat.interval.ms"] == 6_000
    assert settings["share.delivery.count.limit"] == 7
    assert settings["share.auto.offset.reset"] == "latest"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (LOCK, "14999", "must not be below group.share.min.record.lock.duration.ms=15000"),
        (LOCK, "60001", "nor above group.share.max.record.lock.duration.ms=60000"),
        (LOCK, "soon", "whole number"),
        ("share.assignment.interval.ms", "15001", "group.share.max.assignment.interval.ms=15000"),
        ("consumer.session.timeout.ms", "44999", "group.consumer.min.session.timeout.ms=45000"),
        ("share.delivery.count.limit", "11", "group.share.max.delivery.count.limit=10"),
        ("share.partition.max.record.locks", "4001", "group.share.max.partition.max.record.locks=4000"),
        ("share.heartbeat.intervall.ms", "1", "did you mean"),
    ],
)
def test_a_group_keeps_to_the_bounds_of_the_broker(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    with pytest.raises(ConfigRefused) as refused:
        check_group({name: text}, config(tmp_path))
    assert refused.value.code == Code.INVALID_CONFIG
    assert message in refused.value.reason


def test_other_bounds_allow_other_values(tmp_path: Path) -> None:
    wide = config(tmp_path, {"group.share.min.record.lock.duration.ms": "1000"})
    check_group({LOCK: "1000"}, wide)
    assert group_settings({LOCK: "1000"}, wide)[LOCK] == 1_000
    assert group_settings({LOCK: "1000"}, config(tmp_path))[LOCK] == 15_000, "the bounds are others now"


def test_the_heartbeat_is_held_against_the_session_that_counts(tmp_path: Path) -> None:
    short = {"group.share.min.session.timeout.ms": "1000", "group.share.min.heartbeat.interval.ms": "10"}
    values = {"group.share.session.timeout.ms": "5000", "group.share.heartbeat.interval.ms": "500"}
    with pytest.raises(ConfigRefused, match="must be below"):
        check_group({"share.heartbeat.interval.ms": "5000"}, config(tmp_path, short | values))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("group.share.record.lock.duration.ms", "10000"),
        ("group.share.session.timeout.ms", "60001"),
        ("group.share.min.delivery.count.limit", "6"),
        ("group.share.assignment.interval.ms", "15001"),
    ],
)
def test_a_broker_keeps_to_its_own_bounds(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=name):
        config(tmp_path, {name: text})


def described(client: Client, name: str) -> tuple[str | None, list[str]]:
    resource = DescribeConfigsResource(resource_type=GROUP, resource_name="g", configuration_keys=[name])
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    (found,) = client.call(request).results[0].configs
    return found.value, [synonym.name for synonym in found.synonyms]


def change(client: Client, kind: int, name: str, setting: str, value: str) -> int:
    entry = IncrementalAlterConfig(name=setting, config_operation=0, value=value)
    resource = IncrementalAlterResource(resource_type=kind, resource_name=name, configs=[entry])
    return client.call(IncrementalAlterConfigsRequest(resources=[resource])).responses[0].error_code


def test_tools_see_what_is_in_force_and_where_it_is_set() -> None:
    properties = {"group.consumer.heartbeat.interval.ms": "700"}
    with EmbeddedBroker(properties=properties) as broker, Client.of(broker.bootstrap) as client:
        heartbeat, interval = "consumer.heartbeat.interval.ms", "share.assignment.interval.ms"
        both = [f"group.{heartbeat}"] * 2  # as the broker was started, and the default
        assert described(client, heartbeat) == ("700", both)
        assert change(client, GROUP, "g", heartbeat, "900") == Code.NONE
        assert described(client, heartbeat) == ("900", [heartbeat, *both])
        assert change(client, BROKER, "", f"group.{interval}", "250") == Code.NONE
        assert described(client, interval)[0] == "250"
        assert change(client, BROKER, "", f"group.{heartbeat}", "800") == Code.INVALID_REQUEST
        assert change(client, BROKER, "", "group.consumer.assignment.interval.ms", "0") == Code.NONE
