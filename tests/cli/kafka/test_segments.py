"""kafka-dump-log beside DumpLogSegments: the same files, in the words of Kafka 4 and of Kafka 0.9."""

from __future__ import annotations

import shutil
import signal
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from ottla.cli.kafka.segment_entries import SegmentEntry, entries
from tests.cli.kafka.conftest import Era, created, ours
from tests.scale import nightly
from tests.waiting import wait_for

NEW_CLASS = "org.apache.kafka.tools.DumpLogSegments"
OLD_CLASS = "kafka.tools.DumpLogSegments"
READER = "org.apache.kafka.tools.VerifiableConsumer"
CONSOLES = {"new": "org.apache.kafka.tools.consumer.ConsoleConsumer", "old": "!kafka.tools.ConsoleConsumer"}


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


# --- what is wrong with files

NAME = "00000000000000000000"
OFFSETS, TIMES = ">ii", ">qi"


@pytest.fixture(scope="module")
def logs(new: Era, shared_old: Era) -> dict[str, bytes]:
    """A log of several entries of each era; two of the old one are compressed."""
    found = {}
    for era, server in ((new, "--bootstrap-server"), (shared_old, "--broker-list")):
        topic = created(era, "indexed")
        send = ("kafka-console-producer", server, era.kafka.bootstrap, "--topic", topic)
        more = ("--request-required-acks", "1") if server == "--broker-list" else ()
        for codec in ("none", "gzip", "none", "gzip"):
            assert ours(*send, *more, "--compression-codec", codec, text="first\nsecond\n").code == 0
        found[server] = (era.kafka.data_dir / "data" / "indexed-0" / f"{NAME}.log").read_bytes()
    return {"new": found["--bootstrap-server"], "old": found["--broker-list"]}


def written(
    place: Path, log: bytes, index: Sequence[tuple[int, int]], times: Sequence[tuple[int, int]]
) -> str:
    """A segment with these rows in its indexes; the beginning of the names of its files."""
    place.mkdir()
    (place / f"{NAME}.log").write_bytes(log)
    for suffix, form, rows in (("index", OFFSETS, index), ("timeindex", TIMES, times)):
        (place / f"{NAME}.{suffix}").write_bytes(b"".join(struct.pack(form, *row) for row in rows))
    return str(place / NAME)


