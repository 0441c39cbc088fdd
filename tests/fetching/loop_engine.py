"""The engine of asyncio in the form of the blocking one, for tests over both faces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.aio.cluster import LoopMetadata
from ottla.aio.fetch_engine import LoopFetchEngine, LoopInbox
from ottla.client.client_config import ClientConfig
from ottla.fetching.fetch_config import FetchConfig
from ottla.model.topic_partition import TopicAndPartition
from tests.both_faces import Loop


class Polled:
    """A feed, an inbox or a channel of errors whose `poll` waits on the loop."""

    def __init__(self, polled: Any, is_ready: Callable[[], bool], inbox: LoopInbox, loop: Loop) -> None:
        self._polled = polled
        self._is_ready = is_ready
        self._inbox = inbox
        self._loop = loop

    def poll(self, timeout_ms: float | None = None) -> Any:
        """As the blocking one."""
        seconds = None if timeout_ms is None else timeout_ms / 1000

        async def polled() -> Any:
            await self._inbox.loop_changed.until(self._is_ready, seconds)
            return self._polled.poll(0)

        return self._loop.run(polled())

    @property
    def errors(self) -> Polled:
        """The errors of a feed."""
        channel = self._polled.errors
        return Polled(channel, channel.is_ready, self._inbox, self._loop)

    def __getattr__(self, name: str) -> Any:
        found = self._loop.call(lambda: getattr(self._polled, name))
        if not callable(found):
            return found
        return lambda *given, **keywords: self._loop.call(lambda: found(*given, **keywords))


class LoopEngine:
    """Looks like a FetchEngine."""

    def __init__(self, client: ClientConfig, config: FetchConfig, loop: Loop) -> None:
        self._loop = loop
        self._metadata = loop.call(lambda: LoopMetadata(client))
        self._engine: LoopFetchEngine = loop.call(lambda: LoopFetchEngine(client, config, self._metadata))
        self.feeds: dict[TopicAndPartition, Polled] = {}

    def new_inbox(self) -> Polled:
        """An inbox for several feeds."""
        inbox = self._loop.call(LoopInbox)
        return Polled(inbox, inbox.has_reason, inbox, self._loop)

    def add(self, place: TopicAndPartition, *offset: int, inbox: Polled | None = None) -> Polled:
        """As the blocking one."""
        inner = inbox._inbox if inbox is not None else self._loop.call(LoopInbox)
        feed = self._loop.call(lambda: self._engine.add(place, *offset, inbox=inner))
        self.feeds[place] = Polled(feed, feed.is_ready, inner, self._loop)
        return self.feeds[place]

    def close(self) -> None:
        """As the blocking one."""
        self._loop.run(self._engine.close())
        self._loop.run(self._metadata.close())
