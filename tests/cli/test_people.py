"""Commands for people on the embedded broker: what programs read of them is a contract, word for word."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ottla import EmbeddedBroker, Producer
from ottla.cli import bench
from ottla.cli.main import main
from ottla.cli.moments import MOMENTS
from ottla.cli.output import OutputRows, table_lines
from tests.cli.kafka.conftest import ours

NOWHERE = "127.0.0.1:1"


@pytest.fixture(autouse=True)
def no_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nobody's own profiles."""
    monkeypatch.delenv("OTTLA_PROFILE", raising=False)
    monkeypatch.setenv("OTTLA_CONFIG", str(tmp_path / "config.toml"))
    return tmp_path / "config.toml"


@pytest.fixture(scope="module")
def at() -> Iterator[tuple[str, str]]:
    """A broker with a topic of two partitions, five records and a group that has read two of them."""
    with EmbeddedBroker() as broker:
        at = ("-b", broker.bootstrap)
        made = ours("topics", "create", "orders", "-p", "2", "-r", "1", *at, "--format", "tsv")
        assert made == (0, "topic\tpartitions\treplicas\terror\norders\t2\t1\t\n", "")
        sent = ours(
            "produce", "orders", "-k", ":", "-p", "0", *at, "--format", "json", text="a:1\nb:2\nc:3\n"
        )
        assert json.loads(sent.printed) == {
            "ok": True,
            "rows": [{"topic": "orders", "partition": 0, "records": 3}],
        }
        assert ours("produce", "orders", "-p", "1", *at, text="caf\u00e9\ttab\n").code == 0
        first = ours("consume", "orders", "-g", "billing", "--from", "earliest", "-n", "4", *at)
        assert first.code == 0
        yield at


def test_a_cell_without_text_is_a_dash() -> None:
    rows = OutputRows(("group", "type"), [("billing", ""), ("kitchen", None)])
    assert table_lines(rows) == ["GROUP    TYPE", "billing  -", "kitchen  -"]


def test_topics(at: tuple[str, str]) -> None:
    assert ours("topics", *at).printed == (
        "TOPIC   PARTITIONS  REPLICAS  INTERNAL\norders           2         1     false\n"
    )
    assert ours("topics", *at, "--format", "json").printed == (
        '{"ok": true, "rows": [{"topic": "orders", "partitions": 2, "replicas": 1, "internal": false}]}\n'
    )
    assert ours("topics", "describe", "orders", *at, "--format", "tsv").printed == (
        "topic\tpartition\tleader\treplicas\tisr\norders\t0\t0\t0\t0\norders\t1\t0\t0\t0\n"
    )


def test_what_fails_in_part(at: tuple[str, str]) -> None:
    found = ours("topics", "create", "orders", "spare", "-p", "1", "-r", "1", *at, "--format", "json")
    told = json.loads(found.printed)
    assert (found.code, told["ok"]) == (1, False)
    assert [(row["topic"], row["partitions"]) for row in told["rows"]] == [("orders", None), ("spare", 1)]
    assert "TOPIC_ALREADY_EXISTS" in told["rows"][0]["error"]
    assert ours("topics", "delete", "spare", "--dry-run", *at).code == 0
    assert ours("topics", "delete", "spare", *at, "--format", "tsv") == (0, "topic\terror\nspare\t\n", "")
    assert ours("topics", "delete", "spare", *at).code == 1


def test_records(at: tuple[str, str]) -> None:
    line = ("orders", "--from", "earliest", "-t", "5000", *at)
    assert ours("consume", *line, "-p", "0", "-n", "2").printed == "0:0\ta\t1\n0:1\tb\t2\n"
    assert ours("consume", "orders", "--from", "2", "-p", "0", "-n", "1", *at).printed == "0:2\tc\t3\n"
    found = json.loads(ours("consume", *line, "-p", "1", "-n", "1", "--format", "json").printed)
    assert found.pop("timestamp_ms") > 0
    assert found == {
        "topic": "orders",
        "partition": 1,
        "offset": 0,
        "key": None,
        "value": "caf\u00e9\ttab",
        "headers": [],
        "encoding": "utf-8",
    }
    rows = ours("consume", *line, "-p", "1", "-n", "1", "--format", "tsv").printed.splitlines()
    assert rows[0] == "topic\tpartition\toffset\ttimestamp_ms\tkey\tvalue\theaders\tencoding"
    assert rows[1].split("\t")[4:] == ["", "caf\u00e9\\ttab", "", "utf-8"]


