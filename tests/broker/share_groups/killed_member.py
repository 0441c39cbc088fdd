"""Forks processes with one member of a share group each, for a test that kills them.

python -m tests.broker.share_groups.killed_member BOOTSTRAP DIRECTORY

For each line of its input, a number, it forks a process and prints its pid. A process writes what it is
given and what it answers into a file of the directory, one JSON object a line.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

from ottla import ShareConsumer
from ottla.model.errors import OttlaError

TOPIC = GROUP = "killed"


def work(bootstrap: str, path: Path, number: int) -> None:
    """Read for ever. Every fifth chunk or so is released, the others are accepted."""
    chance = random.Random(number)
    with (
        path.open("ab", buffering=0) as file,
        ShareConsumer(
            TOPIC,
            group_id=GROUP,
            bootstrap_servers=bootstrap,
            share_acknowledgement_mode="explicit",
            share_acquire_mode="record_limit",
            max_poll_records=25,
        ) as consumer,
    ):

        def tell(**what: Any) -> None:
            file.write(json.dumps(what).encode() + b"\n")

        asked_at = 0
        while True:
            if not consumer._queue:  # the records of the next chunk are acquired after this moment
                asked_at = time.monotonic_ns()
            chunk = consumer.poll(1)
            if chunk is None:
                continue
            partition = chunk.topic_partition.partition
            offsets = chunk.batch.column("offset").to_pylist()
            counts = chunk.batch.column("delivery_count").to_pylist()
            answer = "release" if chance.random() < 0.2 else "accept"
            tell(
                what="given", answer=answer, at=asked_at, partition=partition, offsets=offsets, counts=counts
            )
            try:
                getattr(consumer, answer)(chunk)
                consumer.commit()
            except OttlaError as error:
                tell(what="failed", error=str(error))
            else:
                at = time.monotonic_ns()
                tell(what=answer, at=at, partition=partition, offsets=offsets, counts=counts)


def main() -> None:
    bootstrap, directory = sys.argv[1:]
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            work(bootstrap, Path(directory) / f"{int(line)}.jsonl", int(line))
        os.write(1, b"%d\n" % pid)


if __name__ == "__main__":
    main()
