"""MemberConfig: the settings of a group member."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.consumer.coordinated.assignors import Assignor
from ottla.model.errors import ConfigError


@dataclass(frozen=True, slots=True)
class MemberConfig:
    """Settings of a group member. Times are in ms; the preferred assignor comes first.

    `is_broker_assigned`: group.protocol is consumer. Then the broker decides about assignor, session and
    heartbeats.
    """

    group_id: str
    assignors: tuple[Assignor, ...]
    session_timeout_ms: int = 30_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    instance_id: str | None = None
    rack: str | None = None
    is_broker_assigned: bool = False
    remote_assignor: str | None = None

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
        """Whether the member keeps its partitions while it joins: true if every assignor allows that."""
        return all(assignor.is_cooperative for assignor in self.assignors)
