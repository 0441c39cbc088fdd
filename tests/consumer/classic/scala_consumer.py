"""Kafka 0.9.0.1's console consumer as a member of a group: what it prints, and its end."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tools.java_process import java_command


class ScalaConsumer:
    """Runs until `stop` or `kill`, or until it has read `messages_max`; `seen` counts the messages' values.

    `settings` are more of Kafka's properties. Where the group has no offset it begins at the end, whatever
    auto.offset.reset says: let one of ours be there first.
    """

    def __init__(
        self,
        libs: Path,
        work: Path,
        *,
        zookeeper: str,
        group: str,
        topic: str,
        name: str,
        settings: Mapping[str, str],
        messages_max: int | None = None,
    ) -> None:
        properties = work / f"{name}.properties"
        given = {
            "group.id": group,
            "consumer.id": name,
            "zookeeper.session.timeout.ms": "4000",
            "zookeeper.connection.timeout.ms": "30000",
            "rebalance.backoff.ms": "2000",
            "auto.commit.interval.ms": "300",
            **settings,
        }
        properties.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
        logging = work / "console.log4j"
        logging.write_text(
            "log4j.rootLogger=WARN, out\nlog4j.appender.out=org.apache.log4j.ConsoleAppender\n"
            "log4j.appender.out.target=System.err\nlog4j.appender.out.layout=org.apache.log4j.SimpleLayout\n"
        )
        self.seen: Counter[str] = Counter()
        self.log = work / f"{name}.log"
        command = [*java_command(libs, heap_mb=96), f"-Dlog4j.configuration=file:{logging}"]
        command += ["kafka.tools.ConsoleConsumer", "--zookeeper", zookeeper, "--topic", topic]
        command += ["--consumer.config", str(properties)]
        if messages_max is not None:
            command += ["--max-messages", str(messages_max)]
        with open(self.log, "wb") as log:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, cwd=work
            )
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.seen[line.decode().strip()] += 1

    def wait(self) -> None:
        """Until it has read `messages_max`, committed and left."""
        self._end()

    def stop(self) -> None:
        """Let it shut down: it commits and leaves."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Without a word; ZooKeeper finds out later."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals | None = None) -> None:
        if how is not None and self._process.poll() is None:
            self._process.send_signal(how)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
