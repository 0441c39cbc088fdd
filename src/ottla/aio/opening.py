"""How a connection is opened on an event loop: TCP, TLS, the broker's versions, SASL, in this order."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from typing import Any

from ottla.aio.link import LoopLink
from ottla.client.authentication import new_exchange
from ottla.client.client_config import ClientConfig
from ottla.client.clock import MONOTONIC, Deadline
from ottla.client.login import LoginRequest, LoginStep, login
from ottla.client.tls import handshake_failure, tls_context
from ottla.client.version_discovery import VersionDiscovery, peer_name, unreachable
from ottla.client.version_memory import VersionMemory
from ottla.model.address import Address
from ottla.model.errors import ConnectionLost, RequestTimedOut
from ottla.wire.frames import Allocator
from ottla.wire.negotiation import ProbeLink, Question
from ottla.wire.versions import PeerVersions


class LoopOpener:
    """Opens links to one address."""

    def __init__(
        self,
        address: Address,
        config: ClientConfig,
        broker_id: int | None,
        allocate: Allocator,
        deadline: Deadline,
    ) -> None:
        self.peer = peer_name(address, broker_id)
        self._address = address
        self._config = config
        self._broker_id = broker_id
        self._allocate = allocate
        self._deadline = deadline

    async def open(self, memory: VersionMemory) -> tuple[LoopLink, PeerVersions, int]:
        """Open a link.

        Returns it with the broker's versions and the lifetime of the login in ms (0: no limit).
        """
        known = memory.recall(self._address)
        link, versions = (await self._link(), known) if known is not None else await self._discover()
        try:
            link.adopt(versions)
            lifetime_ms = 0
            if self._config.security.protocol.has_sasl:
                lifetime_ms = await self._log_in(link, versions)
        except BaseException:
            link.abort(ConnectionLost(f"{self.peer}: was not opened"))
            raise
        return link, versions, lifetime_ms

    def _patience(self) -> Deadline:
        return Deadline(MONOTONIC, self._deadline.capped_ms(self._config.socket_connect_timeout_ms))

    async def _link(self) -> LoopLink:
        security, deadline = self._config.security, self._patience()
        loop = asyncio.get_running_loop()
        context = tls_context(security) if security.protocol.has_tls else None
        try:
            connected = await _connected_socket(self._address, self._config, deadline)
        except OSError as error:
            raise unreachable(self._address, self._broker_id, error) from error
        link = LoopLink(self.peer, self._config.client_id, self._allocate)
        try:
            async with asyncio.timeout((deadline.left_ms() or 0.0) / 1000):
                await loop.create_connection(
                    lambda: link,
                    sock=connected,
                    ssl=context,
                    server_hostname=self._address.host if context is not None else None,
                )
        except OSError as error:
            connected.close()
            raise handshake_failure(self.peer, error) from error
        except BaseException:
            connected.close()
            raise
        return link

    async def _discover(self) -> tuple[LoopLink, PeerVersions]:
        discovery = VersionDiscovery(
            self.peer, self._config.broker_version or None, has_tls=self._config.security.protocol.has_tls
        )
        link: LoopLink | None = None
        try:
            while isinstance(discovery.plan, Question):
                if link is not None and discovery.plan.link is ProbeLink.NEW:
                    link.abort(ConnectionLost(f"{self.peer}: another connection is needed"))
                    link = None
                link = link or await self._link()
                await self._ask(link, discovery.plan, discovery)
            link = link or await self._link()
        except BaseException:
            if link is not None:
                link.abort(ConnectionLost(f"{self.peer}: was not opened"))
            raise
        return link, discovery.versions

    async def _ask(self, link: LoopLink, question: Question, discovery: VersionDiscovery) -> None:
        patience_ms = self._deadline.capped_ms(self._config.discovery_timeout_ms)
        try:
            patience = Deadline(MONOTONIC, patience_ms)
            message = await link.exchange(question.request, question.version, patience)
        except RequestTimedOut:
            discovery.silent(patience_ms, is_over=self._deadline.passed)
        except ConnectionLost:
            discovery.closed()
        else:
            discovery.answered(message)

    async def _log_in(self, link: LoopLink, versions: PeerVersions) -> int:
        security, deadline = self._config.security, self._patience()
        # Getting a token may wait for a server, so a thread does it.
        host = self._address.host
        exchange = await asyncio.get_running_loop().run_in_executor(None, new_exchange, security, host)
        steps = login(link.peer, security, versions, lambda: exchange)
        try:
            step = next(steps)
            while True:
                try:
                    answer = await _carried_out(link, step, deadline)
                except ConnectionLost as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as end:
            lifetime_ms: int = end.value
            return lifetime_ms


async def _carried_out(link: LoopLink, step: LoginStep, deadline: Deadline) -> Any:
    if isinstance(step, LoginRequest):
        return await link.exchange(step.request, step.version, deadline)
    return await link.bare_exchange(step.token, deadline)


async def _connected_socket(address: Address, config: ClientConfig, deadline: Deadline) -> socket.socket:
    """Resolve the name and connect to the first of its addresses that accepts. Raises OSError."""
    loop = asyncio.get_running_loop()
    try:
        resolved = await _resolved(address)
    except UnicodeError:
        raise socket.gaierror(socket.EAI_NONAME, f"{address.host!r} is no name of a host") from None
    failure = OSError(f"{address.host} has no address")
    for number, (family, kind, protocol, _, socket_address) in enumerate(resolved):
        share_ms = (deadline.left_ms() or 0.0) / (len(resolved) - number)
        made = socket.socket(family, kind, protocol)
        try:
            made.settimeout(0)
            _set_options(made, config)
            async with asyncio.timeout(share_ms / 1000):
                await loop.sock_connect(made, socket_address)
            if made.getsockname() == made.getpeername():  # connected to itself
                raise ConnectionRefusedError(errno.ECONNREFUSED, "nobody listens there")
        except TimeoutError as error:
            made.close()
            failure = error if error.args else TimeoutError(f"no answer in {share_ms:.0f} ms")
        except OSError as error:
            made.close()
            failure = error
        except BaseException:
            made.close()
            raise
        else:
            return made
    raise failure


async def _resolved(address: Address) -> list[tuple[Any, ...]]:
    """Return the addresses of a host. A thread looks the name up, which may take long."""
    host, port = address
    with contextlib.suppress(socket.gaierror):
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)


def _set_options(made: socket.socket, config: ClientConfig) -> None:
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, size in (
        (socket.SO_RCVBUF, config.socket_receive_buffer_bytes),
        (socket.SO_SNDBUF, config.socket_send_buffer_bytes),
    ):
        if size >= 0:
            with contextlib.suppress(OSError):
                made.setsockopt(socket.SOL_SOCKET, option, size)
