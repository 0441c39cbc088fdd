"""A topic's settings: overrides over the broker's defaults."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.settings.broker_config import BrokerConfig, DynamicOverrides, with_dynamic
from ottla.broker.settings.config_changes import replaced
from ottla.broker.settings.topic_settings import ConfigRefused, topic_config
from ottla.log.log_config import LogConfig
from ottla.model.error_codes import Code
from ottla.wire.api.create_topics import CreateTopicConfig

FOREVER = (1 << 63) - 1
PLAIN = BrokerConfig(data_dir=Path("data"))


def test_without_overrides_a_topic_is_as_the_broker_says() -> None:
    log = LogConfig(retention_ms=7)
    topic = topic_config(BrokerConfig(data_dir=Path("x"), log=log, min_insync_replicas=2), {})
    assert topic.log == log
    assert topic.min_insync_replicas == 2
    assert topic.message_downconversion
    assert not topic.flush_every_write


def test_overrides_come_first() -> None:
    config = BrokerConfig.from_properties(
        {"log.dir": "x", "log.retention.hours": "1", "log.segment.bytes": "100", "message.max.bytes": "50"}
    )
    topic = topic_config(
        config, {"retention.ms": "0", "cleanup.policy": "compact,delete", "max.message.bytes": "60"}
    )
    assert topic.log.retention_ms == 0
    assert topic.log.cleanup_policy == {"compact", "delete"}
    assert topic.log.max_message_bytes == 60
    assert topic.log.segment_bytes == 100


def test_what_a_running_broker_was_told_counts_for_its_topics() -> None:
    config = with_dynamic(
        PLAIN, DynamicOverrides(default={"log.retention.ms": "5", "min.insync.replicas": "3"})
    )
    topic = topic_config(config, {"retention.bytes": "-7"})
    assert (topic.log.retention_ms, topic.log.retention_bytes, topic.min_insync_replicas) == (5, -1, 3)


@pytest.mark.parametrize("name", ["flush.messages", "flush.ms"])
def test_any_bound_on_flushing_is_kept_by_flushing_every_write(name: str) -> None:
    assert topic_config(PLAIN, {name: "1"}).flush_every_write
    assert topic_config(PLAIN, {name: "10000"}).flush_every_write
    assert not topic_config(PLAIN, {name: str(FOREVER)}).flush_every_write
    config = BrokerConfig(data_dir=Path("x"), flush_messages=5, flush_ms=5)
    never = {"flush.messages": str(FOREVER), "flush.ms": str(FOREVER)}
    assert not topic_config(config, never).flush_every_write


def test_the_older_bound_on_timestamps_can_be_a_topics_too() -> None:
    config = BrokerConfig.from_properties({"log.dir": "x", "log.message.timestamp.difference.max.ms": "5"})
    log = topic_config(config, {"message.timestamp.difference.max.ms": "8"}).log
    assert (log.message_timestamp_before_max_ms, log.message_timestamp_after_max_ms) == (8, 8)
    log = topic_config(config, {"message.timestamp.before.max.ms": "9"}).log
    assert (log.message_timestamp_before_max_ms, log.message_timestamp_after_max_ms) == (9, 5)


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        ({"retention.mss": "1"}, "retention.mss is not a setting of a topic; did you mean retention.ms?"),
        ({"log.retention.ms": "1"}, "log.retention.ms is not a setting of a topic; did you mean"),
        ({"zzz": "1"}, "zzz is not a setting of a topic"),
        ({"retention.ms": "x"}, "retention.ms=x: it must be a whole number of 64 bits (ms)"),
        ({"cleanup.policy": ""}, "cleanup.policy is []: delete, compact or both"),
        ({"compression.type": "zip"}, "compression.type=zip: it must be uncompressed"),
        ({"compression.gzip.level": "0"}, "compression.gzip.level=0: it must be 1 to 9"),
        ({"remote.storage.enable": "true"}, "this broker has no remote storage"),
        (
            {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
            "above max.compaction.lag.ms 5",
        ),
    ],
)
def test_refusals_are_kafkas_invalid_config(overrides: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigRefused) as caught:
        topic_config(PLAIN, overrides)
    assert caught.value.code == Code.INVALID_CONFIG
    assert reason in caught.value.reason


def test_settings_that_need_more_than_one_machine_are_taken() -> None:
    harmless = {
        "compression.type": "producer",
        "compression.zstd.level": "10",
        "unclean.leader.election.enable": "true",
        "leader.replication.throttled.replicas": "*",
        "follower.replication.throttled.replicas": "0:1,1:2",
        "preallocate": "true",
        "message.format.version": "2.8",
        "remote.storage.enable": "false",
        "local.retention.ms": "-2",
    }
    assert topic_config(PLAIN, harmless) == topic_config(PLAIN, {})


def test_the_overrides_of_a_new_topic() -> None:
    entries = [
        CreateTopicConfig(name="retention.ms", value="1"),
        CreateTopicConfig(name="preallocate", value="true"),
    ]
    assert replaced(entries) == {"retention.ms": "1", "preallocate": "true"}
    for bad, code in [
        ([*entries, entries[0]], Code.INVALID_REQUEST),
        ([CreateTopicConfig(name="retention.ms", value=None)], Code.INVALID_REQUEST),
        ([CreateTopicConfig(name="retention.ms", value="")], Code.INVALID_CONFIG),
    ]:
        with pytest.raises(ConfigRefused) as caught:
            topic_config(PLAIN, replaced(bad))
        assert caught.value.code == code
