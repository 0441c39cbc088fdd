"""A real ZooKeeper server on this machine, run from the jars that PySpark ships: no download, no container.

    with ZooKeeperServer(Path("zk-data")) as server:
        server.connect                      # "127.0.0.1:41873"

One data directory holds everything: the database (`version-2/`), the written `zoo.cfg` and
`log4j2.properties`, the log (`zookeeper.log`, rolled) and what Java printed (`zookeeper.out`). A server
started again on it has the same nodes and sessions, and the port that `port` says.

    this process ──pipe──▶ process_guard ──▶ java        the pipe's end means that we are gone
                               └─ holds a lock on the data directory for as long as Java may write there

The server listens on 127.0.0.1 only, since it has no security; several owners of one data directory are
refused. `start` and `stop` are for one thread at a time.
"""

from __future__ import annotations

import fcntl
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from ottla.model.errors import ConfigError
from ottla.model.java_hashes import utf16_units
from ottla.zookeeper import process_guard
from ottla.zookeeper.java_runtime import class_path, java_command, zookeeper_jars
from ottla.zookeeper.zookeeper_errors import ServerFailed

HOST = "127.0.0.1"
_MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
"""Without other servers in zoo.cfg it runs ZooKeeperServerMain, and before that starts the hourly removal
of old snapshots, which ZooKeeperServerMain alone does not: the data directory would grow for ever."""

_PROBE_TIMEOUT_S = 2.0
_PROBE_PAUSE_S = 0.02
_ANSWER_BYTES_MAX = 64 * 1024
_LOG_LINES_SHOWN = 15


@dataclass(frozen=True)
class ServerSettings:
    """How the server runs. It grants sessions a timeout of two ticks or more."""

    tick_ms: int = 500
    """ZooKeeper's own default is 2000; then a dead session is noticed after 4 s at the earliest."""
    session_timeout_ms_max: int = 60_000
    heap_mb: int = 128
    connections_max: int = 1000
    """Per client address; on one machine that means all clients."""
    start_timeout_ms: int = 30_000
    stop_timeout_ms: int = 10_000
    fsync: bool = True
    """Whether every change is on disk before it is answered; tests run faster without it."""
    jaas_file: Path | None = None
    """A JAAS file whose section Server has users that may log in by SASL (DIGEST-MD5)."""

    def __post_init__(self) -> None:
        for name in ("tick_ms", "heap_mb", "connections_max", "start_timeout_ms", "stop_timeout_ms"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} is {getattr(self, name)}: it must be positive")
        if self.session_timeout_ms_max < 2 * self.tick_ms:
            raise ConfigError(
                f"session_timeout_ms_max is {self.session_timeout_ms_max}: it must be two ticks or more "
                f"({2 * self.tick_ms})"
            )