def test_records_from_the_end_and_since_a_time(at: tuple[str, str]) -> None:
    topic = "timed"
    assert ours("topics", "create", topic, "-p", "2", "-r", "1", *at).code == 0
    with Producer(bootstrap_servers=at[1]) as producer:
        for number in range(8):
            time_ms = int(datetime(2020, 1, 1 + number, tzinfo=UTC).timestamp() * 1000)
            producer.send(topic, b"%d" % number, partition=number % 2, timestamp_ms=time_ms)

    def values(*line: str, count: int) -> list[str]:
        run = ours("consume", topic, "-n", str(count), *line, *at, "--format", "json")
        return sorted(json.loads(text)["value"] for text in run.printed.splitlines())

    assert values("--tail", "1", count=2) == ["6", "7"]
    assert values("--tail", "2", "-p", "0", count=2) == ["4", "6"]
    assert values("--tail", "9", count=8) == list("01234567")
    # The end of the log is not read first: that would be a long poll.
    assert values("--tail", "1", "-t", "9000", "--set", "fetch.wait.max.ms=60000", count=2) == ["6", "7"]
    assert values("--since", "2020-01-04", count=5) == list("34567")
    assert values("--since", "2020-01-04T00:00:01", count=4) == list("4567")
    wrong = ours("consume", topic, "--since", "then", *at)
    assert (wrong.code, wrong.complaints) == (1, f"ottla: --since 'then': give {MOMENTS}\n")
    for line in (
        *(["--from", "then"], ["--from", "5"], ["-n", "-1"]),
        *(["--tail", "-1"], ["--tail", "1", "-g", "billing"]),
    ):
        with pytest.raises(SystemExit) as ended:
            ours("consume", topic, *line, *at)
        assert ended.value.code == 2, line
    assert ours("topics", "delete", topic, *at).code == 0


def test_records_with_headers(at: tuple[str, str]) -> None:
    topic = "labelled"
    assert ours("topics", "create", topic, "-p", "1", "-r", "1", *at).code == 0
    with Producer(bootstrap_servers=at[1]) as producer:
        producer.send(topic, b"x", headers=[("trace", b"1"), ("trace", "\u00e9".encode()), ("none", None)])
        producer.send(topic, b"x", headers=[("bytes", b"\xff")])
    line = ("consume", topic, "--from", "earliest", "-n", "2", *at, "--format")
    text, binary = (json.loads(row) for row in ours(*line, "json").printed.splitlines())
    labels = [
        {"key": "trace", "value": "1"},
        {"key": "trace", "value": "\u00e9"},
        {"key": "none", "value": None},
    ]
    assert (text["headers"], text["encoding"]) == (labels, "utf-8")
    assert (binary["headers"], binary["value"]) == ([{"key": "bytes", "value": "/w=="}], "eA==")
    assert binary["encoding"] == "base64"
    assert json.loads(ours(*line, "tsv").printed.splitlines()[1].split("\t")[6]) == labels
    assert ours("topics", "delete", topic, *at).code == 0


def test_groups_and_their_lag(at: tuple[str, str]) -> None:
    assert ours("groups", *at, "--format", "tsv").printed == (
        "group\tkind\ttype\tprotocol\tstate\nbilling\tkafka\tclassic\tconsumer\tEmpty\n"
    )
    assert ours("groups", "describe", "billing", *at, "--format", "tsv").printed == (
        "group\tkind\ttype\tstate\tassignor\tepoch\toffsets\tused\t"
        "member\tmember_epoch\tclient\thost\tpartitions\n"
        "billing\tkafka\tclassic\tEmpty\t\t\t2\t\t\t\t\t\t0\n"
    )
    assert ours("lag", "billing", *at, "--format", "tsv").printed == (
        "group\tkind\ttopic\tpartition\tcommitted\tend\tlag\tseconds\tstore\tused\tmember\terror\n"
        "billing\tkafka\torders\t0\t3\t3\t0\t0.0\tkafka\t\t\t\n"
        "billing\tkafka\torders\t1\t1\t1\t0\t0.0\tkafka\t\t\t\n"
    )
    for line in (["lag"], ["groups", "describe"], ["groups", "delete"]):
        assert ours(*line, "nobody", *at).code == 1


