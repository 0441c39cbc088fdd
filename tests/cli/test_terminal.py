"""On a terminal: progress on standard error only, colours unless NO_COLOR; elsewhere neither."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from ottla import EmbeddedBroker, Producer

pty = pytest.importorskip("pty", reason="there are no terminals of this kind here")
COUNT = 20_000
LINES = "".join(f"line {number}\n" for number in range(COUNT))


@pytest.fixture(scope="module")
def at() -> Iterator[tuple[str, str]]:
    with EmbeddedBroker() as broker:
        broker.create_topic("seen", 1)
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(COUNT):
                producer.send("seen", b"%d" % number)
        yield ("-b", broker.bootstrap)


def on_terminal(*arguments: str, text: str = "", **environment: str) -> tuple[int, str, str]:
    """Run with standard error on a terminal; the code, what was printed, and what the terminal got."""
    ours, theirs = pty.openpty()
    settings = {**os.environ, "TERM": "xterm", "COLUMNS": "120", **environment}
    with subprocess.Popen(
        [sys.executable, "-m", "ottla", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        env=settings,
    ) as process:
        os.close(theirs)
        # Little enough for the terminal's buffer: it is read when the process has ended.
        printed, _ = process.communicate(text, timeout=120)
    seen = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # what Linux says at the end of a terminal
            break
        if not part:
            break
        seen += part
    os.close(ours)
    return process.returncode, printed, seen.decode()


def test_producing(at: tuple[str, str]) -> None:
    code, printed, seen = on_terminal("produce", "seen", *at, "--format", "tsv", text=LINES)
    assert (code, printed.splitlines()[1:]) == (0, [f"seen\t0\t{COUNT}"])
    assert " records  " in seen


def test_consuming(at: tuple[str, str]) -> None:
    line = ("consume", "seen", "--from", "earliest", "-p", "0", "-n", str(COUNT), *at)
    code, printed, seen = on_terminal(*line, "--format", "json", NO_COLOR="1")
    assert (code, printed.count("\n")) == (0, COUNT)
    assert f"of {COUNT:,} records" in seen
    assert "\033[36m" not in seen


def test_mirroring(at: tuple[str, str]) -> None:
    ours, theirs = pty.openpty()
    with EmbeddedBroker() as target:
        line = [
            "mirror",
            *at,
            "--to",
            target.bootstrap,
            "--topics",
            "seen",
            "--set",
            "auto.offset.reset=earliest",
        ]
        with subprocess.Popen(
            [sys.executable, "-m", "ottla", *line],
            stdout=subprocess.PIPE,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
        ) as mirror:
            os.close(theirs)
            seen = ""
            while not re.search(r"[1-9][0-9,]* records mirrored  [0-9,]+/s", seen):
                seen += os.read(ours, 65536).decode()
            mirror.send_signal(signal.SIGINT)
            printed, _ = mirror.communicate(timeout=120)
    os.close(ours)
    assert mirror.returncode == 0
    assert printed.split()[0] == b"SENT"


def test_a_bench_with_colours_and_without(at: tuple[str, str]) -> None:
    for environment, has_colour in (({}, True), ({"NO_COLOR": "1"}, False)):
        code, printed, seen = on_terminal("bench", "-n", "20000", *at, "--format", "tsv", **environment)
        assert (code, [line.split("\t")[:3] for line in printed.splitlines()]) == (
            0,
            [
                ["step", "records", "bytes"],
                ["produce", "20000", "2000000"],
                ["consume", "20000", "2000000"],
            ],
        )
        assert "records written" in seen
        assert ("\033[36m" in seen) is has_colour


def test_nobody_watches(at: tuple[str, str]) -> None:
    command = [sys.executable, "-m", "ottla", "bench", "-n", "1000", *at]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "\033" not in done.stdout
    # Nor is anything left behind.
    topics = subprocess.run([*command[:3], "topics", *at], capture_output=True, text=True, check=True)
    assert "bench" not in topics.stdout
