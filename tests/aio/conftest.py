"""Running coroutines in a loop that has nothing left at the end, and reading what was sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ottla import EmbeddedBroker, replay
from tests.waiting import PATIENCE_S

T = TypeVar("T")


def run(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run it in a loop of its own, which has no task left at the end."""

    async def checked() -> T:
        result = await asyncio.wait_for(work(), PATIENCE_S)
        await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left
        return result

    return asyncio.run(checked())


def values(broker: EmbeddedBroker, topic: str, partition: int) -> list[bytes]:
    """The values in a partition."""
    with replay(topic, partitions=[partition], bootstrap_servers=broker.bootstrap) as part:
        return [message.value or b"" for message in part]
