"""A Java program of this directory: commands go in, and what it says comes out."""

from __future__ import annotations

import queue
import subprocess
import threading
import time
from pathlib import Path

from ottla.model.closing import Closing
from tools.java_process import java_command
from tools.peer_cache import java_classes, kafka_libs

HERE = Path(__file__).parent
PATIENCE_S = 60.0
_QUIET = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-Dlog4j.rootLogger=OFF"]


class JavaClient(Closing):
    """One process. It ends with this object, and with this process."""

    def __init__(self, source: str, version: str, *arguments: str) -> None:
        command = java_command(kafka_libs(version), java_classes(HERE / source, version), heap_mb=192)
        self._process = subprocess.Popen(
            [*command, *_QUIET, Path(source).stem, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._marks = 0
        threading.Thread(target=self._listen, daemon=True).start()
        self.do("", until="ready")

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.strip())

    def say(self, command: str) -> None:
        """Send a command."""
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()

    def do(self, command: str, *, until: str) -> None:
        """Send a command, and wait until it is done."""
        if command:
            self.say(command)
        done, _ = self.lines_until(until, seconds=PATIENCE_S)
        assert done, f"{command!r} is not done: no {until!r} within {PATIENCE_S:.0f} s"

    def settle(self) -> list[str]:
        """Wait until the program has done all that it was told; return what it raised before that."""
        self._marks += 1
        self.say(f"mark {self._marks}")
        done, raised = self.lines_until(f"marked {self._marks}", seconds=PATIENCE_S)
        assert done, "the program is stuck"
        return raised

    def lines_until(self, *wanted: str, seconds: float) -> tuple[str, list[str]]:
        """Take lines until one of these; return it ("" if none came in time), and what was raised.

        "read 7" is also a later offset, "raised" any exception.
        """
        raised: list[str] = []
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            try:
                line = self._lines.get(timeout=left)
            except queue.Empty:
                break
            word, _, rest = line.partition(" ")
            if word == "raised" and rest not in raised:
                raised.append(rest)
            for each in wanted:
                if each in {line, word} or (word == "read" and _is_as_far(each, rest)):
                    return line, raised
        return "", raised

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _is_as_far(wanted: str, offset: str) -> bool:
    word, _, rest = wanted.partition(" ")
    return word == "read" and int(offset) >= int(rest)
