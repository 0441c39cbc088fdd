"""The connections of an asyncio client, by broker, shared by its coroutines. `PeerPool` decides."""

from __future__ import annotations

import math

from ottla.aio.cluster import LoopMetadata
from ottla.aio.connection import LoopConnection
from ottla.aio.waiting import LOOP_WAITS, Tasks
from ottla.client.client_config import ClientConfig
from ottla.client.clock import MONOTONIC, Deadline
from ottla.client.peer_pool import PeerPool
from ottla.model.cluster_view import BrokerNode
from ottla.wire.frames import Allocator


class LoopDriver:
    """Waits, metadata and connections for conversations on an event loop."""

    clock = MONOTONIC
    waits = LOOP_WAITS

    def metadata(self, config: ClientConfig) -> LoopMetadata:
        """Return new metadata, which has sent no request yet."""
        return LoopMetadata(config)

    def peers(self, config: ClientConfig, metadata: LoopMetadata) -> LoopPool:
        """Return a new pool that uses this metadata; no connection is open yet."""
        return LoopPool(config, metadata)


class LoopPool(PeerPool[LoopConnection]):
    """At most one connection to each broker."""

    def __init__(
        self, config: ClientConfig, metadata: LoopMetadata, *, allocate: Allocator = bytearray
    ) -> None:
        super().__init__(config, metadata, LOOP_WAITS, MONOTONIC)
        self._allocate = allocate
        self._retiring = Tasks()

    async def _open(self, node: BrokerNode, deadline: Deadline | None) -> LoopConnection:
        return await LoopConnection.open(
            node.address,
            self._config,
            broker_id=node.broker_id,
            allocate=self._allocate,
            memory=self._metadata.memory,
            errors=self._metadata.errors,
            deadline=None if deadline is None else deadline.for_try(math.inf),
        )

    async def _replace(self, broker_id: int) -> None:
        """Use another connection for new calls. Answers that are due on the old one still arrive."""
        connection = self._connections.pop(broker_id)
        self._retiring.start(connection.retire(), f"ottla-retired-{broker_id}")

    async def close(self) -> None:
        """Close all connections. May be called twice."""
        await self._retiring.cancel()
        await super().close()
