"""Mirrors a topic until it is killed. For tests that do so.

python -m tests.mirror.mirror_worker SOURCE TARGET TOPIC [exactly-once [request.timeout.ms]]

It imports everything, and then forks a mirror for each line of its input, so that a killed one costs no new
interpreter. The line is the mirror's whole.batches.min.bytes. It prints the mirror's pid, and how it ended.
SIGTERM stops a mirror.
"""

from __future__ import annotations

import os
import signal
import sys

from ottla.consumer.classic import Whitelist
from ottla.mirror import Mirror


def mirror(
    whole_bytes: str, source: str, target: str, topic: str, mode: str = "", wait: str = "30000"
) -> None:
    consumer = {
        "bootstrap.servers": source,
        "group.id": f"group-of-{topic}",
        "group.instance.id": "one",  # a new member takes over at once, instead of after a session's timeout
        "heartbeat.interval.ms": 100,
        "fetch.message.max.bytes": 4000,
        "fetch.wait.max.ms": 20,
        "whole.batches.min.bytes": whole_bytes,
        "request.timeout.ms": wait,
    }
    producer = {"bootstrap.servers": target, "linger.ms": 0, "request.timeout.ms": wait}
    one = Mirror(
        consumer,
        producer,
        Whitelist(topic),
        offset_commit_interval=0.05,
        exactly_once=mode == "exactly-once",
    )
    signal.signal(signal.SIGTERM, lambda *_: one.stop())
    one.run()


def main() -> None:
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            code = 1
            try:
                mirror(line.strip(), *sys.argv[1:])
                code = 0
            finally:
                os._exit(code)
        os.write(1, f"{pid}\n".encode())
        _, status = os.waitpid(pid, 0)
        os.write(1, f"{os.waitstatus_to_exitcode(status)}\n".encode())


if __name__ == "__main__":
    main()
