"""`ottla lag --watch` on a terminal: clock, totals and rates above as many rows as fit."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence

import pytest

from ottla import Admin, EmbeddedBroker, Producer, TopicAndPartition
from ottla.admin import GroupDescription, GroupKind, GroupLag, PartitionLag, StoredOffset
from ottla.cli.lag import COLUMNS
from ottla.cli.lag_screen import screen, totals
from ottla.cli.output import OutputRows

pty = pytest.importorskip("pty", reason="there are no terminals of this kind here")


def group_lag(name: str, offsets: Sequence[tuple[int | None, int]]) -> GroupLag:
    """Of a topic whose partitions have these committed offsets and ends."""
    group = GroupDescription(name, GroupKind.KAFKA, "Empty", "consumer", "", None, ())
    rows = [
        PartitionLag(TopicAndPartition("t", number), committed, end)
        for number, (committed, end) in enumerate(offsets)
    ]
    return GroupLag(group, tuple(rows))


def rows_of(lags: Sequence[int | None]) -> OutputRows:
    end = 100
    return OutputRows(
        COLUMNS,
        [
            (
                "g",
                "kafka",
                "t",
                number,
                None if lag is None else end - lag,
                end,
                lag,
                None,
                "kafka",
                None,
                None,
                None,
            )
            for number, lag in enumerate(lags)
        ],
    )


def test_totals_and_rates() -> None:
    before = totals({"a": group_lag("a", [(10, 100), (None, 50)]), "b": group_lag("b", [(0, 1000)])}, 5.0)
    now = totals({"a": group_lag("a", [(30, 110), (None, 60)]), "b": group_lag("b", [(500, 1100)])}, 7.0)
    size = os.terminal_size((200, 50))
    first = screen(rows_of([1]), before, None, "12:00:00", size)
    assert first[0] == "12:00:00  2 groups, 3 partitions  lag 1,090"
    assert screen(rows_of([1]), now, before, "12:00:02", size)[0] == (
        "12:00:02  2 groups, 3 partitions  lag 680  -205/s  read 260/s  written 55/s"
    )


def test_it_fits_the_screen_and_what_lags_most_is_seen() -> None:
    now = totals({}, 1.0)
    many = rows_of([3, None, 50, *([0] * 40)])
    lines = screen(many, now, None, "12:00:00", os.terminal_size((60, 8)))
    assert len(lines) == 7  # and the cursor is in the line below
    assert max(map(len, lines)) <= 59
    assert [line.split()[3] for line in lines[2:4]] == ["2", "0"]
    assert lines[-1] == "… and 39 more rows with less lag"
    stopped = (*many.rows[20][:-1], "stopped by CORRUPT_MESSAGE")
    with_error = OutputRows(COLUMNS, [*many.rows, stopped])
    lines = screen(with_error, now, None, "12:00:00", os.terminal_size((200, 8)))
    assert [line.split()[3] for line in lines[2:5]] == ["20", "2", "0"], "what cannot be read comes first"
    few = screen(rows_of([3, 50]), now, None, "12:00:00", os.terminal_size((60, 8)))
    assert [line.split()[3] for line in few[2:]] == ["0", "1"]  # in order
    assert screen(many, now, None, "12:00:00", os.terminal_size((1, 1)))  # however small it is


def test_an_unused_offset_does_not_count() -> None:
    place = TopicAndPartition("t", 0)
    stored = (
        StoredOffset(GroupKind.KAFKA, 1, is_used=False),
        StoredOffset(GroupKind.ZOOKEEPER, 9, is_used=True),
    )
    group = GroupDescription("g", GroupKind.ZOOKEEPER, "Stable", "consumer", "", None, ())
    lag = GroupLag(group, (PartitionLag(place, 9, 10, stored=stored),))
    assert totals({"g": lag}, 1.0).lag == 1


def test_on_a_terminal() -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("orders", 40)
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send("orders", b"x", partition=33)
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.alter_group_offsets("billing", {TopicAndPartition("orders", n): 0 for n in range(40)})
        ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "ottla", "lag", "-b", broker.bootstrap, "--watch", "0.05"]
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "12"}
        with subprocess.Popen(command, stdout=theirs, env=environment) as watch:
            os.close(theirs)
            seen = ""
            while seen.count("\033[H") < 3:
                seen += os.read(ours, 65536).decode()
            broker.fail("ListGroups", "CLUSTER_AUTHORIZATION_FAILED", times=-1)
            while "CLUSTER_AUTHORIZATION_FAILED" not in seen:  # which does not end it
                seen += os.read(ours, 65536).decode()
            watch.send_signal(signal.SIGINT)
            watch.wait(60)
        os.close(ours)
    _, first, second, *_ = seen.split("\033[H")
    assert re.match(r"\d\d:\d\d:\d\d  1 groups, 40 partitions  lag 1\b", first)
    assert "/s  read 0/s  written 0/s" in second
    assert first.count("\n") == 11
    assert re.search(r"orders +33 +0 +1 +1 ", first.split("\n")[2])
