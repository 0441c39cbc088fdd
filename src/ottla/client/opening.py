"""How a connection is opened: TCP, TLS, the versions that the broker speaks, SASL, in this order.

The versions come before the login, since the login itself has versions. It may take several links to find
them (`ottla.wire.negotiation`); the last link becomes the connection.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from ottla.client.authentication import authenticate
from ottla.client.client_config import ClientConfig
from ottla.client.clock import Clock, Deadline
from ottla.client.interruption import Interruption
from ottla.client.link import Link
from ottla.client.tls import handshake_failure, tls_context
from ottla.client.transport import SocketBuffers, TlsTransport, Transport, connected_socket
from ottla.client.version_memory import VersionMemory
from ottla.model.address import Address
from ottla.model.errors import (
    BrokerUnreachable,
    ConnectionLost,
    KafkaError,
    RemoteProtocolError,
    RequestTimedOut,
)
from ottla.model.version import VERSION
from ottla.wire.frames import Allocator, FrameReceiver
from ottla.wire.negotiation import Discovery, Plan, ProbeLink, Question
from ottla.wire.versions import PeerVersions, VersionsOrigin

log = logging.getLogger(__name__)

CHUNK_BYTES = 64 * 1024
"""The first receive buffer of a connection."""

SILENCES_MAX = 2
"""0.9 does not answer ApiVersions, but then answers other requests. A peer that is silent twice in a row is
no broker, or is stuck; all other probes would take four more timeouts."""


class Opened(NamedTuple):
    """A link that is ready, and the versions of the broker."""

    link: Link
    versions: PeerVersions
    session_lifetime_ms: int  # after this time the broker wants a new login; 0: never


@dataclass(frozen=True, slots=True, kw_only=True)
class Opener:
    """Opens links to one address."""

    address: Address
    config: ClientConfig
    broker_id: int | None
    allocate: Allocator
    interruption: Interruption
    clock: Clock
    memory: VersionMemory
    deadline: Deadline

    def open(self) -> Opened:
        """Raises BrokerUnreachable, AuthenticationFailed, RemoteProtocolError, ConnectionLost."""
        known = self.memory.recall(self.address)
        link, versions = (self.link(), known) if known is not None else self._discover()
        try:
            link.adopt(versions)
            lifetime_ms = 0
            if self.config.security.protocol.has_sasl:
                lifetime_ms = authenticate(link, self.config.security, versions, self._patience())
        except BaseException:
            link.close()
            raise
        self.memory.keep(self.address, versions)
        return Opened(link, versions, lifetime_ms)

    # --- one link

    @property
    def peer(self) -> str:
        """The name of the broker in messages."""
        return f"{self.address}" if self.broker_id is None else f"broker {self.broker_id} at {self.address}"

    def link(self) -> Link:
        """Connect, with TLS if the settings say so."""
        transport = self._transport()
        receiver = FrameReceiver(chunk_bytes=CHUNK_BYTES, allocate=self.allocate)
        return Link(
            self.peer, transport, client_id=self.config.client_id, receiver=receiver, clock=self.clock
        )

    def _patience(self) -> Deadline:
        return Deadline(self.clock, self.deadline.capped_ms(self.config.socket_connect_timeout_ms))

    def _transport(self) -> Transport:
        self.interruption.check()
        security, deadline = self.config.security, self._patience()
        context = tls_context(security) if security.protocol.has_tls else None
        try:
            connected = connected_socket(self.address, self._buffers(), deadline, self.interruption)
        except OSError as error:
            raise BrokerUnreachable(self._unreachable(error)) from error
        if context is None:
            return Transport(connected, self.interruption)
        transport = TlsTransport(connected, self.interruption, context, self.address.host)
        try:
            transport.handshake(deadline)
        except OSError as error:
            transport.close()
            raise handshake_failure(self.peer, error) from error
        except BaseException:
            transport.close()
            raise
        return transport

    def _buffers(self) -> SocketBuffers:
        return SocketBuffers(self.config.socket_receive_buffer_bytes, self.config.socket_send_buffer_bytes)

    def _unreachable(self, error: OSError) -> str:
        cause = error.strerror or f"{error}" or "no answer"
        if isinstance(error, socket.gaierror):
            cause = f"its name cannot be resolved ({cause})"
        if self.broker_id is None:
            return (
                f"{self.address} cannot be reached: {cause}. Check the address, and that a broker runs there"
            )
        return (
            f"broker {self.broker_id} advertises {self.address}, which cannot be reached from here: {cause}. "
            "It may be down; else its advertised.listeners must name an address that this machine can reach"
        )

    # --- versions

    def _discover(self) -> tuple[Link, PeerVersions]:
        discovery = Discovery(software_version=VERSION, pin=self.config.broker_version or None)
        plan = discovery.start()
        link: Link | None = None
        silences = 0
        try:
            while isinstance(plan, Question):
                if link is not None and plan.link is ProbeLink.NEW:
                    link.close()
                    link = None
                link = link or self.link()
                plan, silences = self._ask(link, plan, discovery, silences)
            link = link or self.link()
        except BaseException:
            if link is not None:
                link.close()
            raise
        if plan.versions.origin is VersionsOrigin.PROBED:
            log.warning(
                "%s does not tell its versions and looks like Kafka %s; broker.version=%s saves asking. "
                "If it is a newer one, it was too slow to answer (api.version.request.timeout.ms)",
                self.peer,
                plan.versions.generation,
                plan.versions.generation,
            )
        return link, plan.versions

    def _ask(self, link: Link, question: Question, discovery: Discovery, silences: int) -> tuple[Plan, int]:
        patience_ms = self.deadline.capped_ms(self.config.discovery_timeout_ms)
        try:
            link.send(question.request, question.version, patience_ms)
            message = link.receive(patience_ms).message
        except RequestTimedOut:
            if silences + 1 >= SILENCES_MAX or self.deadline.passed:
                raise BrokerUnreachable(
                    f"{self.peer} takes connections and answers nothing ({silences + 1} requests, "
                    f"{patience_ms:.0f} ms each). It is stuck, or no Kafka broker: check the port, and "
                    "whether it wants TLS (security.protocol)"
                ) from None
            return self._named(discovery.silent), silences + 1
        except ConnectionLost:
            self.interruption.check()
            return self._named(discovery.closed), 0
        return self._named(partial(discovery.answered, message)), 0

    def _named(self, decide: Callable[[], Plan]) -> Plan:
        """What the discovery decides; if it gives up, the error names the peer."""
        try:
            return decide()
        except RemoteProtocolError as error:
            raise RemoteProtocolError(f"{self.peer}: {error}") from error
        except KafkaError as error:
            raise KafkaError(error.code, f"{self.peer} refused to list its versions") from error
