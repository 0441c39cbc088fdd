"""Forks processes with one member of a share group each, for a test that kills them.

python -m tests.broker.share_groups.killed_member BOOTSTRAP DIRECTORY

For each line of its input, a name, it forks a process and prints its pid. A process writes what it is
given and what it answers into a file of the directory, one JSON object a line.
"""

from __future__ import annotations

import json
import random
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from ottla import ShareConsumer
from ottla.model.errors import OttlaError
from tests.forked_processes import fork_for_each_line

TOPIC = GROUP = "killed"


def work(bootstrap: str, directory: Path, name: str) -> None:
    """Read for ever. Every fifth chunk or so is released, the others are accepted."""
    chance = random.Random(name)
    path = directory / f"{name}.jsonl"
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


if __name__ == "__main__":
    fork_for_each_line(partial(work, sys.argv[1], Path(sys.argv[2])))
