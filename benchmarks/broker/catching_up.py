"""A process that reads topics from their beginning, again and again, until its input is closed.

It prints how many bytes of records it has got, and in how many seconds. The kernel drops the records.
"""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict

from benchmarks.broker.frames import NEW, frame
from benchmarks.broker.load import Address, StoredBatches, connected, drop, take
from ottla.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic

PARTITION_BYTES, FETCH_BYTES = 1 << 20, 50 << 20
_HEAD = struct.Struct(">iiii")  # size, correlation id, throttle time, number of topics
_PARTITION = struct.Struct(">iihqqii")  # number of partitions, index, error, ends, aborted, size of records
_NAME = struct.Struct(">h")


class CatchingUp:
    """Such a process. `finish` ends it."""

    def __init__(self, address: Address, topics: Sequence[StoredBatches]) -> None:
        wanted = {"address": address, "topics": [asdict(topic) | {"dialect": None} for topic in topics]}
        program = f"from {__name__} import main; main({json.dumps(wanted)!r})"
        command = [sys.executable, "-c", program]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._process.stdout.readline()  # it has got its first answer

    def finish(self) -> float:
        """End it, and return how many bytes a second it has got."""
        said, _ = self._process.communicate()
        count, seconds = map(float, said.split())
        return count / seconds


class _Reader:
    """One connection. `offsets` are in batches."""

    def __init__(self, address: Address, topics: Sequence[StoredBatches]) -> None:
        self._socket: socket.socket = connected(address)
        self._topics = {topic.topic: topic for topic in topics}
        self._batches = dict.fromkeys(self._topics, 0)

    def fetch(self) -> int:
        """Fetch what comes next of each topic, from the beginning behind the end; returns bytes."""
        self._socket.sendall(frame(self._request(), NEW.fetch_version))
        _, _, _, topics = _HEAD.unpack(take(self._socket, _HEAD.size))
        return sum(self._topic() for _ in range(topics))

    def _request(self) -> FetchRequest:
        wanted = [
            FetchTopic(
                topic=name,
                partitions=[
                    FetchPartition(
                        partition=0,
                        fetch_offset=self._batches[name] * topic.batch_records,
                        partition_max_bytes=PARTITION_BYTES,
                    )
                ],
            )
            for name, topic in self._topics.items()
        ]
        return FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=FETCH_BYTES, topics=wanted)

    def _topic(self) -> int:
        (size,) = _NAME.unpack(take(self._socket, _NAME.size))
        name = bytes(take(self._socket, size)).decode()
        _, _, error, *_, records_bytes = _PARTITION.unpack(take(self._socket, _PARTITION.size))
        if error:
            raise RuntimeError(f"a fetch of {name} was answered with error {error}")
        count = max(int(records_bytes), 0)
        drop(self._socket, count)
        topic = self._topics[name]
        read = self._batches[name] + count // topic.batch_bytes
        self._batches[name] = read if read < topic.batch_count else 0
        return count


def main(wanted: str) -> None:
    """Read until the input is closed: `wanted` is the JSON that `CatchingUp` writes."""
    asked = json.loads(wanted)
    host, port = asked["address"]
    reader = _Reader((host, port), [StoredBatches(**(topic | {"dialect": NEW})) for topic in asked["topics"]])
    is_over = threading.Event()
    threading.Thread(target=_watch_input, args=(is_over,), daemon=True).start()
    reader.fetch()
    print("ready", flush=True)
    start, count = time.perf_counter(), reader.fetch()
    while not is_over.is_set():
        count += reader.fetch()
    print(count, time.perf_counter() - start)


def _watch_input(is_over: threading.Event) -> None:
    sys.stdin.read()
    is_over.set()
