"""The tables of settings, held against Kafka's own."""

from __future__ import annotations

import re

import pytest

from ottla.broker.settings.broker_config import BrokerConfig
from ottla.broker.settings.broker_table import BROKER_SETTINGS, sharing
from ottla.broker.settings.idle_table import IDLE_SETTINGS
from ottla.broker.settings.ignored_names import FAMILIES, NAMES, REFUSED, is_ignored, is_secret
from ottla.broker.settings.security_table import SECURITY_ROWS
from ottla.broker.settings.setting import Setting
from ottla.broker.settings.topic_table import TOPIC_SETTINGS
from ottla.log.log_config import LogConfig
from ottla.model.errors import ConfigError
from ottla.model.property_table import PASSWORD, text_of
from tests.broker.settings.kafka_definitions import definitions

OWN_DEFAULTS = {
    "broker.id": "no number is drawn",
    "node.id": "no number is drawn",
    "broker.rack": "a list: several brokers of a process have one each",
    "group.consumer.assignors": "names, not classes",
    "group.consumer.migration.policy": "as in Kafka 4",
    "listeners": "loopback only",
    "log.dir": "data in a directory for temporary files gets lost",
    "max.connections": "a limit",
    "queued.max.request.bytes": "a limit",
    "group.share.max.size": "an int in Kafka 4.x",
    "group.share.partition.max.record.locks": "2000 in Kafka 4.x",
}
SINCE_4_4 = {"errors.deadletterqueue.group.enable"}
OWN_RANGES = {
    "group.consumer.migration.policy": "case does not matter",
    "broker.id": "-1 draws a number",
    "node.id": "-1 draws a number",
    "compression.gzip.level": "Kafka has words for: not 0",
    "default.replication.factor": "Kafka finds out when the first topic is created",
    "log.flush.scheduler.interval.ms": "Kafka fails later",
    "log.flush.interval.ms": "Kafka fails later",
    "log.roll.ms": "Kafka checks it elsewhere",
    "log.roll.jitter.ms": "Kafka checks it elsewhere",
    "log.message.format.version": "a pattern here, a list there",
    "message.format.version": "a pattern here, a list there",
    "leader.replication.throttled.replicas": "a pattern here",
    "follower.replication.throttled.replicas": "a pattern here",
    "remote.storage.enable": "only false",
    "authorizer.class.name": "only Kafka's own",
    "ssl.enabled.protocols": "the versions that Python's ssl has",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": "a limit",
    "sasl.oauthbearer.clock.skew.seconds": "a limit",
    "sasl.server.max.receive.size": "a limit",
    "connections.max.reauth.ms": "a limit",
    "group.share.max.size": "from 1 in Kafka 4.x",
    "group.share.record.lock.duration.ms": "up to an hour in Kafka 4.x",
}
# Kafka changes these while it runs; here files of certificates are followed instead.
OWN_MODES = {
    "listeners",
    "advertised.listeners",
    "listener.security.protocol.map",
    *(row.name for row in SECURITY_ROWS if row.name.startswith(("ssl.keystore.", "ssl.truststore."))),
    *("ssl.key.password", "ssl.client.auth", "ssl.cipher.suites", "ssl.enabled.protocols"),
    *("sasl.enabled.mechanisms", "sasl.jaas.config"),
}


def shared(table: str, ours: dict[str, Setting]) -> list[tuple[Setting, str, str | None, str, str]]:
    theirs = definitions(table)
    return [(row, *theirs[row.name]) for row in ours.values() if row.name in theirs]


@pytest.mark.parametrize("table", ["topic", "broker"])
def test_types_and_defaults_are_kafkas(table: str) -> None:
    ours = TOPIC_SETTINGS if table == "topic" else BROKER_SETTINGS
    different = {
        row.name: (row.kind.name.upper(), text_of(row.default), kind, default)
        for row, kind, default, _, _ in shared(table, ours)
        if (row.kind.name.upper(), text_of(row.default)) != (kind, default)
    }
    assert different.keys() == (OWN_DEFAULTS.keys() if table == "broker" else set())


@pytest.mark.parametrize("table", ["topic", "broker"])
def test_ranges_and_choices_are_kafkas(table: str) -> None:
    ours = TOPIC_SETTINGS if table == "topic" else BROKER_SETTINGS
    for row, _, _, valid, _ in shared(table, ours):
        if row.name not in OWN_RANGES:
            assert as_kafka_writes(row) == (None if valid == "null" else valid), row.name


def as_kafka_writes(row: Setting) -> str | None:
    if row.choices:
        return f"[{', '.join(row.choices)}]"
    if row.minimum is None:
        return None
    return (
        f"[{row.minimum:g},...,{row.maximum:.15g}]" if row.maximum is not None else f"[{row.minimum:g},...]"
    )


def test_every_topic_setting_of_kafka_is_known_with_its_synonyms_in_order() -> None:
    theirs = definitions("topic")
    assert TOPIC_SETTINGS.keys() - SINCE_4_4 == theirs.keys()
    without = {"read-only": ()}  # the printer's word for a name without an entry
    for name in theirs:
        row = TOPIC_SETTINGS[name]
        assert row.broker_names == without.get(theirs[name].more, tuple(theirs[name].more.split(",")))


