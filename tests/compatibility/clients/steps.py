"""What the scripts of Python clients share: steps with a verdict each, the records they send, the restart.

A script imports nothing of ottla: it is a user's program with another library. It is called with the
bootstrap address and a prefix for its topics and groups, prints one JSON object a line, and asks for a
restart of the broker by one more such line, which is answered on its standard input.
"""

from __future__ import annotations

import json
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, NamedTuple

STEP_SECONDS = 45
# Not long ago: what is older than the retention would be deleted while it is read.
FIRST_TIME_MS = int(time.time()) * 1000 - 60_000
PARTITIONS = 3
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Skip(Exception):
    """This step cannot be done here; the text says why."""


class Row(NamedTuple):
    """A record as a user sees it."""

    partition: int
    time_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


def sample(count: int = 30) -> list[Row]:
    """Records with and without keys, values and headers, some long enough to be worth compressing."""
    rows = []
    for number in range(count):
        key = None if number % 5 == 4 else f"key {number}".encode()
        value = {3: b"", 6: None}.get(number % 10, b"value %d " % number * (1 + number % 7 * 40))
        headers = (("kind", b"sample"), ("number", str(number).encode()), ("empty", b""))[: number % 4]
        rows.append(Row(number % PARTITIONS, FIRST_TIME_MS + 1000 * number, key, value, headers))
    return rows


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Rows as a reader of several partitions may compare them: order holds within a partition only."""
    return sorted(rows, key=lambda row: row.partition)


def same(got: Any, wanted: Any, what: str = "result") -> None:
    """Fail with both sides when they differ."""
    if got != wanted:
        raise AssertionError(f"{what}: got {got!r:.300}, wanted {wanted!r:.300}")


def until(condition: Callable[[], Any], what: str, seconds: float = 30) -> Any:
    """Ask again until the answer is true: for what another party does in its own time."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.02)
    return answer


def say(**fields: Any) -> None:
    """One line for the matrix."""
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def restart() -> None:
    """Have the broker restarted on its port and data; Skip where nobody can."""
    say(ask="restart")
    if sys.stdin.readline().strip() != "restarted":
        raise Skip("this broker cannot be restarted by the test")


def attempt(name: str, action: Callable[[], Any]) -> None:
    """Do a step and print its verdict; one that hangs fails too."""

    def out_of_time(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"the step did not end within {STEP_SECONDS} s")

    signal.signal(signal.SIGALRM, out_of_time)
    signal.alarm(STEP_SECONDS)
    try:
        action()
    except Skip as reason:
        say(step=name, outcome="skipped", detail=str(reason))
    except Exception as error:  # noqa: BLE001 (whatever a client raises is this step's verdict)
        where = traceback.extract_tb(error.__traceback__)
        lines = [f"{frame.name}:{frame.lineno}" for frame in where if frame.filename.endswith("_client.py")]
        detail = f"{type(error).__name__}: {error} (at {' > '.join(lines[-3:])})"
        say(step=name, outcome="failed", detail=detail[:600])
    else:
        say(step=name, outcome="passed")
    finally:
        signal.alarm(0)


def run(client: str, version: str, steps: Iterable[tuple[str, Callable[[], Any]]]) -> None:
    """All steps in turn; a failed one does not stop the others."""
    say(client=client, version=version)
    for name, action in steps:
        attempt(name, action)
    say(done=True)