def test_a_reset_is_planned_before_it_is_done(at: tuple[str, str]) -> None:
    line = ("reset", "billing", "orders:0", *at)
    head = "group\tstore\ttopic\tpartition\tbefore\tafter\tdone\tnote\terror\n"

    def moved(*more: str) -> str:
        return ours(*line, *more, "--format", "tsv").printed.removeprefix(head)

    assert moved("--to", "earliest") == "billing\tkafka\torders\t0\t3\t0\tfalse\t\t\n"
    assert moved("--shift-by", "-1") == "billing\tkafka\torders\t0\t3\t2\tfalse\t\t\n"
    assert moved("--to-offset", "1", "--execute") == "billing\tkafka\torders\t0\t3\t1\ttrue\t\t\n"
    assert moved("--to", "latest", "--execute") == "billing\tkafka\torders\t0\t1\t3\ttrue\t\t\n"
    plan = ours(*line, "--to", "earliest")
    assert plan.complaints == "nothing done yet: add --execute\n"
    assert ours(*line, "--to", "latest", "--execute").complaints == ""


def test_a_reset_says_that_the_log_does_not_reach_as_far(at: tuple[str, str]) -> None:
    def noted(*more: str) -> tuple[int, str]:
        (row,) = json.loads(ours("reset", "billing", "orders:0", *at, "--format", "json", *more).printed)[
            "rows"
        ]
        return row["after"], row["note"]

    assert noted("--to-offset", "99") == (3, "99 is behind the end of the log: 3")
    assert noted("--shift-by", "-9") == (0, "-6 is before the first record: 0")
    assert noted("--to", "2100-01-01") == (3, "no record is that late: the end of the log")


def test_a_reset_understands_times_and_says_which(at: tuple[str, str]) -> None:
    line = ("reset", "billing", "orders:0", *at, "--format", "json", "--to")
    for text in ("2020-01-01", "2020-01-01T12:00", "2020-01-01T12:00:00+02:00", "7d", "1.5h"):
        (row,) = json.loads(ours(*line, text).printed)["rows"]
        assert row["after"] == 0, text
    for text in ("yesterday", "2020-13-01", "5"):
        wrong = ours(*line, text)
        message = json.loads(wrong.printed)["error"]["message"]
        assert (wrong.code, message) == (1, f"--to {text!r}: give earliest, latest, {MOMENTS}")


def test_a_reset_of_an_unknown_group_is_an_error(at: tuple[str, str]) -> None:
    unknown = ours("reset", "biling", "orders:0", "--to", "earliest", "--execute", *at)
    assert (unknown.code, unknown.printed) == (1, "")
    assert unknown.complaints == (
        "ottla: there is no group 'biling'; --create sets the positions of a new one; did you mean billing?\n"
    )
    assert ours("reset", "made", "orders:0", "--to", "earliest", "--execute", "--create", *at).code == 0
    assert ours("lag", "made", *at).code == 0
    assert ours("groups", "delete", "made", *at).code == 0


@pytest.mark.parametrize(
    "line",
    [
        "topics",
        "topics describe x",
        "produce x --set max.block.ms=500",
        "consume x",
        "consume x -g g",
        "consume x -p 0 --from 3",
        "groups",
        "lag",
        "reset g x --to earliest",
        "bench -n 10",
        "doctor",
    ],
)
def test_errors_are_objects_too(line: str) -> None:
    found = ours(*line.split(), "-b", NOWHERE, "--format", "json", text="a\n")
    (text,) = found.printed.splitlines()
    told = json.loads(text)
    assert (found.code, told["ok"]) == (1, False)
    if line == "doctor":
        assert any(row["error"] for row in told["rows"])
    else:
        assert (told["rows"], sorted(told["error"])) == ([], ["kind", "message"])
    in_words = ours(*line.split(), "-b", NOWHERE, text="a\n")
    assert in_words.code == 1
    assert line == "doctor" or (in_words.printed, in_words.complaints[:7]) == ("", "ottla: ")


