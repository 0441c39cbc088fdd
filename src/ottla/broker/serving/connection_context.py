"""What all connections to one listener of a broker share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ottla.broker.security.listener_security import ListenerSecurity
from ottla.broker.serving.express_lane import ExpressLane
from ottla.broker.serving.faults import FaultRules
from ottla.broker.serving.handler import Handle, Handler
from ottla.broker.serving.output import Output
from ottla.broker.serving.served_broker import ServedBroker
from ottla.broker.serving.traffic import Traffic
from ottla.wire.server_connection import ShortCut


@dataclass(frozen=True, slots=True)
class ConnectionContext:
    """Made when the broker listens. `handler` returns the handler of an API key."""

    broker: ServedBroker
    handler: Callable[[int], Handler]
    traffic: Traffic
    faults: FaultRules
    output: Output
    security: ListenerSecurity

    def handle_of(self, handler: Handler) -> Handle:
        """Return the function that handles calls of an API, within the rights of their clients."""
        authorizer = self.broker.authorizer
        if authorizer is None:
            return handler.handle
        from ottla.broker.serving.guard import guarded

        return partial(guarded, authorizer, handler)

    def lane_of(self, lane: ExpressLane) -> ShortCut:
        """Return the way into the express lane of a connection."""
        authorizer = self.broker.authorizer
        if authorizer is None:
            return lane.take
        from ottla.broker.serving.guard import GuardedLane

        return GuardedLane(lane, authorizer).take

    @property
    def request_bytes_max(self) -> int:
        """The largest request that a connection accepts at first: small if the listener needs a login."""
        sasl = self.security.listener.sasl
        return sasl.request_bytes_max if sasl else self.broker.store.config.request_bytes_max
