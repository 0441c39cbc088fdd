"""`ottla mirror` and `ottla kafka-mirror-maker` as processes."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from ottla import Admin, EmbeddedBroker
from ottla.cli.main import main
from ottla.consumer.coordinated import RebalanceListener
from ottla.mirror import MirrorRecord
from ottla.model.topic_partition import TopicAndPartition
from tests.interruption import signal_another_thread
from tests.mirror.clusters import content, write
from tests.page_blocks import page_blocks
from tests.waiting import PATIENCE_S, wait_for
from tools.java_process import java_command
from tools.peer_cache import KAFKA_0_9, Unavailable, kafka_libs

OTTLA = [sys.executable, "-m", "ottla"]
OLD_PRODUCER = """\
producer.type=sync
compression.codec=1
serializer.class=kafka.serializer.DefaultEncoder
partitioner.class=kafka.producer.DefaultPartitioner
request.required.acks=-1
message.send.max.retries=3
queue.buffering.max.ms=5
queue.buffering.max.messages=10000
queue.enqueue.timeout.ms=-1
batch.num.messages=200
compressed.topics=
topic.metadata.refresh.interval.ms=-1
block.on.buffer.full=true
send.buffer.bytes=102400
"""
"""What a file for the producers of 0.8 and 0.9 may have."""


def at(broker: EmbeddedBroker) -> dict[str, Any]:
    return {"bootstrap_servers": broker.bootstrap}


def is_committed(broker: EmbeddedBroker, group: str, records: int) -> bool:
    with Admin(at(broker)) as admin:
        return sum(one.offset for one in admin.group_offsets(group).values()) == records


def until_committed(command: list[str], source: EmbeddedBroker, group: str, records: int) -> tuple[int, str]:
    """Run a mirror until its group has come so far; its exit code and output."""
    with subprocess.Popen([*OTTLA, *command], stdout=subprocess.PIPE, text=True) as process:
        try:
            wait_for(lambda: is_committed(source, group, records) or process.poll() is not None, "a commit")
            signal_another_thread(process.pid, signal.SIGTERM)
            output, _ = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    return process.returncode, output


def ran(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*OTTLA, *words], capture_output=True, text=True, timeout=PATIENCE_S, check=False)


class Louder:
    """A message handler with an argument."""

    def __init__(self, suffix: str) -> None:
        self._suffix = suffix.encode()

    def handle(self, message: Any) -> Iterable[MirrorRecord]:
        if message.value is not None:
            yield MirrorRecord(message.topic, message.value + self._suffix, message.key, message.partition)


class Noted(RebalanceListener):
    """A rebalance listener with an argument: the file that it writes to."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def on_assigned(self, partitions: frozenset[TopicAndPartition]) -> None:
        with self._path.open("a") as file:
            file.writelines(f"{one}\n" for one in partitions)


def test_mirror_and_translate(source: EmbeddedBroker, target: EmbeddedBroker, topic: str) -> None:
    write(at(source), topic, 3, range(300))
    between = ["-b", source.bootstrap, "--to", target.bootstrap, "--group", topic, "--format", "json"]
    command = ["mirror", *between, "--topics", topic, "--commit-interval-ms", "200"]
    code, output = until_committed(command, source, topic, 300)
    assert code == 0
    (row,) = json.loads(output)["rows"]
    assert (row["sent"], row["dropped"]) == (300, 0)
    assert content(at(target), topic) == content(at(source), topic)
    # The mirror's own group has stopped, so it can be translated as any other.
    translated = json.loads(ran("mirror", *between, "--translate", topic).stdout)
    assert translated["rows"] == [
        {"topic": topic, "partition": partition, "offset": 100} for partition in range(3)
    ]
    assert is_committed(target, topic, 300)


def test_mirror_exactly_once(source: EmbeddedBroker, target: EmbeddedBroker, topic: str) -> None:
    """By the command of the migration guide, for this test's topic."""
    write(at(source), topic, 3, range(300))
    (block,) = [one for one in page_blocks("migration.md", "From MirrorMaker 2") if one.language == "sh"]
    (shown,) = block.commands
    own = {"here:9092": source.bootstrap, "there:9092": target.bootstrap, "orders.*": topic}
    program, *command = [own.get(word, word) for word in shlex.split(shown)]
    assert (program, "--exactly-once" in command) == ("ottla", True)
    code, _ = until_committed([*command, "--group", topic], source, topic, 300)
    assert code == 0
    assert content({**at(target), "isolation_level": "read_committed"}, topic) == content(at(source), topic)
    assert is_committed(target, f"{topic}.exactly-once", 300)


