"""kafka-dump-log beside DumpLogSegments, and zookeeper-shell, on the same clusters."""

from __future__ import annotations

import pytest

from cli.kafka.conftest import Era, ours

NEW_CLASS = "org.apache.kafka.tools.DumpLogSegments"
OLD_CLASS = "kafka.tools.DumpLogSegments"


def test_segments_as_kafka_4(new: Era) -> None:
    at = ("--bootstrap-server", new.kafka.bootstrap)
    assert ours("kafka-topics", *at, "--create", "--topic", "dumped", "--partitions", "1").code == 0
    keys = [f"--reader-property={one}" for one in ("parse.key=true", "parse.headers=true", "null.marker=NIL")]
    text = "h:1,i:2\tk\tcaf\u00e9\nNIL\tNIL\tv\nNIL\tk\tNIL\n"
    for codec in ("none", "gzip", "zstd"):
        sent = ours(
            "kafka-console-producer", *at, "--topic", "dumped", *keys, "--compression-codec", codec, text=text
        )
        assert sent.code == 0
    place = new.kafka.data_dir / "data" / "dumped-0" / "00000000000000000000"
    for line in ("", "--print-data-log", "--deep-iteration", "--print-data-log --skip-record-metadata"):
        arguments = ("--files", f"{place}.log", *line.split())
        assert ours("kafka-dump-log", *arguments) == new.tool(NEW_CLASS, *arguments), line
    index = ("--files", f"{place}.timeindex,{place}.index")
    assert ours("kafka-dump-log", *index).printed == new.tool(NEW_CLASS, *index).printed


def test_segments_as_kafka_0_9(old: Era) -> None:
    keeper = ("--zookeeper", old.kafka.zookeeper)
    counts = ("--partitions", "1", "--replication-factor", "1")
    assert ours("kafka-topics", *keeper, "--create", "--topic", "dumped", *counts).code == 0
    send = ("--broker-list", old.kafka.bootstrap, "--topic", "dumped", "--property", "parse.key=true")
    assert (
        ours("kafka-console-producer", *send, "--property", "ignore.error=true", text="k\tv\nalone\n").code
        == 0
    )
    files = ("--files", str(old.kafka.data_dir / "data" / "dumped-0" / "00000000000000000000.log"))
    for more in ((), ("--print-data-log",)):
        assert ours("kafka-run-class", OLD_CLASS, *files, *more) == old.tool(OLD_CLASS, *files, *more)


def test_a_file_that_is_not_there() -> None:
    found = ours("kafka-dump-log", "--files", "nosuch.log")
    assert (found.code, found.printed) == (1, "Dumping nosuch.log\n")


def test_znodes(old: Era) -> None:
    at = ("zookeeper-shell", old.kafka.zookeeper)
    head = f"Connecting to {old.kafka.zookeeper}\n"
    assert ours(*at, "create", "/shell", "one") == (0, f"{head}Created /shell\n", "")
    assert ours(*at, "get", "/shell") == (0, f"{head}one\n", "")
    typed = "set /shell two\nget /shell\nls /brokers/ids\nquit\n"
    assert ours(*at, text=typed) == (0, f"{head}two\n[1]\n", "")
    again = ours(*at, "create", "/shell", "one")
    assert (again.code, again.printed) == (1, head)
    assert "version = 1" in ours(*at, "stat", "/shell").printed
    assert ours(*at, "delete", "/shell") == (0, head, "")
    assert ours(*at, "ls", "/shell").code == 1


def test_a_command_that_there_is_not(old: Era, capsys: pytest.CaptureFixture[str]) -> None:
    assert ours("zookeeper-shell", old.kafka.zookeeper, "fly").code == 1