def test_settings_without_effect_are_kafkas_and_can_change() -> None:
    theirs = {row.name: more for row, *more in shared("broker", IDLE_SETTINGS)}
    assert theirs.keys() == IDLE_SETTINGS.keys()
    assert not IDLE_SETTINGS.keys() & BROKER_SETTINGS.keys()
    for name, (kind, default, valid, mode) in theirs.items():
        row = IDLE_SETTINGS[name]
        assert (row.kind.name.upper(), row.update.value) == (kind, mode), name
        assert row.read(row.default) == row.read(default or ""), name
        assert as_kafka_writes(row) == (None if valid == "null" else valid), name


def test_update_modes_are_kafkas() -> None:
    different = {row.name for row, *_, mode in shared("broker", BROKER_SETTINGS) if row.update.value != mode}
    assert different == OWN_MODES


def test_every_broker_setting_of_kafka_is_honoured_or_ignored_by_name() -> None:
    unknown = [name for name in definitions("broker") if name not in BROKER_SETTINGS and not is_ignored(name)]
    assert unknown == []


def test_secrets_of_kafka_are_secrets_here() -> None:
    theirs = {name for name, one in definitions("broker").items() if one.type == "PASSWORD"}
    assert [name for name in theirs if not is_secret(name)] == []
    ours = {row.name for row in BROKER_SETTINGS.values() if row.kind is PASSWORD}
    assert ours <= theirs


def test_nothing_is_both_honoured_and_ignored() -> None:
    assert not BROKER_SETTINGS.keys() & (NAMES | REFUSED.keys())
    security = {row.name for row in SECURITY_ROWS}
    families = [name for name in BROKER_SETTINGS if name.startswith(FAMILIES) and name not in security]
    kinds = ("transaction.", "group.consumer.", "group.share.", "share.")
    honoured = [name for name in families if name.startswith(kinds)]
    assert families == ["controller.listener.names", "replica.selector.class", *honoured]


def test_defaults_of_the_tables_are_those_of_the_values() -> None:
    """One fact, two places: the table for people, the dataclass for code."""
    config = BrokerConfig(data_dir="x")  # type: ignore[arg-type]
    for row in BROKER_SETTINGS.values():
        names = sharing(row)
        if row.target and row.target != "data_dir" and row.name == names[-1]:
            value: object = config
            for part in row.target.split("."):
                value = getattr(value, part)
            default = "" if row.default is None else text_of(row.default) or ""
            if default:
                assert text_of(value) == text_of(row.parse(default)), row.name
            else:
                assert not value, row.name


def test_every_field_of_a_log_can_be_set_by_a_topic() -> None:
    fields = {row.target.removeprefix("log.") for row in TOPIC_SETTINGS.values() if row.target[:4] == "log."}
    assert fields == {name for name in LogConfig.__dataclass_fields__ if name != "is_plain"}


def test_every_setting_says_what_it_does() -> None:
    for row in [*TOPIC_SETTINGS.values(), *BROKER_SETTINGS.values()]:
        assert row.doc.endswith("."), row.name
        if re.search(r"(\.ms|bytes|minutes|hours)$", row.name) and row.name != "offset.metadata.max.bytes":
            assert row.unit, row.name


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("retention.ms", " 55 ", 55),
        ("retention.ms", "+7", 7),
        ("retention.ms", "-1", -1),
        ("preallocate", "TRUE", True),
        ("min.cleanable.dirty.ratio", ".25", 0.25),
        ("cleanup.policy", "compact , delete", ("compact", "delete")),
        ("leader.replication.throttled.replicas", "", ()),
        ("leader.replication.throttled.replicas", "0:1,1:2", ("0:1", "1:2")),
        ("leader.replication.throttled.replicas", "*", ("*",)),
        ("message.format.version", "0.10.2-IV0", "0.10.2-IV0"),
    ],
)
def test_texts_are_read_as_kafka_reads_them(name: str, text: str, value: object) -> None:
    assert TOPIC_SETTINGS[name].read(text) == value


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("retention.ms", "x", "retention.ms=x: it must be a whole number of 64 bits (ms)"),
        ("retention.ms", "", "whole number"),
        ("retention.ms", "1_000", "whole number"),
        ("retention.ms", "9223372036854775808", "64 bits"),
        ("retention.ms", "1" * 5000, "64 bits"),
        ("segment.bytes", "2147483648", "32 bits"),
        ("segment.bytes", "13", "segment.bytes=13: it must be at least 14 (bytes)"),
        ("preallocate", "yes", "preallocate=yes: it must be true or false"),
        ("min.cleanable.dirty.ratio", "1.1", "it must be at most 1"),
        ("min.cleanable.dirty.ratio", "nan", "decimal number"),
        ("cleanup.policy", "compact,shred", "it must be compact or delete"),
        ("message.timestamp.type", "createtime", "it must be CreateTime or LogAppendTime"),
        (
            "compression.type",
            "zip",
            "it must be uncompressed or zstd or lz4 or snappy or gzip or producer",
        ),
        (
            "remote.storage.enable",
            "true",
            "remote.storage.enable=true: it must be false. Only false: this broker",
        ),
        ("leader.replication.throttled.replicas", "x", "it must match"),
    ],
)
def test_refusals_name_the_setting_the_text_and_the_remedy(name: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        TOPIC_SETTINGS[name].read(text)
