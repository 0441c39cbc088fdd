"""A progress line: on a terminal, and nowhere else."""

from __future__ import annotations

import io

import pytest

from ottla.cli.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Watch:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_a_terminal_sees_a_bar_and_then_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    terminal, watch = Terminal(), Watch()
    with Progress(1000, "records", stream=terminal, now=watch) as progress:
        watch.seconds = 2
        progress.update(500, "orders-3")
        progress.update(1)  # too soon after the last one to be shown
    shown = terminal.getvalue().split("\r\033[K")
    assert shown == ["", f"{'━' * 10:20}  50%  500 of 1,000 records  250/s  0:02  orders-3", ""]
    assert progress.done == 501


def test_without_a_total_there_is_no_bar() -> None:
    watch = Watch()
    progress = Progress(unit="rows", stream=Terminal(), now=watch)
    watch.seconds = 61
    progress.update(122)
    assert progress.line() == "122 rows  2/s  1:01"


@pytest.mark.parametrize(("stream", "term"), [(io.StringIO(), "xterm"), (Terminal(), "dumb")])
def test_nobody_else_sees_anything(stream: io.StringIO, term: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", term)
    with Progress(10, stream=stream) as progress:
        progress.update(5)
    assert stream.getvalue() == ""


def test_colours_are_for_those_who_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    with Progress(10, stream=terminal) as progress:
        progress.update(5)
    assert "\033[36m" in terminal.getvalue()
