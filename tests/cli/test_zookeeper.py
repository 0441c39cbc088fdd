"""`ottla zookeeper start` as a process: what it prints, how it ends, what it says when it cannot begin."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from ottla.zookeeper.java_runtime import java_command, zookeeper_jars
from ottla.zookeeper.kazoo_session import KazooSettings, KazooZooKeeperSession
from ottla.zookeeper.zookeeper_errors import ServerFailed

WAIT_S = 60


def command(*arguments: str | Path) -> list[str | Path]:
    return [sys.executable, "-m", "ottla", "zookeeper", "start", *arguments]


def failed(*arguments: str | Path, environment: Mapping[str, str]) -> str:
    """What the command says on standard error before it ends with 1."""
    run = subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=WAIT_S, env=environment, check=False
    )
    assert run.returncode == 1, run.stdout + run.stderr
    assert "Traceback" not in run.stderr
    return run.stderr


@pytest.fixture
def has_server() -> None:
    try:
        java_command()
        zookeeper_jars()
    except ServerFailed as missing:
        pytest.skip(f"needs a real ZooKeeper server: {missing}")


@pytest.mark.usefixtures("has_server")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_a_signal_comes_and_ends_its_java(tmp_path: Path, number: int) -> None:
    process = subprocess.Popen(
        command("--port", "0", "--data-dir", tmp_path), stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("listening on 127.0.0.1:")
        with KazooZooKeeperSession(KazooSettings(line.split()[-1], connection_timeout_ms=20_000)) as session:
            session.create("/kept")
        process.send_signal(number)
        assert process.wait(WAIT_S) == 0
        with pytest.raises(OSError, match="Connection refused"):
            _connect(line.split()[-1])
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _connect(address: str) -> None:
    host, port = address.split(":")
    socket.create_connection((host, int(port)), 5).close()


def test_without_java_it_says_what_to_install(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {
        "PATH": str(tmp_path)
    }
    said = failed("--data-dir", tmp_path / "data", environment=environment)
    assert "there is none here: install Java 17 or newer" in said


@pytest.mark.usefixtures("has_server")
def test_without_jars_it_says_where_it_looked(tmp_path: Path) -> None:
    environment = dict(os.environ) | {"OTTLA_SPARK_JARS": str(tmp_path)}
    said = failed("--data-dir", tmp_path / "data", environment=environment)
    assert f"{tmp_path} holds no zookeeper-*.jar" in said
