"""The thread that sends the heartbeats of a ShareConsumer."""

from __future__ import annotations

import threading
from dataclasses import replace

from ottla.client.client_config import ClientConfig
from ottla.client.conversation import completed
from ottla.client.interruption import Interruption, ended
from ottla.client.metadata import ClusterMetadata
from ottla.client.pool import ConnectionPool
from ottla.consumer.share.share_membership import LEAVE_TIMEOUT_MS, ShareMembership


class Heartbeats(ShareMembership):
    """A thread that joins the group with `start` and leaves it with `stop`."""

    def __init__(
        self,
        client: ClientConfig,
        metadata: ClusterMetadata,
        group_id: str,
        topics: tuple[str, ...],
        rack: str | None,
    ) -> None:
        self._client = client
        self._interruption = Interruption()
        self._pool = ConnectionPool(client, metadata, interruption=self._interruption)
        self._condition = threading.Condition(threading.Lock())
        super().__init__(client, self._pool.peers, group_id, topics, rack, self._condition)
        self._thread = threading.Thread(target=self._run, name=f"ottla-share-{group_id}", daemon=True)

    @property
    def is_started(self) -> bool:
        """Whether `start` was called."""
        return self._thread.ident is not None

    def start(self) -> None:
        """Start the thread, if it is not started yet."""
        if self._thread.ident is None and not self._is_stopping:
            self._thread.start()

    def wait_for_assignment(self, timeout_s: float) -> None:
        """Wait until partitions are assigned or an error has come, at most `timeout_s`."""
        with self._condition:
            self._condition.wait_for(self.has_work, timeout_s)

    def _run(self) -> None:
        while not self._is_stopping:
            pause_ms = completed(self.beat())
            with self._condition:
                if not (self._is_stopping or self._is_due):
                    self._condition.wait(pause_ms / 1000)
                self._is_due = False
        self._pool.close()
        self._interruption.close()

    def stop(self) -> None:
        """End the thread, and leave the group. May be called twice."""
        with self._condition:
            is_first = not self._is_stopping
            self._is_stopping = True
            self._condition.notify_all()
        self._interruption.interrupt()
        if self.is_started:
            ended([self._thread], f"the member of share group {self._member.group_id!r}")
            if is_first:
                self._leave()
        elif is_first:
            self._pool.close()
            self._interruption.close()

    def _leave(self) -> None:
        # New connections: those of the thread are interrupted for good.
        config = replace(
            self._client, request_timeout_ms=min(self._client.request_timeout_ms, LEAVE_TIMEOUT_MS)
        )
        with ClusterMetadata(config) as metadata, ConnectionPool(config, metadata) as pool:
            completed(self.leave(pool.peers))
