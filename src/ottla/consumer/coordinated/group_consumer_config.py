"""The settings of GroupConsumer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from ottla.client.client_config import CLIENT_PROPERTIES, FOREIGN_PROPERTIES, ClientConfig
from ottla.consumer.coordinated.assignors import ASSIGNORS, Assignor
from ottla.consumer.coordinated.member_config import MemberConfig
from ottla.fetching.fetch_config import FETCH_PROPERTIES, FetchConfig
from ottla.model.errors import ConfigError
from ottla.model.property_table import BOOLEAN, INT, TEXT, TEXTS, Property, parse_properties, snake

_JAVA_PREFIX = "org.apache.kafka.clients.consumer."
_JAVA_NAMES = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}


CLASSIC, CONSUMER = "classic", "consumer"
_BROKERS_OWN = ("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy")
"""Settings that the broker decides where it assigns the partitions."""


def _check_protocol(properties: Mapping[str, object], *, is_broker_assigned: bool) -> None:
    """Raise ConfigError for settings that the group's protocol does not have, as Kafka's consumer does."""
    unknown = _BROKERS_OWN if is_broker_assigned else ("group.remote.assignor",)
    given = {snake(name) for name, value in properties.items() if value not in (None, "")}
    for name in unknown:
        if snake(name) in given:
            protocol = CONSUMER if is_broker_assigned else CLASSIC
            raise ConfigError(f"{name} cannot be set with group.protocol={protocol}: leave it out")


def _strategies(names: tuple[str, ...]) -> tuple[Assignor, ...]:
    known = [_JAVA_NAMES.get(name.removeprefix(_JAVA_PREFIX), name) for name in names]
    unknown = [name for name in known if name not in ASSIGNORS]
    if unknown or not known:
        raise ConfigError(
            f"{', '.join(unknown) or 'nothing'} is not an assignor; give one of {', '.join(ASSIGNORS)}"
        )
    return tuple(ASSIGNORS[name] for name in dict.fromkeys(known))


GROUP_PROPERTIES: tuple[Property, ...] = (
    *CLIENT_PROPERTIES,
    *FETCH_PROPERTIES,
    Property("group.id", TEXT, "", "The group; its members share the partitions of their topics."),
    Property(
        "group.protocol",
        TEXT,
        CLASSIC,
        "consumer: the broker assigns, and only what moves stops (KIP-848; Kafka 4.0 and later). A group in "
        "use may change from one to the other, member by member.",
        choices=(CLASSIC, CONSUMER),
    ),
    Property(
        "group.remote.assignor",
        TEXT,
        "",
        "With group.protocol=consumer: the broker's assignor, uniform or range; else the broker decides.",
    ),
    Property(
        "group.instance.id",
        TEXT,
        "",
        "Makes the member static: it keeps its partitions through a restart shorter than session.timeout.ms.",
    ),
    Property(
        "session.timeout.ms",
        INT,
        30_000,
        "After this time without a heartbeat the group removes the member. Kafka 0.9 allows at most 30,000.",
        minimum=1,
    ),
    Property("heartbeat.interval.ms", INT, 3_000, "How often the member sends a heartbeat.", minimum=1),
    Property(
        "max.poll.interval.ms",
        INT,
        300_000,
        "The longest time between two polls; also how long a rebalance waits for all members to join.",
        minimum=1,
    ),
    Property(
        "max.poll.records",
        INT,
        500,
        "After this number of rows `messages` does the work of a poll. Chunks are never divided.",
        minimum=1,
    ),
    Property(
        "partition.assignment.strategy",
        TEXTS,
        _strategies(("range", "cooperative-sticky")),
        "Assignors, the preferred one first. With cooperative-sticky alone, members keep their partitions.",
        field="assignors",
        check=_strategies,
    ),
    Property(
        "enable.auto.commit",
        BOOLEAN,
        default=True,
        doc="Whether polls commit positions every auto.commit.interval.ms, and `close` at the end.",
        synonyms=("auto.commit.enable",),
    ),
    Property("auto.commit.interval.ms", INT, 5_000, "How often auto commit commits.", minimum=1),
)


@dataclass(frozen=True, slots=True)
class GroupConsumerConfig:
    """Checked settings. `auto_commit_interval_ms` is None if the application commits."""

    client: ClientConfig
    fetch: FetchConfig
    member: MemberConfig
    auto_commit_interval_ms: int | None
    max_poll_records: int

    @classmethod
    def from_properties(cls, properties: Mapping[str, object]) -> Self:
        """Parse settings with Kafka's names, dotted or snake_case. Raises ConfigError."""
        values: dict[str, Any] = parse_properties(GROUP_PROPERTIES, properties, foreign=FOREIGN_PROPERTIES)
        is_broker_assigned = values["group_protocol"] == CONSUMER
        _check_protocol(properties, is_broker_assigned=is_broker_assigned)
        return cls(
            ClientConfig.from_values(values),
            FetchConfig.from_values(values),
            MemberConfig(
                group_id=values["group_id"],
                assignors=values["assignors"],
                session_timeout_ms=values["session_timeout_ms"],
                heartbeat_interval_ms=values["heartbeat_interval_ms"],
                max_poll_interval_ms=values["max_poll_interval_ms"],
                instance_id=values["group_instance_id"] or None,
                rack=values["client_rack"] or None,
                is_broker_assigned=is_broker_assigned,
                remote_assignor=values["group_remote_assignor"] or None,
            ),
            values["auto_commit_interval_ms"] if values["enable_auto_commit"] else None,
            values["max_poll_records"],
        )
