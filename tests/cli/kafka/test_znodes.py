"""zookeeper-shell beside ZooKeeper 3.8's own client, line by line on the same ZooKeeper."""

from __future__ import annotations

import subprocess

import pytest

from tests.cli.kafka.conftest import Era, java, ours
from tools.peers import KAFKA_3, Unavailable

LINES = """create /shell one
get /shell
set /shell two
get -s /shell
stat /shell
ls /brokers
ls -s /shell
create /shell/b b
create /shell/a
ls /shell
ls -R /shell
delete /shell
create /shell one
get /nosuch
ls nosuch
delete /nosuch
set /nosuch a
stat /nosuch
set -v 7 /shell a
delete -v 9 /shell/a
deleteall /shell
get /shell
quit
"""
UNKNOWN = ("ctime", "mtime", "pZxid", "aclVersion")
"""What our sessions do not keep of a znode."""


def test_as_zookeeper(old: Era) -> None:
    at = old.kafka.zookeeper
    try:
        shell = [*java(KAFKA_3), "-Dzookeeper.jline.disable=true", "org.apache.zookeeper.ZooKeeperMain"]
    except Unavailable as error:
        pytest.skip(f"Kafka {KAFKA_3} cannot be run here: {error}")
    done = subprocess.run([*shell, "-server", at], input=LINES, capture_output=True, text=True, check=False)
    found = ours("zookeeper-shell", at, text=LINES)
    assert (found.code, told(found.printed)) == (done.returncode, told(done.stdout))
    complaints = [line for line in done.stderr.splitlines() if not line.startswith(("log4j:", "SLF4J:"))]
    assert found.complaints.splitlines() == complaints


def told(text: str) -> list[str]:
    """Without the numbers of changes: the second tool makes others."""
    lines = [line for line in text.splitlines() if not line.startswith(UNKNOWN)]
    return [line.partition("Zxid = ")[0] for line in lines]


def test_one_command(old: Era) -> None:
    at = old.kafka.zookeeper
    head = f"Connecting to {at}\n\nWATCHER::\n\nWatchedEvent state:SyncConnected type:None path:null\n"
    assert ours("zookeeper-shell.sh", at, "ls", "/brokers") == (0, f"{head}[ids, seqid, topics]\n", "")
    unknown = ours("zookeeper-shell", at, "fly")
    assert (unknown.code, unknown.printed) == (1, head)
    assert unknown.complaints.endswith("Command not found: Command not found fly\n")
