"""What users set about the classic consumer: Kafka's names and Kafka's defaults, parsed once.

    ClassicConfig.from_properties({"group.id": "billing", "zookeeper.connect": "zk-1:2181/kafka"})

Brokers are found in ZooKeeper. With bootstrap.servers, they are asked for topics as well, and ZooKeeper is
only there for the group: so it works on clusters that have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any, Self

from ottla.classic.assignors import Assignor, RoundRobinVersion, assign_ranges, deal_round_robin
from ottla.classic.rebalancer import FailurePolicy, RebalanceTimes
from ottla.client.config import CLIENT_PROPERTIES, FOREIGN_PROPERTIES, ClientConfig, SecurityProtocol
from ottla.client.properties import BOOLEAN, INT, TEXT, Property, parse_properties
from ottla.fetching import FETCH_PROPERTIES, FetchConfig
from ottla.model.address import Address
from ottla.model.errors import ConfigError
from ottla.zookeeper.kazoo_session import KazooSettings
from ottla.zookeeper.paths import checked_group, parse_connect


class OffsetsStorage(StrEnum):
    """Where a group's offsets are kept."""

    ZOOKEEPER = "zookeeper"
    KAFKA = "kafka"


_KAFKA_DEFAULTS: Mapping[str, object] = {
    "client.id": "",
    "fetch.wait.max.ms": 100,
    "fetch.message.max.bytes": 1 << 20,
    "queued.max.message.chunks": 2,
}
"""Where the classic consumer's defaults are others than those of the tables that it shares."""

CLASSIC_PROPERTIES: tuple[Property, ...] = (
    *(
        replace(row, default=_KAFKA_DEFAULTS.get(row.name, row.default))
        for row in (*CLIENT_PROPERTIES, *FETCH_PROPERTIES)
    ),
    Property("group.id", TEXT, "", "The group whose members share the partitions.", check=checked_group),
    Property(
        "zookeeper.connect", TEXT, "", "HOST:PORT of ZooKeeper's servers, between commas, with a /chroot."
    ),
    Property("consumer.id", TEXT, "", "The member's name in the group; made up if it is not given."),
    Property(
        "zookeeper.session.timeout.ms", INT, 6000, "How long a dead member keeps its partitions.", minimum=1
    ),
    Property(
        "zookeeper.connection.timeout.ms",
        INT,
        0,
        "How long to wait for ZooKeeper at the start; 0 is as long as the session timeout.",
        minimum=0,
    ),
    Property("zookeeper.sync.time.ms", INT, 2000, "The default of rebalance.backoff.ms.", minimum=1),
    Property(
        "auto.commit.enable",
        BOOLEAN,
        default=True,
        doc="Whether offsets are committed now and then, before partitions go to others, and at the end.",
        synonyms=("enable.auto.commit",),
    ),
    Property("auto.commit.interval.ms", INT, 60_000, "How often.", minimum=1),
    Property("consumer.timeout.ms", INT, -1, "How long a stream waits before ConsumerTimeout; -1: for ever."),
    Property(
        "exclude.internal.topics", BOOLEAN, default=True, doc="Whether filters leave out Kafka's own topics."
    ),
    Property(
        "partition.assignment.strategy",
        TEXT,
        "range",
        "How partitions are shared out; the same for all members.",
        choices=("range", "roundrobin"),
    ),
    Property(
        "round.robin.version",
        TEXT,
        RoundRobinVersion.V0_8_2,
        "Which Kafka's round-robin; the same for all members.",
        choices=tuple(version.value for version in RoundRobinVersion),
        check=RoundRobinVersion,
    ),
    Property(
        "rebalance.max.retries", INT, 4, "How many attempts fail before the member is DEGRADED.", minimum=1
    ),
    Property(
        "rebalance.backoff.ms",
        INT,
        0,
        "The pause between attempts; 0 is zookeeper.sync.time.ms.",
        minimum=0,
    ),
    Property(
        "rebalance.coalesce.ms", INT, 50, "How long to wait for more events after the first.", minimum=0
    ),
    Property(
        "rebalance.watchdog.ms",
        INT,
        10_000,
        "How long a partition may be unread before something is done about it.",
        minimum=100,
    ),
    Property(
        "rebalance.failure.policy",
        TEXT,
        FailurePolicy.KEEP_TRYING,
        "What becomes of a member whose attempts all fail: keep-trying, or raise in every stream.",
        choices=tuple(policy.value for policy in FailurePolicy),
        check=FailurePolicy,
    ),
    Property(
        "offsets.storage",
        TEXT,
        OffsetsStorage.ZOOKEEPER,
        "Where offsets are kept.",
        choices=tuple(OffsetsStorage),
        check=OffsetsStorage,
    ),
    Property(
        "dual.commit.enabled",
        BOOLEAN,
        default=None,
        doc="Whether offsets in Kafka are written to ZooKeeper too; yes, if it is not given.",
    ),
    Property(
        "offsets.channel.backoff.ms",
        INT,
        1000,
        "The pause before another try to store offsets in Kafka.",
        minimum=0,
    ),
    Property(
        "offsets.channel.socket.timeout.ms", INT, 10_000, "How long the coordinator may take.", minimum=1
    ),
    Property("offsets.commit.max.retries", INT, 5, "How often a commit is tried again.", minimum=0),
)


