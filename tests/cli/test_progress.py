"""A progress line: on a terminal, and nowhere else."""

from __future__ import annotations

import io

import pytest

from ottla.cli import progress as progress_module
from ottla.cli.progress import ProgressLine
from tests.waiting import wait_for


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Watch:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_a_terminal_sees_a_bar_and_then_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "TICK_S", 3600)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    terminal, watch = Terminal(), Watch()
    with ProgressLine(1000, "records", stream=terminal, now=watch) as progress:
        watch.seconds = 2
        progress.update(500, "orders-3")
        progress.update(1)  # too soon after the last one to be shown
    shown = terminal.getvalue().split("\r\033[K")
    assert shown == ["", f"{'━' * 10:20}  50%  500 of 1,000 records  250/s  0:02  orders-3", ""]
    assert progress.done == 501


def test_the_line_moves_while_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress_module, "TICK_S", 0.001)
    terminal, watch = Terminal(), Watch()
    counts = iter(range(10, 10_000_000))
    with ProgressLine(unit="records", count=lambda: next(counts), stream=terminal, now=watch):
        watch.seconds = 1
        wait_for(lambda: " records  " in terminal.getvalue() and "0:01" in terminal.getvalue())
        watch.seconds = 75
        wait_for(lambda: "1:15" in terminal.getvalue())
    assert terminal.getvalue().endswith("\r\033[K")


def test_the_rate_is_that_of_the_last_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    watch = Watch()
    line = ProgressLine(unit="records", stream=Terminal(), now=watch)
    for seconds, count in ((1, 1000), (2, 1000), (10, 0), (20, 0)):
        watch.seconds = seconds
        line.update(count)
    assert line.line() == "2,000 records  0/s  0:20"


def test_what_others_show_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    with ProgressLine(10, stream=terminal, is_shown=False) as line:
        line.update(5)
    assert terminal.getvalue() == ""


def test_without_a_total_there_is_no_bar() -> None:
    watch = Watch()
    progress = ProgressLine(unit="rows", stream=Terminal(), now=watch)
    watch.seconds = 61
    progress.update(122)
    assert progress.line() == "122 rows  2/s  1:01"


@pytest.mark.parametrize(("stream", "term"), [(io.StringIO(), "xterm"), (Terminal(), "dumb")])
def test_nobody_else_sees_anything(stream: io.StringIO, term: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", term)
    with ProgressLine(10, stream=stream) as progress:
        progress.update(5)
    assert stream.getvalue() == ""


def test_colours_are_for_those_who_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    with ProgressLine(10, stream=terminal) as progress:
        progress.update(5)
    assert "\033[36m" in terminal.getvalue()
