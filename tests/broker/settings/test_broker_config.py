"""A broker's config from Kafka's properties."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

from ottla.broker.settings.broker_config import (
    BrokerConfig,
    DynamicOverrides,
    FlushPolicy,
    with_dynamic,
)
from ottla.model.errors import ConfigError
from ottla.model.java_properties import parse_properties_text, read_properties

FOREVER = (1 << 63) - 1
HOUR_MS = 3_600_000


def config(**properties: str) -> BrokerConfig:
    """Dots are written as underscores."""
    given = {name.replace("_", "."): value for name, value in properties.items()}
    return BrokerConfig.from_properties({"log.dirs": "data", **given})


def refusal(**properties: str) -> str:
    with pytest.raises(ConfigError) as caught:
        config(**properties)
    return str(caught.value)


def test_without_properties_it_is_as_made_in_code() -> None:
    made = BrokerConfig(data_dir=Path("data"), properties={"log.dirs": "data"})
    assert config() == made
    assert pickle.loads(pickle.dumps(made)) == made


def test_values_go_where_they_belong() -> None:
    made = config(
        broker_id="7",
        num_partitions="3",
        auto_create_topics_enable="false",
        socket_request_max_bytes="1000",
        message_max_bytes="900",
        log_cleanup_policy="compact,delete",
        log_message_timestamp_type="LogAppendTime",
        offsets_retention_minutes="2",
        group_initial_rebalance_delay_ms="0",
        ottla_flush="always",
        ottla_metrics_port="0",
        zookeeper_connect="localhost:2181/kafka",
        log_flush_interval_messages="1",
    )
    assert (made.broker_id, made.num_partitions, made.auto_create_topics) == (7, 3, False)
    assert made.request_bytes_max == 1000
    assert made.log.max_message_bytes == 900
    assert made.log.cleanup_policy == {"compact", "delete"}
    assert made.log.message_timestamp_type.value == "LogAppendTime"
    assert made.groups.offsets_retention_ms == 120_000
    assert made.groups.initial_rebalance_delay_ms == 0
    assert made.flush is FlushPolicy.ALWAYS
    assert made.metrics_port == 0
    assert made.zookeeper_connect == "localhost:2181/kafka"
    assert made.flush_messages == 1
    assert made.properties["broker.id"] == "7"


@pytest.mark.parametrize(
    ("properties", "retention_ms"),
    [
        ({}, 168 * HOUR_MS),
        ({"log.retention.hours": "1"}, HOUR_MS),
        ({"log.retention.hours": "1", "log.retention.minutes": "5"}, 300_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "5", "log.retention.ms": "9"}, 9),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": "-5"}, -1),
    ],
)
def test_the_finer_unit_wins(properties: dict[str, str], retention_ms: int) -> None:
    assert BrokerConfig.from_properties({"log.dir": "x", **properties}).log.retention_ms == retention_ms


def test_rolling_has_coarse_names_too() -> None:
    assert config(log_roll_hours="2").log.segment_ms == 2 * HOUR_MS
    assert config(log_roll_hours="2", log_roll_ms="7").log.segment_ms == 7
    assert config(log_roll_jitter_hours="1").log.segment_jitter_ms == HOUR_MS
    assert config(log_flush_scheduler_interval_ms="5").flush_ms == 5
    assert config(log_flush_scheduler_interval_ms="5", log_flush_interval_ms="6").flush_ms == 6


def test_the_older_bound_on_timestamps_stands_for_those_that_are_not_set() -> None:
    log = config(log_message_timestamp_difference_max_ms="5", log_message_timestamp_after_max_ms="9").log
    assert (log.message_timestamp_before_max_ms, log.message_timestamp_after_max_ms) == (5, 9)


def test_no_limit_is_a_number_that_code_can_compare_with() -> None:
    assert config(queued_max_request_bytes="-1").queued_bytes_max == FOREVER


@pytest.mark.parametrize(
    ("properties", "bound", "told"),
    [
        ({}, ("127.0.0.1", 9092), ("", 0)),
        ({"listeners": "PLAINTEXT://:9093"}, ("127.0.0.1", 9093), ("", 0)),
        ({"listeners": "plaintext://localhost:0"}, ("localhost", 0), ("", 0)),
        ({"listeners": "PLAINTEXT://[::1]:9092"}, ("::1", 9092), ("", 0)),
        ({"port": "9000", "host.name": "a.example"}, ("a.example", 9000), ("", 0)),
        (
            {"port": "9000", "advertised.host.name": "b.example", "advertised.port": "1"},
            ("127.0.0.1", 9000),
            ("b.example", 1),
        ),
        (
            {
                "listeners": "PLAINTEXT://0.0.0.0:9092",
                "advertised.listeners": "PLAINTEXT://kafka.example:19092",
            },
            ("0.0.0.0", 9092),
            ("kafka.example", 19092),
        ),
        (
            {
                "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
                "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
                "controller.listener.names": "CONTROLLER",
            },
            ("127.0.0.1", 9092),
            ("localhost", 9092),
        ),
        (
            {"listeners": "OUTSIDE://h:1", "listener.security.protocol.map": "INSIDE:SSL,OUTSIDE:PLAINTEXT"},
            ("h", 1),
            ("", 0),
        ),
    ],
)
def test_listeners(properties: dict[str, str], bound: tuple[str, int], told: tuple[str, int]) -> None:
    made = BrokerConfig.from_properties({"log.dir": "x", **properties})
    assert ((made.host, made.port), (made.advertised_host, made.advertised_port)) == (bound, told)


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"num.partition": "3"}, "num.partition is not a property of a broker; did you mean num.partitions?"),
        ({"zzz": "3"}, "zzz is not a property of a broker"),
        ({"num.partitions": "0"}, "num.partitions=0: it must be at least 1"),
        ({"log.dirs": "a,b"}, "log.dirs=a,b: this broker keeps its logs in exactly one directory, not 2"),
        ({"log.dirs": ""}, "exactly one directory, not 0"),
        ({"listeners": "SSL://:9093"}, "listener.name.ssl.ssl.keystore.location: a listener with TLS needs"),
        ({"listeners": "SASL_PLAINTEXT://:9093"}, "sasl.enabled.mechanisms=GSSAPI: this broker has PLAIN"),
        (
            {"listeners": "SASL_PLAINTEXT://:1", "sasl.enabled.mechanisms": "PLAIN"},
            "listener.name.sasl_plaintext.plain.sasl.jaas.config: PLAIN needs its users",
        ),
        ({"listeners": "PLAINTEXT://a:1,PLAINTEXT://b:2"}, "each listener needs a name of its own"),
        ({"listeners": "PLAINTEXT://a:1,SSL://a:1"}, "each listener needs a port of its own"),
        (
            {"listeners": "CONTROLLER://:1", "controller.listener.names": "CONTROLLER"},
            "no listener for clients",
        ),
        ({"listeners": "EXTERNAL://a:1"}, "its protocol is not known"),
        ({"listeners": "PLAINTEXT://a"}, "it must be PROTOCOL://host:port"),
        ({"listeners": "PLAINTEXT://a:99999"}, "it must be PROTOCOL://host:port"),
        ({"listeners": "PLAINTEXT://a:1", "advertised.listeners": "SSL://b:2"}, "its name must be one of"),
        ({"listeners": "PLAINTEXT://0.0.0.0:1"}, "clients cannot connect to 0.0.0.0"),
        ({"broker.id": "1", "node.id": "2"}, "broker.id=1 and node.id=2 must agree"),
        (
            {"log.retention.hours": "0"},
            "log.retention.hours: a broker's default must be -1 (forever) or above 0",
        ),
        ({"compression.type": "zip"}, "compression.type=zip: it must be uncompressed"),
        (
            {"log.cleaner.min.compaction.lag.ms": "9", "log.cleaner.max.compaction.lag.ms": "5"},
            "above max.compaction.lag.ms 5",
        ),
        (
            {"group.min.session.timeout.ms": "9", "group.max.session.timeout.ms": "5"},
            "must be above 0 and not above",
        ),
        ({"queued.max.request.bytes": "1000"}, "it must not be below socket.request.max.bytes=104857600"),
        ({"authorizer.class.name": "a.B"}, "a.B: this broker runs no Java classes"),
        ({"zookeeper.set.acl": "true"}, "writes znodes that all may change"),
        ({"config.providers": "file"}, "looks up no values elsewhere"),
    ],
)
def test_refusals_name_the_property_and_the_remedy(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        BrokerConfig.from_properties({"log.dirs": "data", **properties})


def test_values_made_in_code_are_checked_too() -> None:
    with pytest.raises(ConfigError, match=r"^port=70000: it must be at most 65535$"):
        BrokerConfig(data_dir=Path("x"), port=70_000)
    with pytest.raises(ConfigError, match=r"^num.partitions=0: it must be at least 1$"):
        BrokerConfig(data_dir=Path("x"), num_partitions=0)


def test_kafkas_settings_without_a_meaning_are_listed() -> None:
    made = config(
        num_io_threads="8",
        replica_fetch_max_bytes="1",
        ssl_engine_factory_class="k",
        zookeeper_set_acl="false",
    )
    assert made.ignored == (
        "num.io.threads",
        "replica.fetch.max.bytes",
        "ssl.engine.factory.class",
        "zookeeper.set.acl",
    )


def test_a_file_as_kafka_ships_it(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(
        "# Licensed ...\n\nprocess.roles=broker,controller\nnode.id=1\n"
        "controller.quorum.bootstrap.servers=localhost:9093\n"
        "listeners=PLAINTEXT://:9092,CONTROLLER://:9093\ninter.broker.listener.name=PLAINTEXT\n"
        "advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
        "controller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL\n"
        "num.network.threads=3\nnum.io.threads=8\nsocket.send.buffer.bytes=102400\n"
        "log.dirs=/var/lib/kafka\nnum.partitions=1\nnum.recovery.threads.per.data.dir=1\n"
        "offsets.topic.replication.factor=1\ntransaction.state.log.replication.factor=1\n"
        "log.retention.hours=168\nlog.segment.bytes=1073741824\nlog.retention.check.interval.ms=300000\n"
    )
    made = BrokerConfig.from_properties(read_properties(path))
    assert (made.broker_id, made.port, made.advertised_host) == (1, 9092, "localhost")
    assert made.data_dir == Path("/var/lib/kafka")
    assert "num.io.threads" in made.ignored
    assert "listeners" not in made.ignored


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("a=1\nb: 2\nc 3\nd\n", {"a": "1", "b": "2", "c": "3", "d": ""}),
        ("  # no\n! no\n\n \t\f a = b = c ", {"a": "b = c "}),
        ("a = one\\\n   two\\\n\nb=2", {"a": "onetwo", "b": "2"}),
        ("a = 1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a\\ b\\=c=\\u00e9\\t\\q\\:", {"a b=c": "é\tq:"}),
        ("a=\\ud83d\\ude00", {"a": "\U0001f600"}),
        ("a=\\ud83d", {"a": "\ufffd"}),
        ("a=1\r\nb=2\rc=3\x85\x0b", {"a": "1", "b": "2", "c": "3\x85\x0b"}),
        ("a=1\\\n#no comment", {"a": "1#no comment"}),
        ("\\\n  a=1", {"a": "1"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\\", {"a": "1"}),
        ("", {}),
        ("=x", {"": "x"}),
    ],
)
def test_the_syntax_of_properties_is_javas(text: str, properties: dict[str, str]) -> None:
    assert parse_properties_text(text) == properties


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.properties cannot be read: No such file"):
        read_properties(tmp_path / "missing.properties")
    path = tmp_path / "bad.properties"
    path.write_text("a=1\n\nb=\\u12x4\n")
    with pytest.raises(
        ConfigError, match=r"bad\.properties, line 3: .u must be followed by four hexadecimal"
    ):
        read_properties(path)


def test_dynamic_overrides_lie_over_the_config_as_started() -> None:
    start = config(log_retention_minutes="90", max_connections="5", message_max_bytes="77")
    dynamic = DynamicOverrides(
        broker={"log.retention.ms": "5000", "log.cleanup.policy": "compact"},
        default={"log.retention.ms": "6000", "max.connections": "50"},
    )
    now = with_dynamic(start, dynamic)
    assert now.log.retention_ms == 5000  # the broker's own over that of all, both over minutes
    assert now.log.is_compacted
    assert now.connections_max == 50
    assert now.log.max_message_bytes == 77
    assert now.properties == start.properties
    assert with_dynamic(start, DynamicOverrides()) == start


def test_dynamic_overrides_must_do() -> None:
    with pytest.raises(ConfigError, match=r"log.segment.bytes=5: it must be at least 14"):
        with_dynamic(config(), DynamicOverrides(broker={"log.segment.bytes": "5"}))
    with pytest.raises(ConfigError, match=r"num.io.threads=0: it must be at least 1"):
        with_dynamic(config(), DynamicOverrides(broker={"num.io.threads": "0"}))
    harmless = {"no.such": "5", "num.io.threads": "9"}
    assert with_dynamic(config(), DynamicOverrides(default=harmless)) == config()
