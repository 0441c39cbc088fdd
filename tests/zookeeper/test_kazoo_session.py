"""What the adapter adds to the contract: timeouts, the chroot, a server that is away or mute."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from ottla.model.errors import ConfigError
from ottla.zookeeper.kazoo_session import KazooSettings, KazooZooKeeperSession
from ottla.zookeeper.server import ZooKeeperServer
from ottla.zookeeper.session import SessionState, WatchEvent, WatchKind
from ottla.zookeeper.zookeeper_errors import AccessDenied, NoNode, SessionClosed, ZooKeeperConnectionLost
from tests.zookeeper.flags import Notes

WAIT_MS = 120_000


@pytest.mark.parametrize(("asked_ms", "granted_ms"), [(200, 400), (5000, 5000), (900_000, 60_000)])
def test_the_granted_timeout_is_told(
    zookeeper_server: ZooKeeperServer, asked_ms: int, granted_ms: int
) -> None:
    settings = KazooSettings(
        zookeeper_server.connect, session_timeout_ms=asked_ms, connection_timeout_ms=WAIT_MS
    )
    with KazooZooKeeperSession(settings) as session:
        assert session.session_timeout_ms == granted_ms


def test_nobody_there_is_said_in_time(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        session = KazooZooKeeperSession(KazooSettings(address, connection_timeout_ms=100))
        with pytest.raises(ZooKeeperConnectionLost, match=rf"at {address} answered within 100 ms"):
            session.connect()
    assert session.state is SessionState.LOST
    assert caplog.records == []  # nor does kazoo repeat it for every attempt
    with pytest.raises(SessionClosed):
        session.get("/")


def test_a_missing_chroot_is_made_with_the_first_parents(zookeeper_server: ZooKeeperServer) -> None:
    settings = KazooSettings(zookeeper_server.connect + "/not/yet", connection_timeout_ms=WAIT_MS)
    with KazooZooKeeperSession(settings) as session:
        assert session.exists("/") is None
        with pytest.raises(NoNode):
            session.create("/a")
        assert session.create_with_parents("/a/b") == "/a/b"
        assert session.children("/") == ("a",)
        notes = Notes[WatchEvent]()
        session.children("/a", notes)
        session.delete("/a/b")
        assert notes.await_count(1) == [WatchEvent(WatchKind.CHILDREN, "/a")]
    with KazooZooKeeperSession(KazooSettings(zookeeper_server.connect)) as outside:
        assert outside.children("/not/yet") == ("a",)


def test_ensure_makes_the_chroot_itself(zookeeper_server: ZooKeeperServer) -> None:
    settings = KazooSettings(zookeeper_server.connect + "/fresh/root", connection_timeout_ms=WAIT_MS)
    with KazooZooKeeperSession(settings) as session:
        session.ensure("/")
        assert session.children("/") == ()


def test_a_mute_server_costs_the_request_timeout_and_no_more(zookeeper_server: ZooKeeperServer) -> None:
    settings = KazooSettings(
        zookeeper_server.connect,
        session_timeout_ms=30_000,
        connection_timeout_ms=WAIT_MS,
        request_timeout_ms=200,
    )
    with KazooZooKeeperSession(settings) as session:
        session.ensure("/mute")
        zookeeper_server.pause()
        try:
            with pytest.raises(ZooKeeperConnectionLost, match="no answer within 200 ms; whether it was done"):
                session.get("/mute")
        finally:
            zookeeper_server.resume()


def test_a_frozen_server_suspends_and_the_thaw_brings_a_session_back(
    zookeeper_server: ZooKeeperServer,
) -> None:
    states = Notes[SessionState]()
    settings = KazooSettings(zookeeper_server.connect, session_timeout_ms=1500, connection_timeout_ms=WAIT_MS)
    with KazooZooKeeperSession(settings) as session:
        session.add_listener(states)
        zookeeper_server.pause()
        try:
            states.await_that(lambda told: SessionState.SUSPENDED in told)
        finally:
            zookeeper_server.resume()
        states.await_that(lambda told: told[-1] is SessionState.CONNECTED)
        assert session.exists("/") is not None


def test_a_request_under_way_when_the_server_dies_is_lost(zookeeper_server: ZooKeeperServer) -> None:
    settings = KazooSettings(
        zookeeper_server.connect, session_timeout_ms=30_000, connection_timeout_ms=WAIT_MS
    )
    with KazooZooKeeperSession(settings) as session, ThreadPoolExecutor(1) as pool:
        zookeeper_server.pause()
        try:
            request = pool.submit(session.exists, "/")
            zookeeper_server.kill()
            with pytest.raises(ZooKeeperConnectionLost):
                request.result(WAIT_MS / 1000)
        finally:
            zookeeper_server.start()


def test_a_node_of_others_is_denied(zookeeper_server: ZooKeeperServer) -> None:
    owner = KazooClient(zookeeper_server.connect)
    owner.start(WAIT_MS / 1000)
    try:
        owner.create("/private", b"", acl=[make_digest_acl("somebody", "secret", all=True)])
    finally:
        owner.stop()
        owner.close()
    settings = KazooSettings(zookeeper_server.connect, connection_timeout_ms=WAIT_MS)
    with (
        KazooZooKeeperSession(settings) as session,
        pytest.raises(AccessDenied, match="/private: the server"),
    ):
        session.get("/private")


def test_close_ends_every_thread_also_without_a_server(zookeeper_server: ZooKeeperServer) -> None:
    before = threading.active_count()
    session = KazooZooKeeperSession(
        KazooSettings(zookeeper_server.connect, session_timeout_ms=2000, connection_timeout_ms=WAIT_MS)
    )
    states = Notes[SessionState]()
    session.connect()
    session.add_listener(states)
    zookeeper_server.stop()
    try:
        states.await_that(lambda told: SessionState.SUSPENDED in told)
        session.close()
        assert session.state is SessionState.LOST
        assert threading.active_count() == before
    finally:
        zookeeper_server.start()


@pytest.mark.parametrize("name", ["session_timeout_ms", "connection_timeout_ms", "request_timeout_ms"])
def test_timeouts_are_positive(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is 0"):
        KazooSettings("h", **{name: 0})  # type: ignore[arg-type]


def test_a_wrong_connect_string_is_refused_when_made() -> None:
    with pytest.raises(ConfigError, match=r"zookeeper\.connect"):
        KazooZooKeeperSession(KazooSettings("host:port"))


def test_the_package_imports_neither_kazoo_nor_pyspark() -> None:
    program = (
        "import sys, ottla.zookeeper, ottla.zookeeper.memory_session, ottla.zookeeper.server\n"
        "print(sorted({'kazoo', 'pyspark'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
