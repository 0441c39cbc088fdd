"""The classic consumer's settings: Kafka's names, Kafka's defaults, refusals that say what to do."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.consumer.classic.assignors import AssignmentInput
from ottla.consumer.classic.classic_config import CLASSIC_PROPERTIES, ClassicConfig, OffsetsStorage
from ottla.consumer.classic.identity import ConsumerThreadId
from ottla.consumer.classic.rebalancer import FailurePolicy
from ottla.model.errors import ConfigError
from ottla.model.property_table import parse_properties

NEEDED = {"group.id": "g", "zookeeper.connect": "zk:2181/kafka"}

DEFAULTS: dict[str, object] = {
    "socket_timeout_ms": 30_000,
    "fetch_message_max_bytes": 1_048_576,
    "num_consumer_fetchers": 1,
    "auto_commit_enable": True,
    "auto_commit_interval_ms": 60_000,
    "queued_max_message_chunks": 2,
    "rebalance_max_retries": 4,
    "fetch_min_bytes": 1,
    "fetch_wait_max_ms": 100,
    "refresh_leader_backoff_ms": 200,
    "auto_offset_reset": "largest",
    "consumer_timeout_ms": -1,
    "exclude_internal_topics": True,
    "partition_assignment_strategy": "range",
    "offsets_storage": "zookeeper",
    "offsets_channel_backoff_ms": 1000,
    "offsets_channel_socket_timeout_ms": 10_000,
    "offsets_commit_max_retries": 5,
    "fetch_max_bytes": 52_428_800,
    "zookeeper_session_timeout_ms": 6000,
    "zookeeper_sync_time_ms": 2000,
    "consumer_id": "",
}
"""Of Kafka 0.8.2 and 0.9, where they are plain values."""


def config(**more: object) -> ClassicConfig:
    return ClassicConfig.from_properties({**NEEDED, **more})


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults_are_kafkas(name: str) -> None:
    values: dict[str, Any] = parse_properties(CLASSIC_PROPERTIES, {})
    key = {"socket_timeout_ms": "request_timeout_ms"}.get(name, name)
    assert values[key] == DEFAULTS[name]


def test_one_default_is_not_kafkas() -> None:
    """Kafka's socket.receive.buffer.bytes=65536 would keep the system from growing the buffer as needed."""
    assert parse_properties(CLASSIC_PROPERTIES, {})["socket_receive_buffer_bytes"] == -1


def test_defaults_that_are_other_settings() -> None:
    found = config()
    assert found.zookeeper.connection_timeout_ms == 6000
    assert found.times.backoff_ms == 2000
    assert not found.dual_commit
    assert config(zookeeper_sync_time_ms=3000).times.backoff_ms == 3000
    assert config(zookeeper_session_timeout_ms=9000).zookeeper.connection_timeout_ms == 9000
    kafka = config(offsets_storage="kafka")
    assert kafka.offsets_storage is OffsetsStorage.KAFKA
    assert kafka.dual_commit
    for value in ("false", "False", False):
        assert not config(offsets_storage="kafka", dual_commit_enabled=value).dual_commit
    assert config(offsets_storage="kafka", dual_commit_enabled=True).dual_commit


def test_a_client_is_called_as_its_group() -> None:
    found = config(**{"bootstrap.servers": "kafka:9092"})
    assert found.client(found.bootstrap).client_id == "g"
    assert config(client_id="c", bootstrap_servers="k:1").client(found.bootstrap).client_id == "c"


def test_strategies() -> None:
    thread = ConsumerThreadId("g_a", 0)
    given = AssignmentInput({"a": [thread], "b": []}, {"a": [0], "b": [0]})
    assert config().assignor(given) == {("a", 0): thread}
    ring = config(partition_assignment_strategy="roundrobin", round_robin_version="1.0")
    assert ring.needs_all_topics
    assert ring.assignor(given) == {("a", 0): thread}
    assert not config(partition_assignment_strategy="roundrobin").needs_all_topics


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"group.id": ""}, r"group\.id"),
        ({"group.id": "a/b"}, r"group\.id"),
        ({"zookeeper.connect": ""}, r"zookeeper\.connect is not set"),
        ({"zookeeper.connect": "a:b:c"}, r"zookeeper\.connect"),
        ({"offsets.storage": "disk"}, r"offsets\.storage"),
        ({"rebalance.max.retrys": 1}, r"did you mean rebalance\.max\.retries"),
        ({"partition.assignment.strategy": "sticky"}, r"partition\.assignment\.strategy"),
        ({"fetch.wait.max.ms": 40_000}, r"fetch\.wait\.max\.ms=40000 is above socket\.timeout\.ms=30000"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        ClassicConfig.from_properties({**NEEDED, **given})


def test_attempts_are_held_against_the_granted_timeout() -> None:
    assert config().for_session(6000).confirm_ms == 2000
    with pytest.raises(ConfigError, match=r"=4 .*=2000 = 8000 ms is not above .* 8000 ms .* to 2001 or more"):
        config().for_session(8000)


def test_policies() -> None:
    assert config().times.failure_policy is FailurePolicy.KEEP_TRYING
    assert config(rebalance_failure_policy="raise").times.failure_policy is FailurePolicy.RAISE
