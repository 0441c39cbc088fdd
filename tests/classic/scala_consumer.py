"""Kafka 0.9.0.1's console consumer as a member of a group: what it prints, and its end."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Self


class ScalaConsumer:
    """Runs until `stop` or `kill`; `seen` counts the lines, which are the messages' values."""

    def __init__(self, libs: Path, work: Path, *, zookeeper: str, group: str, topic: str, name: str) -> None:
        properties = work / f"{name}.properties"
        properties.write_text(
            f"group.id={group}\nconsumer.id={name}\nauto.offset.reset=smallest\n"
            "zookeeper.session.timeout.ms=4000\nzookeeper.connection.timeout.ms=30000\n"
            "rebalance.backoff.ms=2000\nauto.commit.interval.ms=300\n"
        )
        logging = work / "console.log4j"
        logging.write_text(
            "log4j.rootLogger=WARN, out\nlog4j.appender.out=org.apache.log4j.ConsoleAppender\n"
            "log4j.appender.out.target=System.err\nlog4j.appender.out.layout=org.apache.log4j.SimpleLayout\n"
        )
        self.seen: Counter[str] = Counter()
        self.log = work / f"{name}.log"
        command = ["java", "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"]
        command += [f"-Dlog4j.configuration=file:{logging}", "-cp", f"{libs}{os.sep}*"]
        command += ["kafka.tools.ConsoleConsumer", "--zookeeper", zookeeper, "--topic", topic]
        command += ["--consumer.config", str(properties)]
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

    def stop(self) -> None:
        """Let it shut down: it commits and leaves."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Without a word; ZooKeeper finds out later."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        if self._process.poll() is None:
            self._process.send_signal(how)
        try:
            self._process.wait(30)
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
