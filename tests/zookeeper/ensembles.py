"""The two ensembles of the contract suite behind one face: sessions, a cut, a reconnect, an expiry."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Protocol

from kazoo.client import KazooClient

from ottla.zookeeper.kazoo_session import KazooSettings, KazooZooKeeperSession
from ottla.zookeeper.memory_session import MemorySession, MemoryZooKeeper
from ottla.zookeeper.server import ZooKeeperServer
from ottla.zookeeper.session import SessionLimits, SessionState, ZooKeeperSession
from tests.zookeeper.flags import WAIT_S, Notes


class Ensemble(Protocol):
    def session(self, limits: SessionLimits | None = None) -> ZooKeeperSession: ...

    def cut(self, session: ZooKeeperSession) -> None:
        """Break the connection and wait until the session knows; `mend` gives it back."""

    def mend(self, session: ZooKeeperSession) -> None: ...

    def expire(self, session: ZooKeeperSession) -> None:
        """End the session behind its back and wait until a new one stands."""

    def close(self) -> None: ...


class MemoryEnsemble:
    def __init__(self) -> None:
        self._ensemble = MemoryZooKeeper()

    def session(self, limits: SessionLimits | None = None) -> ZooKeeperSession:
        return self._ensemble.session(limits=limits)

    def cut(self, session: ZooKeeperSession) -> None:
        assert isinstance(session, MemorySession)
        session.suspend()

    def mend(self, session: ZooKeeperSession) -> None:
        assert isinstance(session, MemorySession)
        session.resume()

    def expire(self, session: ZooKeeperSession) -> None:
        assert isinstance(session, MemorySession)
        session.expire()
        session.resume()
        session.resume()

    def close(self) -> None:
        pass


class RealEnsemble:
    """Every test gets a chroot of its own on the shared server, so that none sees another's nodes."""

    numbers = itertools.count()

    def __init__(self, server: ZooKeeperServer) -> None:
        self._server = server
        self._chroot = f"/test-{next(self.numbers)}/chroot"
        self._sessions: list[KazooZooKeeperSession] = []
        with KazooZooKeeperSession(KazooSettings(server.connect, connection_timeout_ms=20_000)) as session:
            session.ensure(self._chroot)

    def session(self, limits: SessionLimits | None = None) -> ZooKeeperSession:
        settings = KazooSettings(
            self._server.connect + self._chroot,
            session_timeout_ms=10_000,
            connection_timeout_ms=20_000,
            limits=limits or SessionLimits(),
        )
        session = KazooZooKeeperSession(settings)
        self._sessions.append(session)
        return session

    def cut(self, session: ZooKeeperSession) -> None:
        self._await(session, self._server.stop, lambda told: SessionState.SUSPENDED in told)

    def mend(self, session: ZooKeeperSession) -> None:
        self._await(session, self._server.start, lambda told: SessionState.CONNECTED in told)

    def expire(self, session: ZooKeeperSession) -> None:
        assert isinstance(session, KazooZooKeeperSession)
        # Whoever has id and password can take a session over; the server ends it when that one says goodbye.
        thief = KazooClient(hosts=self._server.connect, client_id=session.credentials)

        def steal() -> None:
            thief.start(WAIT_S)
            thief.stop()
            thief.close()

        self._await(session, steal, lambda told: told[-2:] == [SessionState.LOST, SessionState.CONNECTED])

    def close(self) -> None:
        if not self._server.running:
            self._server.start()
        for session in self._sessions:
            session.close()

    @staticmethod
    def _await(
        session: ZooKeeperSession, action: Callable[[], None], done: Callable[[list[SessionState]], bool]
    ) -> None:
        notes: Notes[SessionState] = Notes()
        session.add_listener(notes)
        try:
            action()
            notes.await_that(done)
        finally:
            session.remove_listener(notes)
