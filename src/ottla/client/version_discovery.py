"""Version discovery when a connection is opened, and errors with remedies. Pure.

`VersionDiscovery` adds to `ottla.wire.negotiation` what both drivers need: the name of the peer, and a limit
for silence.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from ottla.model.address import Address
from ottla.model.errors import BrokerUnreachable, ConnectionLost, KafkaError, RemoteProtocolError
from ottla.model.version import VERSION
from ottla.wire.negotiation import Discovery, Plan, Question
from ottla.wire.schema import Response
from ottla.wire.versions import PeerVersions, VersionsOrigin

log = logging.getLogger(__name__)

CHUNK_BYTES = 64 * 1024
"""The first receive buffer of a connection."""

SILENCES_MAX = 2
"""0.9 does not answer ApiVersions, but then answers other requests. A peer that is silent twice in a row is
no broker, or is stuck; all other probes would take four more timeouts."""


def peer_name(address: Address, broker_id: int | None) -> str:
    """Return the name of the broker for messages."""
    return f"{address}" if broker_id is None else f"broker {broker_id} at {address}"


def unreachable(address: Address, broker_id: int | None, error: OSError) -> BrokerUnreachable:
    """Return the error for an address that accepts no connection."""
    cause = error.strerror or f"{error}" or "no answer"
    if type(error).__name__ == "gaierror":  # a socket.gaierror, without a socket
        cause = f"its name cannot be resolved ({cause})"
    if broker_id is None:
        return BrokerUnreachable(
            f"{address} cannot be reached: {cause}. Check the address, and that a broker runs there"
        )
    return BrokerUnreachable(
        f"broker {broker_id} advertises {address}, which cannot be reached from here: {cause}. "
        "It may be down; else its advertised.listeners must name an address that this machine can reach"
    )


def unanswered(error: ConnectionLost, security: str) -> ConnectionLost:
    """Return the error for a connection without a login that broke before its first answer."""
    return ConnectionLost(
        f"{error}. It has listed its versions and answered nothing else: if this repeats, the listener may "
        f"want a login (security.protocol is {security} here, not SASL_PLAINTEXT or SASL_SSL)"
    )


CLOSED_AFTER_TLS = (
    "It closed right after the TLS handshake: it may have refused our certificate, or ask for one "
    "(ssl.certificate.location, ssl.keystore.location)"
)


class VersionDiscovery:
    """One broker's version discovery. Send what `plan` says while it is a Question, and report the
    outcome.
    """

    def __init__(self, peer: str, pin: str | None, *, has_tls: bool) -> None:
        self._peer = peer
        self._has_tls = has_tls
        self._has_answered = False
        self._discovery = Discovery(software_version=VERSION, pin=pin)
        self._silences = 0
        self.plan: Plan = self._discovery.start()

    def answered(self, message: Response) -> None:
        """Report an answer. Raises RemoteProtocolError, KafkaError."""
        self._silences = 0
        self._has_answered = True
        self.plan = self._named(partial(self._discovery.answered, message))

    def closed(self) -> None:
        """Report that the broker closed the connection. Raises RemoteProtocolError."""
        self._silences = 0
        self.plan = self._named(self._discovery.closed)

    def silent(self, patience_ms: float, *, is_over: bool) -> None:
        """Report that no answer came within `patience_ms`.

        Raises BrokerUnreachable if that happens again, or if `is_over`.
        """
        self._silences += 1
        if self._silences >= SILENCES_MAX or is_over:
            raise BrokerUnreachable(
                f"{self._peer} takes connections and answers nothing ({self._silences} requests, "
                f"{patience_ms:.0f} ms each). It is stuck, or no Kafka broker: check the port, and "
                "whether it wants TLS (security.protocol)"
            )
        self.plan = self._named(self._discovery.silent)

    @property
    def versions(self) -> PeerVersions:
        """The versions that were discovered."""
        assert not isinstance(self.plan, Question)
        versions = self.plan.versions
        if versions.origin is VersionsOrigin.PROBED:
            log.warning(
                "%s does not list its versions and looks like Kafka %s; broker.version=%s avoids probing. "
                "If it is a newer one, it was too slow to answer (api.version.request.timeout.ms)",
                self._peer,
                versions.generation,
                versions.generation,
            )
        return versions

    def _named(self, decide: Callable[[], Plan]) -> Plan:
        """Return what the discovery decides; if it gives up, the error names the peer."""
        try:
            return decide()
        except RemoteProtocolError as error:
            why = f". {CLOSED_AFTER_TLS}" if self._has_tls and not self._has_answered else ""
            raise RemoteProtocolError(f"{self._peer}: {error}{why}") from error
        except KafkaError as error:
            raise KafkaError(error.code, f"{self._peer} refused to list its versions") from error
