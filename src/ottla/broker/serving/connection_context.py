"""What all connections to one listener of a broker share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.broker.security.listener_security import ListenerSecurity
from ottla.broker.serving.faults import FaultRules
from ottla.broker.serving.handler import Handler
from ottla.broker.serving.output import Output
from ottla.broker.serving.served_broker import ServedBroker
from ottla.broker.serving.traffic import Traffic


@dataclass(frozen=True, slots=True)
class ConnectionContext:
    """Made when the broker listens."""

    broker: ServedBroker
    handlers: Mapping[int, Handler]
    traffic: Traffic
    faults: FaultRules
    output: Output
    security: ListenerSecurity

    @property
    def request_bytes_max(self) -> int:
        """The largest request that a connection takes at first: a small one where a login is asked for."""
        sasl = self.security.listener.sasl
        return sasl.request_bytes_max if sasl else self.broker.store.config.request_bytes_max
