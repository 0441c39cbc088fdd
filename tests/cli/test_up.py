"""`ottla up` as people run it: ZooKeeper and a broker, until a signal, over data that stays."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from ottla import Admin
from tests.cli.kafka.conftest import ours


def free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]


@contextmanager
def up(*arguments: str, ends_with: signal.Signals) -> Iterator[None]:
    """While it serves; it must end well, and nothing of it be left."""
    command = [sys.executable, "-m", "ottla", "up", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as started:
        assert started.stdout is not None
        first = started.stdout.readline()
        if not first:
            told = started.communicate()[1]
            pytest.skip(f"ZooKeeper cannot be run here: {told}")
        assert first.split()[0] == "zookeeper"
        assert started.stdout.readline().split()[0] == "broker"
        try:
            yield
        finally:
            os.kill(started.pid, ends_with)
            _, told = started.communicate(timeout=120)
    assert (started.returncode, told) == (0, "")
    with pytest.raises(ProcessLookupError):
        os.killpg(started.pid, 0)


def test_a_cluster_with_zookeeper(tmp_path: Path) -> None:
    port, keeper_port = free_ports(2)
    where = ("--port", str(port), "--zookeeper-port", str(keeper_port), "--data-dir", str(tmp_path / "new"))
    broker, keeper = f"127.0.0.1:{port}", f"127.0.0.1:{keeper_port}"
    read = ("--topic", "kept", "--from-beginning", "--max-messages", "2")
    with up(*where, ends_with=signal.SIGTERM):
        create = ("--create", "--topic", "kept", "--partitions", "1", "--replication-factor", "1")
        assert ours("kafka-topics.sh", "--zookeeper", keeper, *create).printed == 'Created topic "kept".\n'
        sent = ours("kafka-console-producer.sh", "--broker-list", broker, "--topic", "kept", text="1\n2\n")
        assert sent.code == 0
        assert ours("zookeeper-shell", keeper, "ls", "/brokers/ids").printed.endswith("[0]\n")
        assert ours("kafka-console-consumer", "--zookeeper", keeper, *read).printed == "1\n2\n"
    for each in (port, keeper_port):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", each), 10).close()
    with up(*where, ends_with=signal.SIGINT):
        assert ours("kafka-console-consumer", "--bootstrap-server", broker, *read).printed == "1\n2\n"
        assert "kept" in ours("zookeeper-shell", keeper, "ls", "/brokers/topics").printed


@pytest.mark.parametrize("form", ["json", "tsv"])
def test_programs_read_where_it_is(form: str, tmp_path: Path) -> None:
    line = ("up", "--without-zookeeper", "--port", "0", "--data-dir", str(tmp_path), "--format", form)
    with subprocess.Popen([sys.executable, "-m", "ottla", *line], stdout=subprocess.PIPE, text=True) as one:
        assert one.stdout is not None
        if form == "json":
            (row,) = json.loads(one.stdout.readline())["rows"]
            assert row["server"] == "broker"
            address = row["address"]
        else:
            assert one.stdout.readline() == "server\taddress\n"
            address = one.stdout.readline().split()[1]
        assert ours("topics", "-b", address).code == 0
        os.kill(one.pid, signal.SIGTERM)
        one.communicate(timeout=60)
    assert one.returncode == 0


@contextmanager
def secured(*line: str) -> Iterator[str]:
    """What a secured broker prints, up to the last option of Spark; it ends with the block."""
    command = [sys.executable, "-m", "ottla", "up", "--secure", "--without-zookeeper", "--port", "0", *line]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as one:
        assert one.stdout is not None
        try:
            printed = ""
            while "kafka.sasl.jaas.config" not in printed and (text := one.stdout.readline()):
                printed += text
            yield printed
        finally:
            os.kill(one.pid, signal.SIGTERM)
            one.communicate(timeout=60)
    assert one.returncode == 0


def test_a_secured_broker_prints_what_clients_need(tmp_path: Path) -> None:
    users = ("--user", "root", "--user", "app", "--acl", "app READ,DESCRIBE topic *")
    with secured("--data-dir", str(tmp_path), *users) as printed:
        files = dict(text.rsplit(" ", 1) for text in printed.splitlines() if text.startswith("settings for"))
        for path in files.values():
            assert ours("topics", "--config", path).complaints == "", path
        create = ("topics", "create", "new", "-p", "1", "-r", "1")
        refused = ours(*create, "--config", files["settings for java"])
        assert "TOPIC_AUTHORIZATION_FAILED" in refused.printed
        scope: dict[str, dict[str, str]] = {}
        exec(printed[printed.index("settings = {") : printed.index("# Spark")], scope)
        with Admin(scope["settings"]) as admin:
            assert admin.list_topics() == ()
    assert "need --secure" in ours("up", "--acl", "x", "--data-dir", str(tmp_path)).complaints


def test_what_is_wrong_is_one_object(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("")
    for line in (
        ("--data-dir", str(taken), "--without-zookeeper", "--port", "0"),
        ("--data-dir", str(tmp_path), "--without-zookeeper", "--set", "nosuch.setting=1"),
    ):
        found = ours("up", *line, "--format", "json")
        told = json.loads(found.printed)
        assert (found.code, told["ok"], told["rows"]) == (1, False, []), line
        assert told["error"]["message"]
