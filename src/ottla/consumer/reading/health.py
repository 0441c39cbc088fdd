"""Health: the state of a consumer, as applications see it. Pure."""

from __future__ import annotations

from enum import Enum


class Health(Enum):
    """The state of a consumer. DEGRADED: a partition that it owns is not read.

    >>> from ottla import ConsumerConnector, Health
    >>> with ConsumerConnector(group_id="kitchen", zookeeper_connect="127.0.0.1:2181") as connector:
    ...     streams = connector.create_message_streams({"orders": 1})
    ...     connector.health in (Health.DEGRADED, Health.FAILED)  # worth an alarm
    False
    >>> connector.health is Health.CLOSED
    True
    """

    JOINING = "joining"
    STABLE = "stable"
    REBALANCING = "rebalancing"
    DEGRADED = "degraded"
    SUSPENDED = "suspended"
    LOST = "lost"
    FAILED = "failed"
    CLOSED = "closed"