def rows_of(log: bytes) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Right ones."""

    def newest(one: SegmentEntry) -> int:
        return max(record.message.timestamp_ms for record in one.records())

    found = list(entries(log))
    if found[0].magic < 2:
        return [(next(one.inner()).offset, one.position) for one in found[1:]], []
    times = {newest(one): one.last_offset for one in reversed(found)}
    return [(one.last_offset, one.position) for one in found[1:]], sorted(times.items())


def segments(place: Path, log: bytes) -> list[str]:
    index, times = rows_of(log)
    cut = list(entries(log))
    holed = log[: cut[1].position] + log[cut[2].position :]
    late = times[-1][0] if times else 0
    return [
        written(place / "right", log, index, times),
        written(place / "zeros", log, [*index, (0, 0), (0, 0)], [*times, (0, 0)]),
        written(
            place / "wrong",
            log,
            [(offset + 1, position) for offset, position in index],
            [(late + 5, 1), (late - 900, 3), (late, 99), (late + 1, 2)],
        ),
        written(place / "empty", log, [], []),
        written(place / "holed", holed + b"rest", [], []),
    ]


@pytest.mark.parametrize("option", ["", "--verify-index-only", "--index-sanity-check"])
def test_indexes_as_kafka_4(new: Era, logs: dict[str, bytes], option: str, tmp_path: Path) -> None:
    for each in segments(tmp_path, logs["new"]):
        for suffix in ("index", "timeindex"):
            arguments = ("--files", f"{each}.{suffix}", *option.split())
            theirs, found = new.tool(NEW_CLASS, *arguments), ours("kafka-dump-log", *arguments)
            assert (found.code, found.printed) == (theirs.code, theirs.printed), arguments
            is_trace = theirs.code != 0
            told = theirs.complaints.splitlines()[:1] if is_trace else theirs.complaints.splitlines()
            assert found.complaints.splitlines() == told, arguments


@pytest.mark.parametrize("option", ["", "--verify-index-only"])
def test_indexes_as_kafka_0_9(old: Era, logs: dict[str, bytes], option: str, tmp_path: Path) -> None:
    for each in segments(tmp_path, logs["old"])[:4]:
        arguments = ("--files", f"{each}.index", *option.split())
        assert ours("kafka-dump-log", *arguments) == old.tool(OLD_CLASS, *arguments), arguments


def test_logs_with_holes(new: Era, old: Era, logs: dict[str, bytes], tmp_path: Path) -> None:
    for era, tool, log in ((new, NEW_CLASS, logs["new"]), (old, OLD_CLASS, logs["old"])):
        place = tmp_path / tool
        place.mkdir()
        holed = segments(place, log)[-1]
        for line in ("", "--deep-iteration", "--deep-iteration --print-data-log"):
            arguments = ("--files", f"{holed}.log", *line.split())
            assert ours("kafka-dump-log", *arguments) == era.tool(tool, *arguments), arguments


@pytest.mark.parametrize(
    "era", ["new", pytest.param("old", marks=nightly("consoles of Kafka 0.9 wait for seconds"))]
)
def test_the_topic_of_offsets(era: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    at: Era = request.getfixturevalue(era)
    topic = created(at, "decoded")
    is_new = era == "new"
    server = ("--bootstrap-server" if is_new else "--broker-list", at.kafka.bootstrap)
    assert ours("kafka-verifiable-producer", *server, "--topic", topic, "--max-messages", "2").code == 0
    # Kafka's own consumer reads: Kafka 0.9's decoder fails at assignments without user data, as ours are.
    read = at.command(READER, *server, "--topic", topic, "--group-id", topic)
    with subprocess.Popen(read, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as reader:
        assert reader.stdout is not None
        for line in reader.stdout:
            if "offsets_committed" in line:
                reader.send_signal(signal.SIGTERM)
    places = (at.kafka.data_dir / "data").glob(f"__consumer_offsets-*/{NAME}.log")
    (place,) = (one for one in places if b"decoded" in one.read_bytes())
    files = ("--files", str(place), "--offsets-decoder", "--print-data-log")
    last = '"generation":2' if is_new else "payloadsize: -1"
    wait_for(lambda: last in ours("kafka-dump-log", *files).printed, "the record that the reader has left")
    copied = shutil.copy(place, tmp_path)  # the file itself may grow between the two looks
    files = ("--files", str(copied), *files[2:])
    printed, theirs = ours("kafka-dump-log", *files), at.tool(NEW_CLASS if is_new else OLD_CLASS, *files)
    assert printed.printed.splitlines() == theirs.printed.splitlines()  # shows the line that differs
    assert printed == theirs

    offsets = ("--topic", "__consumer_offsets", "--time", "-1")
    ends = ours("kafka-get-offsets", *server, *offsets).printed.splitlines()
    partition = place.parent.name.rpartition("-")[2]
    counts = {line.split(":")[1]: int(line.split(":")[2]) for line in ends}
    settings = tmp_path / "consumer.properties"
    settings.write_text("exclude.internal.topics=false\n")
    if is_new:
        package, count = "org.apache.kafka.tools.consumer.", counts[partition]
        where = [*server, "--partition", partition, "--offset", "earliest"]
    else:
        package, count = "kafka.coordinator.GroupMetadataManager$", sum(counts.values())
        where = ["--zookeeper", at.kafka.zookeeper, "--from-beginning", "--consumer.config", str(settings)]
    for name in ("OffsetsMessageFormatter", "GroupMetadataMessageFormatter"):
        options = [*where, "--topic", "__consumer_offsets", "--max-messages", str(count)]
        options += ["--formatter", f"{package}{name}"]
        theirs, found = at.tool(CONSOLES[era], *options), ours("kafka-console-consumer", *options)
        assert (found.code, found.complaints) == (theirs.code, theirs.complaints)
        # With old flags all partitions are read, in any order.
        assert sorted(found.printed.splitlines()) == sorted(theirs.printed.splitlines())
        assert "decoded" in found.printed


def test_the_ends_of_transactions(new: Era) -> None:
    topic = created(new, "ended-transactions")
    sent = new.tool(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, "--num-records", "3", "--record-size", "9", "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={new.kafka.bootstrap}", "transactional.id=dumped"),
        *("--transaction-duration-ms", "60000"),
    )
    assert sent.code == 0
    # The end is written behind the tool's end, and only then these records are seen.
    at = ("--bootstrap-server", new.kafka.bootstrap, "--topic", topic)
    read = ("--isolation-level", "read_committed", "--from-beginning", "--max-messages", "3")
    assert ours("kafka-console-consumer", *at, *read).code == 0
    files = ("--files", str(new.kafka.data_dir / "data" / f"{topic}-0" / f"{NAME}.log"))
    for line in ("", "--deep-iteration", "--print-data-log", "--print-data-log --skip-record-metadata"):
        found = ours("kafka-dump-log", *files, *line.split())
        assert found == new.tool(NEW_CLASS, *files, *line.split()), line
    assert "isControl: true" in found.printed