@dataclass(frozen=True, kw_only=True)
class ClassicConfig:
    """Checked settings; CLASSIC_PROPERTIES says what they mean."""

    group_id: str
    consumer_id: str
    zookeeper: KazooSettings
    times: RebalanceTimes
    assignor: Assignor
    needs_all_topics: bool
    exclude_internal_topics: bool
    auto_commit_interval_ms: float | None
    """None is for no auto-commit."""
    consumer_timeout_ms: float | None
    """None is without end."""
    offsets_storage: OffsetsStorage
    dual_commit: bool
    commit_timeout_ms: float
    bootstrap: tuple[Address, ...]
    fetch: FetchConfig
    _client_values: Mapping[str, Any]

    @classmethod
    def from_properties(cls, properties: Mapping[str, object]) -> Self:
        """Of Kafka's names, dotted or snake_case. Raises ConfigError."""
        values = parse_properties(CLASSIC_PROPERTIES, properties, foreign=FOREIGN_PROPERTIES)
        for name in ("group.id", "zookeeper.connect"):
            if not values[name.replace(".", "_")]:
                raise ConfigError(f"{name} is not set: the classic consumer needs it")
        parse_connect(values["zookeeper_connect"])
        values["client_id"] = values["client_id"] or values["group_id"]
        if values["fetch_wait_max_ms"] > values["request_timeout_ms"]:
            raise ConfigError(
                f"fetch.wait.max.ms={values['fetch_wait_max_ms']} is above "
                f"socket.timeout.ms={values['request_timeout_ms']}: every fetch without news would time out"
            )
        is_ring = values["round_robin_version"] is not RoundRobinVersion.V0_8_2
        is_round_robin = values["partition_assignment_strategy"] == "roundrobin"
        stores_in_kafka = values["offsets_storage"] is OffsetsStorage.KAFKA
        timeout_ms = values["consumer_timeout_ms"]
        attempts = values["offsets_commit_max_retries"] + 1
        return cls(
            group_id=values["group_id"],
            consumer_id=values["consumer_id"],
            zookeeper=_zookeeper(values),
            times=_times(values),
            assignor=partial(deal_round_robin, version=values["round_robin_version"])
            if is_round_robin
            else assign_ranges,
            needs_all_topics=is_round_robin and is_ring,
            exclude_internal_topics=values["exclude_internal_topics"],
            auto_commit_interval_ms=values["auto_commit_interval_ms"]
            if values["auto_commit_enable"]
            else None,
            consumer_timeout_ms=None if timeout_ms < 0 else timeout_ms,
            offsets_storage=values["offsets_storage"],
            dual_commit=stores_in_kafka and values["dual_commit_enabled"] is not False,
            commit_timeout_ms=attempts * values["offsets_channel_backoff_ms"]
            + values["offsets_channel_socket_timeout_ms"],
            bootstrap=values["bootstrap"],
            fetch=FetchConfig.from_values(values),
            _client_values=values,
        )

    def client(self, bootstrap: tuple[Address, ...]) -> ClientConfig:
        """How to talk to these brokers."""
        return ClientConfig.from_values({**self._client_values, "bootstrap": bootstrap})

    @property
    def protocol(self) -> SecurityProtocol:
        """Which of the brokers' endpoints in ZooKeeper are ours."""
        found: SecurityProtocol = self._client_values["security_protocol"]
        return found

    def for_session(self, session_timeout_ms: int) -> RebalanceTimes:
        """The times, with what ZooKeeper granted. Raises ConfigError if attempts end before a session."""
        attempts_ms = self.times.max_retries * self.times.backoff_ms
        if attempts_ms <= session_timeout_ms:
            enough = session_timeout_ms // self.times.max_retries + 1
            raise ConfigError(
                f"rebalance.max.retries={self.times.max_retries} * "
                f"rebalance.backoff.ms={self.times.backoff_ms:.0f} = {attempts_ms:.0f} ms is not above the "
                f"session timeout of {session_timeout_ms} ms that ZooKeeper granted: a dead member keeps its "
                f"partitions for so long, and all attempts would fail; set rebalance.backoff.ms to {enough} "
                "or more, or lower zookeeper.session.timeout.ms"
            )
        return replace(self.times, confirm_ms=session_timeout_ms / 3)


def _zookeeper(values: Mapping[str, Any]) -> KazooSettings:
    session_ms = values["zookeeper_session_timeout_ms"]
    return KazooSettings(
        values["zookeeper_connect"],
        session_timeout_ms=session_ms,
        connection_timeout_ms=values["zookeeper_connection_timeout_ms"] or session_ms,
    )


def _times(values: Mapping[str, Any]) -> RebalanceTimes:
    return RebalanceTimes(
        max_retries=values["rebalance_max_retries"],
        backoff_ms=values["rebalance_backoff_ms"] or values["zookeeper_sync_time_ms"],
        coalesce_ms=values["rebalance_coalesce_ms"],
        watchdog_ms=values["rebalance_watchdog_ms"],
        confirm_ms=values["zookeeper_session_timeout_ms"] / 3,
        failure_policy=values["rebalance_failure_policy"],
    )
