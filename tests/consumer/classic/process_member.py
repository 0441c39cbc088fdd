"""A member of ours in a process of its own, which can be stopped and killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).parents[3]


class ProcessMember:
    """`seen` counts messages by their places. `settings` are more of Kafka's properties."""

    def __init__(
        self,
        connect: str,
        group: str,
        consumer_id: str,
        topic: str,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.seen: Counter[tuple[str, int, int]] = Counter()
        self._topic = topic
        command = [
            sys.executable,
            "-m",
            "tests.consumer.classic.faulty_member",
            connect,
            group,
            consumer_id,
            topic,
        ]
        command += [f"{name}={value}" for name, value in settings.items()]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def wait_ready(self) -> None:
        assert self._ready.wait(60)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            words = line.split()
            if words == [b"ready"]:
                self._ready.set()
            elif len(words) == 2:
                self.seen[self._topic, int(words[0]), int(words[1])] += 1

    def send(self, what: signal.Signals) -> None:
        self.process.send_signal(what)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()
        self._thread.join()
        if self.process.stdout is not None:
            self.process.stdout.close()