@pytest.mark.parametrize(
    ("words", "text"),
    [(("--to", "127.0.0.1:1"), "--topics or --except"), (("--topics", "t"), "--to HOST:PORT")],
)
def test_mirror_says_what_is_missing(
    words: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["mirror", "-b", "127.0.0.1:1", *words])
    assert ended.value.code == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize("handler", [(), ("tests.mirror.test_commands:Louder", "!")])
def test_kafkas_flags(
    source: EmbeddedBroker, target: EmbeddedBroker, topic: str, tmp_path: Path, handler: tuple[str, ...]
) -> None:
    target.create_topic(topic, 3)
    write(at(source), topic, 3, range(300))
    consumer, producer = tmp_path / "consumer.properties", tmp_path / "producer.properties"
    consumer.write_text(
        f"bootstrap.servers={source.bootstrap}\ngroup.id={topic}\nauto.offset.reset=earliest\n"
        "key.deserializer=org.apache.kafka.common.serialization.ByteArrayDeserializer\n"
    )
    producer.write_text(f"metadata.broker.list={target.bootstrap}\n{OLD_PRODUCER}")
    noted = tmp_path / "noted"
    command = ["kafka-mirror-maker.sh", "--consumer.config", str(consumer), "--producer.config"]
    command += [str(producer), "--num.streams", "2", "--whitelist", topic, "--new.consumer"]
    command += ["--offset.commit.interval.ms", "200", "--abort.on.send.failure", "true"]
    if handler:
        command += ["--message.handler", handler[0], "--message.handler.args", handler[1]]
        command += ["--consumer.rebalance.listener", "tests.mirror.test_commands:Noted"]
        command += ["--rebalance.listener.args", str(noted)]
    assert until_committed(command, source, topic, 300) == (0, "")
    copied = sorted(row[2] or b"" for rows in content(at(target), topic).values() for row in rows)
    originals = [row[2] for rows in content(at(source), topic).values() for row in rows]
    expected = [value + b"!" for value in originals if value is not None] if handler else originals
    assert copied == sorted(value or b"" for value in expected)
    if handler:
        assert set(noted.read_text().split()) == {f"{topic}-{partition}" for partition in range(3)}


def test_kafkas_flags_that_are_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty.properties"
    empty.write_text("group.id=g\nbootstrap.servers=127.0.0.1:1\n")
    configs = ["kafka-mirror-maker", "--consumer.config", str(empty), "--producer.config", str(empty)]
    for words, text in (
        ([*configs, "--blacklist", "t"], "blacklist can not be used when using new consumer"),
        ([*configs, "--whitelist", "t", "--abort.on.send.failure", "maybe"], "abort.on.send.failure"),
        ([*configs, "--whitelist", "t", "--message.handler", "a.b.Handler"], "Java classes cannot be loaded"),
    ):
        assert main(words) == 1
        assert text in capsys.readouterr().err


def test_help_and_what_is_missing_are_told_in_kafkas_words(capsys: pytest.CaptureFixture[str]) -> None:
    """As the MirrorMaker of Kafka 0.9.0.1 does, with its exit codes; it goes to the same place."""
    try:
        command = [*java_command(kafka_libs(KAFKA_0_9), heap_mb=64), "kafka.tools.MirrorMaker"]
    except Unavailable as missing:
        pytest.skip(f"Kafka {KAFKA_0_9}: {missing}")
    files = ["--consumer.config", os.devnull, "--producer.config", os.devnull]
    lines = [["--help"], [], files[:2], files[2:], files, [*files, "--whitelist", "a", "--blacklist", "b"]]
    theirs = [
        subprocess.Popen([*command, *line], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for line in lines
    ]
    for line, process in zip(lines, theirs, strict=True):
        expected = *process.communicate(timeout=PATIENCE_S), process.returncode
        try:
            code = main(["kafka-mirror-maker", *line])
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else -1
        printed = capsys.readouterr()
        assert (printed.out, printed.err, code) == expected, line
