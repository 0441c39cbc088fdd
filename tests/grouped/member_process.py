"""Forks members of a group, for tests that kill and stop them.

python -m tests.grouped.member_process BOOTSTRAP STRATEGY DIRECTORY

For each line of its input, a number, it forks a member and prints its pid. The member notes what it reads in
the file of that number, "generation partition first last" for every chunk, and commits it. With SIGTERM it
leaves.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from ottla.grouped import GroupConsumer, PartitionsLost, RebalanceListener


def read(bootstrap: str, strategy: str, path: Path) -> None:
    asked_to_leave: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked_to_leave.append(number))
    consumer = GroupConsumer(
        "t",
        "g",
        bootstrap_servers=bootstrap,
        partition_assignment_strategy=strategy,
        auto_offset_reset="smallest",
        enable_auto_commit=False,
        session_timeout_ms=2_000,
        heartbeat_interval_ms=200,
        fetch_wait_max_ms=50,
        listener=RebalanceListener(),
    )
    with consumer, open(path, "ab", buffering=0) as notes:
        while not asked_to_leave:
            chunk = consumer.poll(100)
            if chunk is None:
                continue
            offsets: Any = chunk.batch["offset"].to_numpy()
            generation = consumer._membership.membership.generation
            line = f"{generation} {chunk.topic_partition.partition} {offsets[0]} {offsets[-1]}\n"
            notes.write(line.encode())
            try:
                consumer.commit(chunk)
            except PartitionsLost:
                notes.write(b"lost\n")


def main() -> None:
    bootstrap, strategy, directory = sys.argv[1:]
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            read(bootstrap, strategy, Path(directory) / line.strip())
            os._exit(0)
        os.write(1, b"%d\n" % pid)


if __name__ == "__main__":
    main()
