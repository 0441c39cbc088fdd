"""Pages that a newcomer follows, block after block: what they say to save is saved, what to run is run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla import Admin, EmbeddedBroker, Producer
from ottla.zookeeper.server import ZooKeeperServer
from tests.kafka_programs import run_program
from tests.page_blocks import ROOT, PageShell, page_blocks
from tools.peer_cache import KAFKA_0_9

JAVA = """
import java.util.*;
import kafka.consumer.*;
import kafka.javaapi.consumer.ConsumerConnector;

public class OldConsumer {
    public static void main(String[] arguments) {
        %s
    }
}
"""
RUN_ELSEWHERE = {
    ("From Spark's Kafka connector", "py Spark's connector"): "tests/spark/test_pages.py",
    ("From Spark's Kafka connector", "py ottla"): "tests/spark/test_pages.py",
    ("From MirrorMaker 2", "sh ottla"): "tests/mirror/test_commands.py",
}
FOREIGN = {("From MirrorMaker 2", "properties MirrorMaker 2")}
"""Settings of a Connect cluster, which is not among the programs that tests run."""


@pytest.fixture(scope="module")
def broker(zookeeper_server: ZooKeeperServer) -> Iterator[EmbeddedBroker]:
    """What `ottla up` runs; its options are read by the test of all commands."""
    connect = f"{zookeeper_server.connect}/pages"
    with EmbeddedBroker(properties={"zookeeper.connect": connect}) as running:
        yield running


@pytest.fixture
def shell(
    broker: EmbeddedBroker,
    zookeeper_server: ZooKeeperServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> PageShell:
    return PageShell(tmp_path, monkeypatch, broker.bootstrap, f"{zookeeper_server.connect}/pages")


def test_the_commands_of_the_readme_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (block,) = [block for block in page_blocks("../README.md", "In 60 seconds") if block.language == "sh"]
    with EmbeddedBroker() as broker:
        shell = PageShell(tmp_path, monkeypatch, broker.bootstrap)
        for command in block.commands:
            shell.run(command)
    printed = capsys.readouterr().out
    assert printed.count("one coffee") == 2
    assert "kitchen" in printed


def test_who_tests_an_application_follows_the_start_page(shell: PageShell) -> None:
    shell.follow("start.md", "I test an application")


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ("I read topics", ("coffee      3", '0 0 b\'{"item": "coffee"')),
        ("I run old groups", ("0 0 b'a coffee'", "billing")),
        ("I operate a cluster", ("a book", "drivers  kafka")),
    ],
)
def test_who_reads_follows_the_start_page(
    shell: PageShell, capsys: pytest.CaptureFixture[str], section: str, expected: tuple[str, ...]
) -> None:
    shell.follow("start.md", section)
    printed = capsys.readouterr().out
    assert [text for text in expected if text not in printed] == []


def test_commands_of_the_search_page_run(
    shell: PageShell, broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("orders", '{"user": "ann", "amount": 101, "item": "coffee"}', key="table 4")
    shell.follow("search.md", "On the command line")
    assert '"amount": 101' in capsys.readouterr().out.replace('\\"', '"')
    assert Path("orders.parquet").read_bytes().startswith(b"PAR1")


def test_an_old_group_is_read_as_the_migration_guide_shows(
    zookeeper_server: ZooKeeperServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka's own consumer takes a message, then ours, in the same group: each commits when it ends."""
    connect = f"{zookeeper_server.connect}/guide"
    with EmbeddedBroker(properties={"zookeeper.connect": connect}) as broker:
        broker.create_topic("orders", 2)
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(4):
                producer.send("orders", f"order {number}", partition=number % 2)
        old, ours = page_blocks("migration.md", "From groups in ZooKeeper")
        source = tmp_path / "OldConsumer.java"
        source.write_text(JAVA % old.text.replace('"127.0.0.1:2181"', "arguments[0]"))
        assert run_program(source, connect, version=KAFKA_0_9).strip() == "0"
        PageShell(tmp_path, monkeypatch, broker.bootstrap, connect).run_python(ours)
        with Admin(bootstrap_servers=broker.bootstrap, zookeeper_connect=connect) as admin:
            assert sum(row.committed or 0 for row in admin.group_lag("billing").partitions) == 2


def test_every_block_of_the_migration_guide_runs() -> None:
    """Those in Python in `test_documents`, the old group above."""
    others = {
        (block.section, f"{block.language} {block.caption}")
        for block in page_blocks("migration.md")
        if block.language != "python" and block.section != "From groups in ZooKeeper"
    }
    assert others == RUN_ELSEWHERE.keys() | FOREIGN
    for test in RUN_ELSEWHERE.values():
        assert "migration.md" in (ROOT / test).read_text(), test
