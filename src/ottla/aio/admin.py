"""Admin on an event loop: `AdminCalls` as they are."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.admin.admin_calls import AdminCalls
from ottla.admin.admin_config import AdminConfig
from ottla.aio.forgotten import close_if_forgotten
from ottla.aio.pool import LoopDriver
from ottla.aio.waiting import uncancelled
from ottla.model.closing import AsyncClosing
from ottla.model.property_table import merged


class Admin(AdminCalls, AsyncClosing):
    """Manages topics, settings, records and groups of a cluster. Connects with the first call.

        >>> import asyncio
        >>> from ottla import aio
        >>> from ottla.admin import NewTopic
        >>> async def create():
        ...     async with aio.Admin(bootstrap_servers="127.0.0.1:9092") as admin:
        ...         await admin.create_topics(NewTopic("clicks", partitions=3))
        ...         print(len((await admin.describe_topics("clicks")).partitions))
        >>> asyncio.run(create())
        3

    Settings, arguments, results and errors are those of `ottla.Admin`. Several tasks of one event loop may
    use it at once. A call that is cancelled may have been carried out. What is done in ZooKeeper (brokers
    before 0.10, classic groups) is done by threads of the loop's executor.
    """

    def __init__(self, properties: Mapping[str, object] | None = None, **settings: object) -> None:
        super().__init__(AdminConfig.from_properties(merged(properties, settings)), LoopDriver())
        access = self._access
        self._forgotten = close_if_forgotten(
            self, f"aio.Admin of {self._address}", access.close, is_running=lambda: access.is_connected
        )

    async def close(self) -> None:
        """Close all connections. May be called twice; a cancellation takes effect when they are closed."""
        self._forgotten.detach()
        await uncancelled(super().close())
