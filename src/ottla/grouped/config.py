"""What users set about being a member of a group, parsed once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from ottla.client.config import CLIENT_PROPERTIES, FOREIGN_PROPERTIES, ClientConfig
from ottla.client.properties import BOOLEAN, INT, TEXT, TEXTS, Property, parse_properties
from ottla.fetching import FETCH_PROPERTIES, FetchConfig
from ottla.grouped.assignors import ASSIGNORS, Assignor
from ottla.model.errors import ConfigError

_JAVA_PREFIX = "org.apache.kafka.clients.consumer."
_JAVA_NAMES = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}


def _strategies(names: tuple[str, ...]) -> tuple[Assignor, ...]:
    known = [_JAVA_NAMES.get(name.removeprefix(_JAVA_PREFIX), name) for name in names]
    strange = [name for name in known if name not in ASSIGNORS]
    if strange or not known:
        raise ConfigError(f"{', '.join(strange) or 'none'} is no assignor; there are {', '.join(ASSIGNORS)}")
    return tuple(ASSIGNORS[name] for name in dict.fromkeys(known))


GROUP_PROPERTIES: tuple[Property, ...] = (
    *CLIENT_PROPERTIES,
    *FETCH_PROPERTIES,
    Property("group.id", TEXT, "", "The group; its members share the partitions of their topics."),
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
        "How long without a heartbeat until the group takes a member for dead. Kafka 0.9 allows no more.",
        minimum=1,
    ),
    Property("heartbeat.interval.ms", INT, 3_000, "How often a member tells that it lives.", minimum=1),
    Property(
        "max.poll.interval.ms",
        INT,
        300_000,
        "How long an application may take between two polls, and a rebalance for all members to join.",
        minimum=1,
    ),
    Property(
        "max.poll.records",
        INT,
        500,
        "How many rows `messages` hands out before it looks after the group again. Chunks come whole.",
        minimum=1,
    ),
    Property(
        "partition.assignment.strategy",
        TEXTS,
        _strategies(("range", "cooperative-sticky")),
        "Assignors, the preferred one first. With cooperative-sticky alone, members keep what they have.",
        field="assignors",
        check=_strategies,
    ),
    Property("client.rack", TEXT, "", "Where this client is, for assignors that care."),
    Property(
        "enable.auto.commit",
        BOOLEAN,
        default=True,
        doc="Whether positions are committed from time to time, by polls, and at the end.",
        synonyms=("auto.commit.enable",),
    ),
    Property("auto.commit.interval.ms", INT, 5_000, "How often.", minimum=1),
)


@dataclass(frozen=True, slots=True)
class MemberConfig:
    """What a member is asked to be. Times in ms; `assignors` in order of preference."""

    group_id: str
    assignors: tuple[Assignor, ...]
    session_timeout_ms: int = 30_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    instance_id: str | None = None
    rack: str | None = None

    def __post_init__(self) -> None:
        if not self.group_id:
            raise ConfigError("group.id is empty: give the group a name")
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                f"heartbeat.interval.ms={self.heartbeat_interval_ms}: it must be less than "
                f"session.timeout.ms={self.session_timeout_ms}; a third of it is usual"
            )

    @property
    def is_cooperative(self) -> bool:
        """Whether members may keep what they have while they join: if every assignor can do so."""
        return all(assignor.is_cooperative for assignor in self.assignors)


@dataclass(frozen=True, slots=True)
class GroupConsumerConfig:
    """Checked settings. `auto_commit_interval_ms` None: the application commits."""

    client: ClientConfig
    fetch: FetchConfig
    member: MemberConfig
    auto_commit_interval_ms: int | None
    max_poll_records: int

    @classmethod
    def from_properties(cls, properties: Mapping[str, object]) -> Self:
        """Of Kafka's names, dotted or snake_case. Raises ConfigError."""
        values: dict[str, Any] = parse_properties(GROUP_PROPERTIES, properties, foreign=FOREIGN_PROPERTIES)
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
            ),
            values["auto_commit_interval_ms"] if values["enable_auto_commit"] else None,
            values["max_poll_records"],
        )
