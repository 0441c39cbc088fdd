"""How a connection is opened: TCP, TLS, the versions that the broker speaks, SASL, in this order.

The versions come before the login, since the login itself has versions. It may take several links to find
them (`ottla.wire.negotiation`); the last link becomes the connection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ottla.client.authentication import authenticate
from ottla.client.client_config import ClientConfig
from ottla.client.clock import Clock, Deadline
from ottla.client.interruption import Interruption
from ottla.client.link import Link
from ottla.client.tls import handshake_failure, tls_context
from ottla.client.transport import SocketBuffers, TlsTransport, Transport, connected_socket
from ottla.client.version_discovery import CHUNK_BYTES, VersionDiscovery, peer_name, unreachable
from ottla.client.version_memory import VersionMemory
from ottla.model.address import Address
from ottla.model.errors import ConnectionLost, RequestTimedOut
from ottla.wire.frames import Allocator, FrameReceiver
from ottla.wire.negotiation import ProbeLink, Question
from ottla.wire.versions import PeerVersions


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
        """Open a link. Raises BrokerUnreachable, AuthenticationFailed, RemoteProtocolError,
        ConnectionLost.
        """
        known = self.memory.recall(self.address)
        link, versions = (self.link(), known) if known is not None else self._discover()
        try:
            link.adopt(versions)
            lifetime_ms = 0
            if self.config.security.protocol.has_sasl:
                lifetime_ms = authenticate(
                    link, self.config.security, versions, self._patience(), self.address.host
                )
        except BaseException:
            link.close()
            raise
        self.memory.keep(self.address, versions)
        return Opened(link, versions, lifetime_ms)

    # --- one link

    @property
    def peer(self) -> str:
        """The name of the broker for messages."""
        return peer_name(self.address, self.broker_id)

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
            raise unreachable(self.address, self.broker_id, error) from error
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

    # --- versions

    def _discover(self) -> tuple[Link, PeerVersions]:
        discovery = VersionDiscovery(
            self.peer, self.config.broker_version or None, has_tls=self.config.security.protocol.has_tls
        )
        link: Link | None = None
        try:
            while isinstance(discovery.plan, Question):
                if link is not None and discovery.plan.link is ProbeLink.NEW:
                    link.close()
                    link = None
                link = link or self.link()
                self._ask(link, discovery.plan, discovery)
            link = link or self.link()
        except BaseException:
            if link is not None:
                link.close()
            raise
        return link, discovery.versions

    def _ask(self, link: Link, question: Question, discovery: VersionDiscovery) -> None:
        patience_ms = self.deadline.capped_ms(self.config.discovery_timeout_ms)
        try:
            link.send(question.request, question.version, patience_ms)
            message = link.receive(patience_ms).message
        except RequestTimedOut:
            discovery.silent(patience_ms, is_over=self.deadline.passed)
        except ConnectionLost:
            self.interruption.check()
            discovery.closed()
        else:
            discovery.answered(message)
