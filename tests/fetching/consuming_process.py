"""Reads a topic at full speed, or as slowly as it can, and prints how much memory it took meanwhile, in MB.

python -m tests.fetching.consuming_process BOOTSTRAP PARTITIONS RECORDS QUEUED_BYTES READER
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path

from ottla import kernels
from ottla.client.client_config import ClientConfig
from ottla.fetching.engine import FetchEngine
from ottla.fetching.fetch_config import FetchConfig
from ottla.fetching.inbox import Inbox
from ottla.model.topic_partition import TopicAndPartition


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def read(bootstrap: str, partitions: int, records: int, queued_bytes: int, pause_s: float) -> None:
    config = FetchConfig(queued_max_bytes=queued_bytes, queued_max_message_chunks=1000)
    with FetchEngine(ClientConfig.from_properties({"bootstrap.servers": bootstrap}), config) as engine:
        inbox = Inbox()
        for partition in range(partitions):
            engine.add(TopicAndPartition("t", partition), 0, inbox=inbox)
        left = records
        while left > 0:
            chunk = inbox.poll(60_000)
            assert chunk is not None
            left -= chunk.batch.num_rows
            time.sleep(pause_s)


def main() -> None:
    bootstrap, partitions, records, queued_bytes, reader = sys.argv[1:]
    kernels.use("compiled")  # Numba's own memory is no part of what reading takes
    read(bootstrap, 1, 1, 1 << 20, 0)  # everything is loaded and compiled
    before = resident_mb()
    # The peak so far includes the compiler's; from here on it is that of reading.
    Path("/proc/self/clear_refs").write_text("5")
    read(bootstrap, int(partitions), int(records), int(queued_bytes), 0.02 if reader == "slow" else 0)
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    print(int(status["VmHWM"].split()[0]) * 1024 / 1e6 - before)  # noqa: T201


if __name__ == "__main__":
    main()
