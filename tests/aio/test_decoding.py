"""Where received records are decoded: on the loop, or by a thread."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any, cast

from ottla import TopicAndPartition
from ottla.aio.decoding import Decoders, Decoding
from ottla.fetching.collector import Collected
from tests.aio.conftest import run

LARGE, SMALL = 1 << 20, 1 << 10
QUICK, SLOW = TopicAndPartition("plain", 0), TopicAndPartition("compressed", 0)


def busy(seconds: float) -> Callable[[], Collected]:
    """Work that takes so much processor time, and returns the thread that did it."""

    def decode() -> Any:
        until = time.thread_time() + seconds
        while time.thread_time() < until:
            pass
        return threading.current_thread()

    return cast("Callable[[], Collected]", decode)


def test_work_is_done_by_a_thread_if_it_took_long_before() -> None:
    async def decode() -> None:
        here = cast(Collected, threading.current_thread())
        with contextlib.closing(Decoders("test")) as decoders:
            quick, slow = Decoding(QUICK, LARGE, busy(0)), Decoding(SLOW, LARGE, busy(0.005))
            first = await decoders.decoded([quick, slow])
            assert here not in first  # nothing is known of them
            assert await decoders.decoded([quick]) == [here]
            ran_here = [thread is here for thread in await decoders.decoded([quick, slow, quick])]
            assert ran_here == [True, False, True]
            assert await decoders.decoded([Decoding(SLOW, SMALL, busy(0))]) == [here]
            unseen = Decoding(TopicAndPartition("new", 0), SMALL, busy(0))
            assert await decoders.decoded([unseen]) == [here]

    run(decode)


def test_others_are_served_between_many_partitions() -> None:
    async def decode() -> None:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        with contextlib.closing(Decoders("test")) as decoders:
            many = [Decoding(TopicAndPartition("many", number), LARGE, busy(0.0006)) for number in range(20)]
            await decoders.decoded(many)
            other = asyncio.create_task(count())
            await decoders.decoded(many)
            other.cancel()
        assert turns > 5

    run(decode)
