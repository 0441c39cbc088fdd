"""What the classic consumer raises beside what its parts raise."""

from __future__ import annotations

from ottla.model.errors import OttlaError


class ConsumerTimeout(OttlaError):
    """No message came within consumer.timeout.ms; the stream may be read on."""


class ConsumerRebalanceFailed(OttlaError):
    """All attempts to rebalance failed, and rebalance.failure.policy is raise. The member left the group."""


class MessageStreamsExist(OttlaError):
    """Streams can be created once for a connector."""


class ListenerFailed(OttlaError):
    """The application's rebalance listener raised; the attempt failed, and the cause is attached."""
