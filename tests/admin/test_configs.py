"""Settings on the embedded broker, and the arithmetic for brokers that replace all of them at once."""

from __future__ import annotations

import pytest

from ottla.admin import (
    Admin,
    ConfigEntry,
    ConfigKind,
    ConfigResource,
    ConfigSource,
    NewTopic,
    broker_logger_resource,
    broker_resource,
    client_metrics_resource,
    client_resource,
    group_resource,
    topic_resource,
)
from ottla.admin.configs import replaced_configs
from ottla.broker.embedded import EmbeddedBroker
from ottla.model.error_codes import Code
from ottla.model.errors import AdminErrors, BrokerUnreachable, ConfigError, KafkaError, Unsupported


def test_changes_leave_the_rest_as_it_is(admin: Admin, name: str) -> None:
    admin.create_topics(NewTopic(name, configs={"retention.ms": 1000, "flush.ms": 5}))
    one = topic_resource(name)
    admin.alter_configs(one, {"retention.ms": None, "cleanup.policy": "compact", "preallocate": True})
    found = admin.describe_configs(one)
    assert found["retention.ms"].is_default
    assert (found["flush.ms"].value, found["flush.ms"].source) == ("5", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert found["cleanup.policy"].value == "compact"
    assert found["preallocate"].value == "true"
    assert found["flush.ms"].synonyms[0].value == "5"


def test_validate_only_changes_nothing(admin: Admin, topic: str) -> None:
    one = topic_resource(topic)
    admin.alter_configs(one, {"flush.ms": 77}, validate_only=True)
    assert admin.describe_configs(one)["flush.ms"].is_default
    with pytest.raises(KafkaError, match=r"topic '.*INVALID_CONFIG"):
        admin.alter_configs(one, {"flush.ms": "soon"}, validate_only=True)


def test_a_refusal_has_the_words_of_the_broker(admin: Admin, topic: str) -> None:
    with pytest.raises(KafkaError, match=r"topic 'new' \(.*did you mean retention\.ms\?\): INVALID_CONFIG"):
        admin.create_topics(NewTopic("new", configs={"retention.msx": 1}))
    with pytest.raises(KafkaError, match=r"topic 'a b' \(.+\): INVALID_TOPIC_EXCEPTION"):
        admin.create_topics(NewTopic("a b"))
    with pytest.raises(KafkaError) as failed:
        admin.create_topics(NewTopic(topic))
    assert str(failed.value).count("TOPIC_ALREADY_EXISTS") == 1


def test_a_broker_tells_of_itself(admin: Admin) -> None:
    found = admin.describe_configs([broker_resource(1), broker_resource(2)])
    assert found[broker_resource(1)]["broker.id"].value == "1"
    assert found[broker_resource(2)]["broker.id"].value == "2"
    assert found[broker_resource(1)]["broker.id"].is_read_only


def test_a_broker_that_is_not_there_is_told_in_time(brokers: EmbeddedBroker) -> None:
    with (
        Admin(bootstrap_servers=brokers.bootstrap, default_api_timeout_ms=300) as hasty,
        pytest.raises(BrokerUnreachable, match="broker 77 is not in the cluster"),
    ):
        hasty.describe_configs(broker_resource(77))
    with (
        Admin(bootstrap_servers=brokers.bootstrap, default_api_timeout_ms=300) as hasty,
        pytest.raises(AdminErrors, match=r"1 of 2 failed: broker.*77 is not in the cluster") as caught,
    ):
        hasty.describe_configs([broker_resource(77), broker_resource(1)])
    assert list(caught.value.results) == [broker_resource(1)]


def test_settings_of_brokers_change(admin: Admin) -> None:
    everybody, one = broker_resource(None), broker_resource(1)
    admin.alter_configs(everybody, {"log.flush.interval.ms": 12_345})
    assert admin.describe_configs(one)["log.flush.interval.ms"].value == "12345"
    admin.alter_configs(everybody, {"log.flush.interval.ms": None})
    assert admin.describe_configs(one)["log.flush.interval.ms"].value != "12345"


def test_settings_of_groups_and_client_metrics(admin: Admin, name: str) -> None:
    group, metrics = group_resource(name), client_metrics_resource(name)
    assert admin.describe_configs(group)["consumer.session.timeout.ms"].is_default
    admin.alter_configs(group, {"consumer.session.timeout.ms": 50_000})
    admin.alter_configs(metrics, {"interval.ms": 500, "match": "client_id=a.*"})
    found = admin.describe_configs([group, metrics])
    timeout = found[group]["consumer.session.timeout.ms"]
    assert (timeout.value, timeout.source) == ("50000", ConfigSource.DYNAMIC_GROUP_CONFIG)
    interval = found[metrics]["interval.ms"]
    assert (interval.value, interval.source) == ("500", ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG)
    with pytest.raises(KafkaError, match=rf"group '{name}' \(.*INVALID_CONFIG"):
        admin.alter_configs(group, {"nosuch": 1})
    with pytest.raises(KafkaError, match=rf"client metrics '{name}' \(.*INVALID_REQUEST"):
        admin.alter_configs(metrics, {"interval.ms": 1})
    kinds = [ConfigKind.GROUP, ConfigKind.CLIENT_METRICS]
    assert {group, metrics} <= set(admin.list_config_resources(kinds))
    admin.alter_configs(group, {"consumer.session.timeout.ms": None})
    admin.alter_configs(metrics, {"interval.ms": None, "match": None})
    assert not {group, metrics} & set(admin.list_config_resources())


def test_each_broker_has_its_loggers(admin: Admin) -> None:
    loggers = broker_logger_resource(2)
    before = admin.describe_configs(loggers)["ottla"]
    assert before.source is ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    admin.alter_configs(loggers, {"ottla.admin.configs": "ERROR"})
    assert admin.describe_configs(loggers)["ottla.admin.configs"].value == "ERROR"
    admin.alter_configs(loggers, {"ottla.admin.configs": None})
    assert admin.describe_configs(loggers)["ottla.admin.configs"].value == before.value
    with pytest.raises(KafkaError, match=r"broker logger '2' \(.*nosuch"):
        admin.alter_configs(loggers, {"nosuch": "DEBUG"})
    with pytest.raises(ConfigError, match="negative"):
        broker_logger_resource(-1)


def test_what_has_settings_is_listed(admin: Admin, topic: str) -> None:
    brokers = [
        ConfigResource(kind, str(n))
        for kind in (ConfigKind.BROKER, ConfigKind.BROKER_LOGGER)
        for n in range(3)
    ]
    listed = admin.list_config_resources()
    assert {topic_resource(topic), *brokers} <= set(listed)
    assert list(listed) == sorted(listed)
    assert admin.list_config_resources([ConfigKind.BROKER, ConfigKind.BROKER_LOGGER]) == tuple(brokers)
    with pytest.raises(Unsupported, match=r"clients cannot be listed here.*describe_client_quotas"):
        admin.list_config_resources([ConfigKind.CLIENT])
    with pytest.raises(ConfigError, match="a ConfigKind is expected"):
        admin.list_config_resources(["topics"])  # type: ignore[list-item]  # what is tested


def test_of_many_each_has_its_own_outcome(admin: Admin, topic: str) -> None:
    good, bad = topic_resource(topic), topic_resource("missing")
    with pytest.raises(AdminErrors, match="1 of 2 failed: topic 'missing'") as caught:
        admin.describe_configs([good, bad])
    assert "flush.ms" in caught.value.results[good]
    with pytest.raises(AdminErrors) as caught:
        admin.alter_configs([good, bad], {"flush.ms": 3})
    assert set(caught.value.errors) == {bad}
    assert admin.describe_configs(good)["flush.ms"].value == "3"


def test_refusals(admin: Admin, brokers: EmbeddedBroker, topic: str) -> None:
    brokers.fail("IncrementalAlterConfigs", Code.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaError, match="this user may not do that with the topic"):
        admin.alter_configs(topic_resource(topic), {"flush.ms": 3})
    with pytest.raises(ConfigError, match="no changes are given"):
        admin.alter_configs(topic_resource(topic), {})
    with pytest.raises(ConfigError, match="named by its number"):
        admin.describe_configs(ConfigResource(broker_resource(1).kind, "one"))
    with pytest.raises(ConfigError, match="negative"):
        broker_resource(-1)
    with pytest.raises(Unsupported, match=r"quotas of clients are in ZooKeeper.*zookeeper_connect="):
        admin.describe_configs(client_resource("billing"))


def test_a_call_that_replaces_everything_gets_everything() -> None:
    present = {
        "retention.ms": ConfigEntry("retention.ms", "5", ConfigSource.DYNAMIC_TOPIC_CONFIG),
        "flush.ms": ConfigEntry("flush.ms", "6", ConfigSource.DYNAMIC_TOPIC_CONFIG),
        "segment.ms": ConfigEntry("segment.ms", "7", ConfigSource.DEFAULT_CONFIG),
    }
    changes = {"flush.ms": None, "segment.bytes": "1000"}
    assert replaced_configs("topic 't'", present, changes) == {"retention.ms": "5", "segment.bytes": "1000"}
    secret = {"password": ConfigEntry("password", None, ConfigSource.DYNAMIC_BROKER_CONFIG)}
    with pytest.raises(Unsupported, match=r"password is a secret.*give its value"):
        replaced_configs("broker '1'", secret, {"x": "y"})
    assert replaced_configs("broker '1'", secret, {"password": "p"}) == {"password": "p"}