@pytest.mark.parametrize(
    "line", ["topics", "produce", "consume", "groups", "lag", "reset", "bench", "doctor", "up", "mirror"]
)
def test_wrong_command_lines_are_objects_too(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([line, "--nosuch", "--format", "json"])
    told = json.loads(capsys.readouterr().out)
    assert (ended.value.code, told["ok"], told["error"]["kind"], told["rows"]) == (2, False, "usage", [])
    with pytest.raises(SystemExit) as ended:
        main([line, "--nosuch"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(f"usage: ottla {line} ")


def test_what_cannot_be_consumed(at: tuple[str, str]) -> None:
    found = ours("consume", "nosuch", *at, "--format", "json")
    told = json.loads(found.printed)
    assert (found.code, told["ok"]) == (1, False)
    assert "UNKNOWN_TOPIC_OR_PARTITION" in told["error"]["message"]


def test_what_cannot_be_produced(at: tuple[str, str]) -> None:
    found = ours("produce", "orders", "-p", "7", *at, "--format", "json", text="a\n")
    told = json.loads(found.printed)
    assert (found.code, told["ok"], told["rows"]) == (1, False, [])


def test_a_bench(at: tuple[str, str]) -> None:
    found = json.loads(ours("bench", "-n", "50", "--record-size", "10", *at, "--format", "json").printed)
    assert found["ok"] is True
    columns = ["step", "records", "bytes", "seconds", "records_per_s", "mib_per_s"]
    assert [list(row) for row in found["rows"]] == [columns, columns]
    assert [[row[name] for name in columns[:3]] for row in found["rows"]] == [
        ["produce", 50, 500],
        ["consume", 50, 500],
    ]


def test_a_bench_ends_when_records_do_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "QUIET_S", 0.2)
    with EmbeddedBroker() as broker:
        broker.fail("Fetch", "NOT_LEADER_OR_FOLLOWER", times=-1)
        found = ours("bench", "-n", "5", "-b", broker.bootstrap)
    assert found.code == 1
    assert "5 of 5 records" in found.complaints


def test_arguments_that_mean_nothing(at: tuple[str, str]) -> None:
    for line in ("topics create more --topic-config x", "reset billing orders:x --to earliest"):
        found = ours(*line.split(), *at)
        assert (found.code, found.printed, found.complaints.count("\n")) == (1, "", 1), line
        assert found.complaints.startswith("ottla: ")
    assert "orders:x: give topics as orders or orders:0,1,2" in found.complaints


def test_the_doctor_says_what_is_wrong(at: tuple[str, str]) -> None:
    well = ours("doctor", *at, "--format", "json")
    assert (well.code, json.loads(well.printed)["ok"]) == (0, True)
    ill = ours("doctor", "-b", f"{NOWHERE},no.such.host.invalid:9092", "--format", "json")
    rows = {row["check"]: row["error"] for row in json.loads(ill.printed)["rows"]}
    assert ill.code == 1
    assert "nothing listens on port 1" in rows[f"address {NOWHERE}"]
    assert "is not known here" in rows["address no.such.host.invalid:9092"]


def test_profiles_and_properties_files(at: tuple[str, str], no_profiles: Path, tmp_path: Path) -> None:
    no_profiles.write_text(
        f'[profiles.default]\nbootstrap.servers = "{at[1]}"\n[profiles.bad]\nbootstrap.servers="{NOWHERE}"\n'
    )
    assert ours("topics").code == 0
    assert ours("topics", "--profile", "bad").code == 1
    assert "there is no profile 'none'" in ours("topics", "--profile", "none").complaints
    settings = tmp_path / "client.properties"
    settings.write_text(f"bootstrap.servers={at[1]}\nkey.deserializer=org.example.Any\n")
    assert ours("topics", "--profile", "bad", "--config", str(settings)).code == 0
    assert ours("topics", "--profile", "bad", "--set", f"bootstrap.servers={at[1]}").code == 0


def test_lag_again_and_again(at: tuple[str, str]) -> None:
    command = [sys.executable, "-m", "ottla", "lag", "billing", *at, "--watch", "0.05", "--format", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watch:
        assert watch.stdout is not None
        lines = [json.loads(watch.stdout.readline()) for _ in range(2)]
        watch.send_signal(signal.SIGINT)
        watch.communicate(timeout=60)
    assert lines[0] == lines[1]
    assert lines[0]["ok"] is True
    assert watch.returncode == 130


def test_up_without_zookeeper(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "ottla",
        "up",
        "--port",
        "0",
        "--data-dir",
        str(tmp_path),
        "--without-zookeeper",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        name, address = started.stdout.readline().split()
        assert ours("topics", "create", "kept", "-p", "1", "-r", "1", "-b", address).code == 0
        os.kill(started.pid, signal.SIGTERM)
        started.communicate(timeout=60)
    assert (name, started.returncode) == ("broker", 0)
