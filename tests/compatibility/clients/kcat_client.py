"""kcat: every step of the matrix that it has options for. Topics are created by producing to them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from steps import CODECS, restart, run, same, until

KCAT, BOOTSTRAP, PREFIX = sys.argv[1:4]
TOPIC, GROUP = f"{PREFIX}-topic", f"{PREFIX}-group"
QUICK = ["-X", "session.timeout.ms=6000", "-X", "heartbeat.interval.ms=500", "-X", "fetch.wait.max.ms=100"]
LINES = [f"key {number}|value {number} " + "x" * (number % 7 * 50) for number in range(30)]


def kcat(*arguments: str, text: str = "") -> str:
    done = subprocess.run(
        [KCAT, "-b", BOOTSTRAP, *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    if done.returncode != 0:
        raise AssertionError(f"kcat ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return done.stdout


def send(topic: str, lines: list[str], *options: str) -> None:
    kcat("-P", "-t", topic, "-K", "|", *options, text="\n".join(lines) + "\n")


def envelopes(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def lines_of(rows: list[dict[str, Any]]) -> list[str]:
    return [f"{row['key']}|{row['payload']}" for row in rows]


def read_all(topic: str) -> list[dict[str, Any]]:
    return envelopes(kcat("-C", "-t", topic, "-o", "beginning", "-e", "-q", "-J"))


def topics() -> dict[str, Any]:
    return {each["topic"]: each for each in json.loads(kcat("-L", "-J"))["topics"]}


def auto_creation() -> None:
    send(TOPIC, LINES)
    same(len(topics()[TOPIC]["partitions"]), 1, "partitions")


def codec(name: str) -> None:
    topic = f"{PREFIX}-{name}"
    before = int(time.time() * 1000) - 1000
    send(topic, LINES, "-z", name, "-H", "kind=sample", "-X", "linger.ms=50")
    rows = read_all(topic)
    same(lines_of(rows), LINES, "records")
    same([row["headers"] for row in rows], [["kind", "sample"]] * 30, "headers")
    same(all(before <= row["ts"] <= before + 60_000 for row in rows), True, "times of now")


def idempotent() -> None:
    send(f"{PREFIX}-idempotent", LINES, "-X", "enable.idempotence=true")
    same(lines_of(read_all(f"{PREFIX}-idempotent")), LINES, "records")


def too_large() -> None:
    try:
        send(f"{PREFIX}-none", ["k|" + "x" * 1_500_000], "-X", "message.max.bytes=2000000", "-z", "none")
    except AssertionError as error:
        same("Message size too large" in str(error), True, f"kcat's complaint {error}")
    else:
        raise AssertionError("a record above message.max.bytes was accepted")


def offsets_for_times() -> None:
    first, last = (read_all(f"{PREFIX}-none")[index]["ts"] for index in (0, -1))
    found = [kcat("-Q", "-t", f"{PREFIX}-none:0:{at}").strip() for at in (first, last + 1, -2, -1)]
    same(
        [each.rsplit(" ", 1)[-1] for each in found],
        ["0", "-1", "0", "30"],
        "offsets at the first time, behind the last, of the beginning and the end",
    )


class Member:
    """A kcat in a group: what it owns and what it has read."""

    def __init__(self, group: str, *wanted: str) -> None:
        # -E: without it kcat ends when it loses its broker.
        options = ["-E", "-u", "-J", *QUICK, "-X", "auto.commit.interval.ms=100"]
        options += ["-X", "partition.assignment.strategy=roundrobin", "-X", "auto.offset.reset=earliest"]
        self._process = subprocess.Popen(
            [KCAT, "-b", BOOTSTRAP, *options, "-G", group, *wanted],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.rows: list[str] = []
        self.owned = 0
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._rows, self._notes)]
        for thread in self._threads:
            thread.start()

    def _rows(self) -> None:
        for line in self._process.stdout or ():
            self.rows += lines_of(envelopes(line))

    def _notes(self) -> None:
        for line in self._process.stderr or ():
            if "rebalanced" in line:
                self.owned = len(re.findall(r"\[\d+\]", line)) if "assigned:" in line else 0

    def take(self, count: int) -> list[str]:
        until(lambda: len(self.rows) >= count, f"{count} records")
        taken, self.rows = self.rows, []
        return taken

    def leave(self) -> None:
        self._process.terminate()
        self._process.wait(20)
        for thread in self._threads:
            thread.join()


@contextmanager
def member(group: str, *wanted: str) -> Iterator[Member]:
    joined = Member(group, *wanted)
    try:
        yield joined
    finally:
        joined.leave()


def group_commit() -> None:
    with member(GROUP, TOPIC) as first:
        same(first.take(30), LINES, "records")
    with member(GROUP, TOPIC) as again:
        send(TOPIC, LINES[:3])
        same(again.take(3), LINES[:3], "records behind the commit")


def rebalance() -> None:
    two = [f"{PREFIX}-{name}" for name in ("one", "two")]
    for topic in two:
        send(topic, LINES[:1])
    with member(f"{PREFIX}-pair", *two) as first:
        until(lambda: first.owned == 2, "both partitions with one member")
        with member(f"{PREFIX}-pair", *two) as second:
            until(lambda: (first.owned, second.owned) == (1, 1), "one partition each")
        until(lambda: first.owned == 2, "both partitions with the one that stays")


def go_on_after_restart() -> None:
    topic = f"{PREFIX}-restart"
    send(topic, LINES)
    with member(topic, topic) as reader:
        same(reader.take(30), LINES, "records")
        restart()
        send(topic, ["new|record"])
        # It commits in its own time, so it may read some of the old records once more.
        until(lambda: "new|record" in reader.rows, "the record behind the restart")
    with member(topic, topic) as again:
        send(topic, LINES[:2])
        same(again.take(2), LINES[:2], "records behind the last commit")


def describe_cluster() -> None:
    found = json.loads(kcat("-L", "-J"))
    same([each["name"] for each in found["brokers"]], [BOOTSTRAP], "brokers")
    same(found["controllerid"], found["brokers"][0]["id"], "controller")


def describe_topic() -> None:
    part = topics()[TOPIC]["partitions"][0]
    same((len(part["replicas"]), len(part["isrs"])), (1, 1), "replicas and those in sync")


if __name__ == "__main__":
    version = re.search(r"Version (\S+).*librdkafka (\S+)", subprocess.getoutput(f"{KCAT} -V"), re.DOTALL)
    run(
        "kcat",
        "{} (librdkafka {})".format(*version.groups()) if version else "",
        [
            ("create a topic by producing", auto_creation),
            *((f"produce and consume, {name}", lambda name=name: codec(name)) for name in CODECS),
            ("produce idempotently", idempotent),
            ("too large a record is refused", too_large),
            ("offsets for times", offsets_for_times),
            ("consume in a group and commit", group_commit),
            ("rebalance: one joins, one leaves", rebalance),
            ("go on after a restart of the broker", go_on_after_restart),
            ("describe the cluster", describe_cluster),
            ("describe a topic", describe_topic),
        ],
    )
