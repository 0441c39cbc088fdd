"""The local server: starts, stops, survives, ends with its starter, and says what is missing."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.model.errors import ConfigError
from ottla.zookeeper.java_runtime import JARS_VARIABLE, java_command, zookeeper_jars
from ottla.zookeeper.kazoo_session import KazooSettings, KazooZooKeeperSession
from ottla.zookeeper.server import ServerSettings, ZooKeeperServer
from ottla.zookeeper.zookeeper_errors import ServerFailed
from tests.real_servers import FAST, require_zookeeper

WAIT_MS = 120_000


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ZooKeeperServer]:
    """Not started; a path that Java's property files cannot spell as it is."""
    require_zookeeper()
    made = ZooKeeperServer(tmp_path / "dätä \\ dir", settings=FAST)
    yield made
    made.stop()


def session_at(server: ZooKeeperServer) -> KazooZooKeeperSession:
    return KazooZooKeeperSession(KazooSettings(server.connect, connection_timeout_ms=WAIT_MS))


def await_end(pid: int) -> None:
    """Wait for a process that need not be our child."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([process], [], [], WAIT_MS / 1000)[0], f"process {pid} goes on"
    finally:
        os.close(process)


def test_starts_answers_and_stops(server: ZooKeeperServer) -> None:
    assert (server.running, server.pid, server.port) == (False, 0, 0)
    server.start()
    server.start()
    pid = server.pid
    assert server.running
    assert server.ask("ruok") == "imok"
    assert server.connect == f"127.0.0.1:{server.port}"
    assert server.log_path.stat().st_size > 0
    server.stop()
    server.stop()
    assert (server.running, server.pid) == (False, 0)
    await_end(pid)
    assert server.ask("ruok") == ""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all of 127/8 at hand")
def test_listens_on_127_0_0_1_only(zookeeper_server: ZooKeeperServer) -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", zookeeper_server.port), 5)


def test_a_start_after_a_stop_or_a_crash_has_the_same_nodes_and_port(server: ZooKeeperServer) -> None:
    server.start()
    port = server.port
    with session_at(server) as session:
        session.create("/kept", b"1")
    server.restart()
    assert server.port == port
    with session_at(server) as session:
        assert session.get("/kept").data == b"1"
        session.set("/kept", b"2")
    server.kill()
    assert not server.running
    with ZooKeeperServer(server.data_dir, port=port, settings=FAST) as again, session_at(again) as session:
        assert again.port == port
        assert session.get("/kept").data == b"2"


def test_a_data_directory_has_one_server(zookeeper_server: ZooKeeperServer) -> None:
    with pytest.raises(ServerFailed, match="in use by another ZooKeeper server"):
        ZooKeeperServer(zookeeper_server.data_dir).start()


def test_a_port_in_use_is_named(server: ZooKeeperServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServerFailed, match=rf"port {port} of 127.0.0.1 cannot be used"):
            ZooKeeperServer(server.data_dir, port=port).start()


@pytest.mark.skipif(sys.platform != "linux", reason="waits by pidfd")
def test_the_server_ends_with_its_starter_however_that_dies(server: ZooKeeperServer) -> None:
    program = (
        "import sys; from pathlib import Path; from ottla.zookeeper.server import ZooKeeperServer\n"
        "server = ZooKeeperServer(Path(sys.argv[1])); server.start(); print(server.pid, flush=True)\n"
        "sys.stdin.read()"
    )
    starter = subprocess.Popen(
        [sys.executable, "-c", program, str(server.data_dir)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        os.kill(pid, 0)
        starter.kill()
    await_end(pid)
    with open(server.data_dir / "ottla.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # free as soon as the guard has ended, too


@pytest.mark.skipif(sys.platform != "linux", reason="a signal at the parent's death is Linux's own")
def test_the_server_ends_when_its_guard_is_killed(server: ZooKeeperServer) -> None:
    server.start()
    pid = server.pid
    status = Path(f"/proc/{pid}/status").read_text()
    guard = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("PPid:"))
    os.kill(guard, signal.SIGKILL)
    await_end(pid)
    server.start()
    assert server.pid != pid


def test_a_server_that_fails_says_why(tmp_path: Path) -> None:
    try:
        java_command()
    except ServerFailed as missing:
        pytest.skip(str(missing))
    (tmp_path / "zookeeper-0.jar").write_bytes(b"")
    broken = ZooKeeperServer(tmp_path / "data", jars_dir=tmp_path)
    with pytest.raises(ServerFailed, match=r"ended with code 1;[\s\S]*QuorumPeerMain"):
        broken.start()
    assert not broken.running
    for order in (broken.kill, broken.pause, broken.resume):
        with pytest.raises(ServerFailed, match="does not run"):
            order()


def test_missing_pyspark_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(JARS_VARIABLE, raising=False)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(ServerFailed, match=r"pip install 'ottla\[spark\]'"):
        zookeeper_jars()
    monkeypatch.setenv(JARS_VARIABLE, str(tmp_path))
    with pytest.raises(ServerFailed, match="holds no zookeeper"):
        zookeeper_jars()
    (tmp_path / "zookeeper-3.9.5.jar").touch()
    assert zookeeper_jars() == tmp_path


def test_missing_or_old_java_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServerFailed, match="install Java 17 or newer"):
        java_command()
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    for told, version in (
        ('openjdk version "1.8.0_392"', "8"),
        ('java version "11.0.2"', "11"),
        ("?", "of an"),
    ):
        java.write_text(f"#!/bin/sh\necho '{told}' >&2\n")
        java.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        with pytest.raises(ServerFailed, match=f"is Java {version}.*install Java 17"):
            java_command()
    java.write_text("#!/bin/sh\necho 'openjdk version \"21\" 2023-09-19' >&2\n")
    assert java_command() == str(java)


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_that_is_none(tmp_path: Path, port: int) -> None:
    with pytest.raises(ConfigError, match="is outside 0"):
        ZooKeeperServer(tmp_path, port=port)


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match="tick_ms is 0"):
        ServerSettings(tick_ms=0)
    with pytest.raises(ConfigError, match="two ticks"):
        ServerSettings(tick_ms=2000, session_timeout_ms_max=3000)