class ZooKeeperServer:
    """One server process. `port` 0 picks a free port at the first start and keeps it."""

    def __init__(
        self,
        data_dir: Path,
        *,
        port: int = 0,
        settings: ServerSettings | None = None,
        jars_dir: Path | None = None,
    ) -> None:
        if not 0 <= port <= 65535:
            raise ConfigError(f"port {port} is outside 0 … 65535")
        self.data_dir = data_dir.absolute()
        self._port = port
        self._settings = settings or ServerSettings()
        self._jars_dir = jars_dir
        self._guard: subprocess.Popen[bytes] | None = None
        self._pid = 0

    @property
    def port(self) -> int:
        """The port; 0 before the first start of a server that picks its own."""
        return self._port

    @property
    def connect(self) -> str:
        """The value for zookeeper.connect."""
        return f"{HOST}:{self._port}"

    @property
    def pid(self) -> int:
        """Java's process id; 0 when it does not run."""
        return self._pid if self.running else 0

    @property
    def log_path(self) -> Path:
        """The log file of the server."""
        return self.data_dir / "zookeeper.log"

    @property
    def running(self) -> bool:
        """Whether the process exists, answering or not."""
        return self._guard is not None and self._guard.poll() is None

    def start(self) -> None:
        """Start, and wait until the server answers. Raises ServerFailed with the reason."""
        if self.running:
            return
        self.stop()  # a server that ended by itself has left its pipes open
        java, jars = java_command(), zookeeper_jars(self._jars_dir)
        self.data_dir.mkdir(parents=True, exist_ok=True)
        with _locked(self.data_dir) as lock:
            self._port = _free_port(self._port)
            self._write_files()
            with open(self.data_dir / "zookeeper.out", "wb") as output:
                self._guard = subprocess.Popen(
                    [sys.executable, "-I", process_guard.__file__, *self._command(java, jars)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=output,
                    pass_fds=(lock.fileno(),),
                    start_new_session=True,
                )
        try:
            self._await_answer(self._guard)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop cleanly; kill what does not stop in time. May be called twice."""
        guard, self._guard = self._guard, None
        if guard is None:
            return
        # The end of its input tells the guard to end Java: with SIGTERM, and after the grace period with
        # SIGKILL.
        for pipe in (guard.stdin, guard.stdout):
            if pipe is not None:
                pipe.close()
        try:
            guard.wait(self._settings.stop_timeout_ms / 1000 + 5)
        except subprocess.TimeoutExpired:
            guard.kill()
            guard.wait()

    def kill(self) -> None:
        """End the server with SIGKILL, as a crash would, and wait for it."""
        self._signal(b"K")
        self.stop()

    def pause(self) -> None:
        """Freeze the server and wait until it is frozen: connections stay open and nothing answers."""
        self._signal(b"S")

    def resume(self) -> None:
        """Continue a frozen server."""
        self._signal(b"C")

    def restart(self) -> None:
        """Stop and start on the same directory and port."""
        self.stop()
        self.start()

    def ask(self, word: str) -> str:
        """Return the answer to a four-letter word such as `ruok` or `srvr`; "" if there is none."""
        return _ask(self._port, word)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _command(self, java: str, jars: Path) -> list[str]:
        settings = self._settings
        return [
            str(settings.stop_timeout_ms / 1000),
            java,
            f"-Xmx{settings.heap_mb}m",
            # A small server wants to start fast and stay small: one collector thread, the quick compiler.
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-XX:-UsePerfData",
            "-Dzookeeper.admin.enableServer=false",
            "-Dzookeeper.4lw.commands.whitelist=*",
            "-Dzookeeper.jmx.log4j.disable=true",
            # In KB. The default of 64 MB is for disks where a growing file costs seeks.
            "-Dzookeeper.preAllocSize=1024",
            f"-Dzookeeper.forceSync={'yes' if settings.fsync else 'no'}",
            f"-Dlog4j2.configurationFile={self.data_dir / 'log4j2.properties'}",
            *_sasl_options(settings.jaas_file),
            "-cp",
            class_path(jars),
            _MAIN_CLASS,
            str(self.data_dir / "zoo.cfg"),
        ]

    def _write_files(self) -> None:
        settings = self._settings
        config = {
            "dataDir": str(self.data_dir),
            "clientPort": str(self._port),
            "clientPortAddress": HOST,
            "tickTime": str(settings.tick_ms),
            "minSessionTimeout": str(2 * settings.tick_ms),
            "maxSessionTimeout": str(settings.session_timeout_ms_max),
            "maxClientCnxns": str(settings.connections_max),
            "autopurge.snapRetainCount": "3",
            "autopurge.purgeInterval": "1",
        }
        logging = {
            "rootLogger": "INFO, file",
            "appender.file.type": "RollingFile",
            "appender.file.name": "file",
            "appender.file.fileName": str(self.log_path),
            "appender.file.filePattern": f"{self.log_path}.%i",
            "appender.file.layout.type": "PatternLayout",
            "appender.file.layout.pattern": "%d %p %c{1}: %m%n",
            "appender.file.policies.type": "Policies",
            "appender.file.policies.size.type": "SizeBasedTriggeringPolicy",
            "appender.file.policies.size.size": "10MB",
            "appender.file.strategy.type": "DefaultRolloverStrategy",
            "appender.file.strategy.max": "2",
        }
        for name, properties in (("zoo.cfg", config), ("log4j2.properties", logging)):
            lines = [f"{key}={_escaped(value)}\n" for key, value in properties.items()]
            (self.data_dir / name).write_text("".join(lines), encoding="ascii")

    def _await_answer(self, guard: subprocess.Popen[bytes]) -> None:
        assert guard.stdout is not None
        self._pid = int(guard.stdout.readline() or 0)
        deadline = time.monotonic() + self._settings.start_timeout_ms / 1000
        # `srvr` and not `ruok`: the latter is answered before the database is loaded.
        while "Mode:" not in _ask(self._port, "srvr"):
            if guard.poll() is not None:
                raise ServerFailed(f"ZooKeeper ended with code {guard.returncode}; {self._last_lines()}")
            if time.monotonic() > deadline:
                raise ServerFailed(
                    f"ZooKeeper at {self.connect} did not answer within "
                    f"{self._settings.start_timeout_ms} ms; {self._last_lines()}"
                )
            time.sleep(_PROBE_PAUSE_S)

    def _last_lines(self) -> str:
        lines: list[str] = []
        for path in (self.log_path, self.data_dir / "zookeeper.out"):
            if path.exists():
                lines += path.read_text(errors="replace").splitlines()[-_LOG_LINES_SHOWN:]
        return f"the end of {self.log_path}:\n" + "\n".join(lines)

    def _signal(self, letter: bytes) -> None:
        guard = self._guard
        if guard is None or not self.running or guard.stdin is None or guard.stdout is None:
            raise ServerFailed(f"the ZooKeeper server in {self.data_dir} does not run")
        try:
            guard.stdin.write(letter)
            guard.stdin.flush()
            echo = guard.stdout.read(1)
        except OSError:
            echo = b""
        # A killed server may take its guard along before that has answered.
        if not echo and letter != b"K":
            raise ServerFailed(f"the ZooKeeper server in {self.data_dir} has just ended")


def _locked(data_dir: Path) -> IO[bytes]:
    # The lock belongs to the open file, which the guard inherits: it is free when the last holder ends.
    lock = open(data_dir / "ottla.lock", "wb")  # noqa: SIM115 (handed to the caller)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise ServerFailed(
            f"{data_dir} is in use by another ZooKeeper server: stop it or name another data directory"
        ) from None
    return lock


def _free_port(port: int) -> int:
    with socket.socket() as probe:
        # As the server itself does, so that closing connections of its predecessor do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise ServerFailed(
                f"port {port} of {HOST} cannot be used ({error.strerror}): stop what listens there "
                "or choose another port; 0 picks a free one"
            ) from None
        return int(probe.getsockname()[1])


def _ask(port: int, word: str) -> str:
    answer = b""
    try:
        with socket.create_connection((HOST, port), _PROBE_TIMEOUT_S) as connection:
            connection.sendall(word.encode())
            while len(answer) < _ANSWER_BYTES_MAX and (part := connection.recv(4096)):
                answer += part
    except OSError:
        return ""
    return answer.decode(errors="replace")


def _sasl_options(jaas_file: Path | None) -> list[str]:
    if jaas_file is None:
        return []
    provider = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
    return [f"-Djava.security.auth.login.config={jaas_file}", f"-Dzookeeper.authProvider.sasl={provider}"]


def _escaped(value: str) -> str:
    """Return a value as java.util.Properties reads it: a backslash doubled, everything outside
    ASCII escaped.
    """
    units = utf16_units(value.replace("\\", "\\\\"))
    return "".join(chr(unit) if 32 <= unit < 127 else f"\\u{unit:04x}" for unit in units)
