"""Where received records are decoded: on the event loop if that takes a moment, else by a thread.

A thread costs more than it saves if the work is small: the loop has to be woken twice, and both want the
interpreter. How long work takes is known from the records that came before of the same partition: those of
compressed topics take ten times as long as others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from ottla.fetching.collector import Collected
from ottla.model.topic_partition import TopicAndPartition

HELD_NS = 1_000_000
"""How long the loop may be blocked at a time. Work that takes longer is done by a thread."""
UNKNOWN_NS_PER_BYTE = 30.0
"""The assumption for a partition that was not read yet: up to 32 KB are decoded on the loop."""


class Decoding(NamedTuple):
    """Records of a partition, and the function that decodes them."""

    topic_partition: TopicAndPartition
    nbytes: int
    decode: Callable[[], Collected]


class Decoders:
    """Decodes records of the partitions of one client."""

    def __init__(self, name: str) -> None:
        self._threads = ThreadPoolExecutor(2, thread_name_prefix=f"ottla-decode-{name}")
        self._ns_per_byte: dict[TopicAndPartition, float] = {}

    async def decoded(self, decodings: list[Decoding]) -> list[Collected]:
        """Return all results, in order. The loop serves others at least every HELD_NS."""
        results: list[Collected] = []
        held_ns = 0.0
        for decoding in decodings:
            expected_ns = decoding.nbytes * self._pace(decoding)
            if expected_ns > HELD_NS:
                loop = asyncio.get_running_loop()
                results.append(await loop.run_in_executor(self._threads, self._timed, decoding))
                held_ns = 0.0
                continue
            held_ns += expected_ns
            if held_ns > HELD_NS:
                await asyncio.sleep(0)
                held_ns = expected_ns
            results.append(self._timed(decoding))
        return results

    def _pace(self, decoding: Decoding) -> float:
        return self._ns_per_byte.get(decoding.topic_partition, UNKNOWN_NS_PER_BYTE)

    def _timed(self, decoding: Decoding) -> Collected:
        """Decode, and remember how much processor time it took."""
        began = time.thread_time_ns()
        collected = decoding.decode()
        took = time.thread_time_ns() - began
        if decoding.nbytes:
            self._ns_per_byte[decoding.topic_partition] = took / decoding.nbytes
        return collected

    def close(self) -> None:
        """End the threads, after they have decoded what they began."""
        self._threads.shutdown(wait=True, cancel_futures=True)
