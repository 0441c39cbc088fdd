"""ShareConsumer: reads topics as a member of a share group."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from functools import partial

from ottla.client.conversation import completed
from ottla.client.direct import DirectMetadata
from ottla.client.metadata import ClusterMetadata
from ottla.client.pool import ConnectionPool
from ottla.consumer.reading.held_chunks import HeldChunk
from ottla.consumer.share.base_share_consumer import (
    MAX_WAIT_S,
    BaseShareConsumer,
    Message,
    Topics,
    share_config,
)
from ottla.consumer.share.heartbeats import Heartbeats
from ottla.consumer.share.share_fetcher import ShareFetcher, deadline_after
from ottla.fetching.chunk_queue import FetchedDataChunk
from ottla.model.closing import Closing
from ottla.model.forgotten import stop_if_forgotten
from ottla.records.rows import Deserializer


class ShareConsumer(BaseShareConsumer, Closing):
    """Reads topics as a member of a share group. Joins with the first `poll`, leaves with `close`.

    Members share the records of each partition: the broker locks a record for the member that gets it, until
    the member answers for it or the lock runs out. `topics` is a name or several names. Settings are Kafka's,
    in the mapping `properties` or as keywords with underscores. With share.acknowledgement.mode "implicit",
    the default, a poll accepts what the one before it gave; with "explicit" the application answers for each
    record.

        >>> from ottla import Admin, EmbeddedBroker, Producer, ShareConsumer, TopicAndPartition
        >>> with EmbeddedBroker() as broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        ...     broker.create_topic("orders")
        ...     # Without this, a new share group begins at the end of its topics.
        ...     admin.alter_share_group_offsets("kitchen", {TopicAndPartition("orders", 0): 0})
        ...     with ShareConsumer(
        ...         "orders",
        ...         group_id="kitchen",
        ...         bootstrap_servers=broker.bootstrap,
        ...         share_acknowledgement_mode="explicit",
        ...     ) as consumer:
        ...         with Producer(bootstrap_servers=broker.bootstrap) as producer:
        ...             _ = producer.send("orders", value=b"book")
        ...         for message in consumer:
        ...             print(message.offset, message.value, consumer.delivery_count(message))
        ...             consumer.accept(message)
        ...             break
        0 b'book' 1

    One thread uses a ShareConsumer, the one that polls. Another one sends heartbeats.
    """

    def __init__(
        self,
        topics: Topics,
        properties: Mapping[str, object] | None = None,
        *,
        group_id: str | None = None,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        **settings: object,
    ) -> None:
        config = share_config(properties, group_id, settings)
        super().__init__(config, topics, (key_deserializer, value_deserializer))
        self._metadata = metadata = ClusterMetadata(config.client)
        self._known = DirectMetadata(metadata)
        self._heartbeats = heartbeats = Heartbeats(
            config.client, metadata, config.group_id, self._topics, config.rack
        )
        self._membership = heartbeats
        pool = ConnectionPool(config.client, metadata)
        self._fetcher = fetcher = ShareFetcher(config, self._known, pool.peers, heartbeats.member_id)
        self._stop = partial(_stop, heartbeats, fetcher, pool, metadata)
        self._forgotten = stop_if_forgotten(
            self,
            f"ShareConsumer of group {config.group_id!r}",
            self._stop,
            is_running=lambda: heartbeats.is_started,
        )

    # --- reading

    def poll(self, timeout: float | None = None) -> FetchedDataChunk | None:
        """Return the next records of a partition, or None if none arrive within `timeout` seconds.

        With `timeout=None` wait for ever. The column `delivery_count` says how often each record was
        delivered. Raises the error that ended the membership; and ConfigError if the application has not
        answered for all records of the last poll (mode "explicit").
        """
        chunk = self._next(timeout)
        return chunk.take_rest() if chunk is not None else None

    def chunks(self, timeout: float | None = None) -> Iterator[FetchedDataChunk]:
        """Iterate over chunks as `poll` returns them, until none arrives within `timeout` seconds."""
        while (chunk := self.poll(timeout)) is not None:
            yield chunk

    def messages(self, timeout: float | None = None) -> Iterator[Message]:
        """Iterate over messages until none arrives within `timeout` seconds; None waits for ever.

        A message that is handed out counts as accepted when the next records are fetched (mode "implicit").
        Answer for a message before the next one (mode "explicit").
        """
        while (chunk := self._next(timeout)) is not None:
            yield from chunk.rows

    def __iter__(self) -> Iterator[Message]:
        """Iterate over messages for ever."""
        return self.messages()

    def _next(self, timeout: float | None) -> HeldChunk | None:
        self._check_open()
        chunk = self._first()
        if chunk is not None:
            return chunk
        self._answer_for_last_poll()
        self._log_refused(completed(self._fetcher.acknowledge()))
        self._heartbeats.start()
        deadline = deadline_after(timeout)
        while True:
            self._fetch(deadline.capped_ms(self._config.fetch_max_wait_ms))
            if self._queue:
                return self._queue[0]
            if deadline.passed:
                return None

    def _fetch(self, wait_ms: float) -> None:
        assigned = self._heartbeats.assigned()
        if not assigned:
            self._heartbeats.wait_for_assignment(min(wait_ms / 1000, MAX_WAIT_S))
            assigned = self._heartbeats.assigned()
        if assigned:
            self._enqueue(completed(self._fetcher.fetch(assigned, self._topics, wait_ms)))

    def commit(self) -> None:
        """Send all answers and wait until they are stored; with mode "implicit", accept all of the last poll.

        Raises KafkaError or ConnectionLost for the first partition that was refused: others get its records.
        """
        self._check_open()
        self._answer_for_all()
        for error in completed(self._fetcher.acknowledge()).values():
            raise error

    def check_brokers(self, timeout: float | None = None) -> None:
        """Ask a broker to describe the cluster, and return when one has.

        Raises BrokerUnreachable or AuthenticationFailed: at once if every address fails, at the latest after
        `timeout` seconds (default: request.timeout.ms).
        """
        self._check_open()
        self._metadata.check_brokers(timeout)

    def close(self) -> None:
        """Send the answers, release what is left, leave the group. May be called twice.

        With mode "implicit", everything that was handed out is accepted.
        """
        if self._is_closed:
            return
        self._forgotten.detach()
        self._is_closed = True
        self._answer_for_all()
        self._stop()


def _stop(
    heartbeats: Heartbeats, fetcher: ShareFetcher, pool: ConnectionPool, metadata: ClusterMetadata
) -> None:
    """Send what was answered, leave the group and end all threads."""
    with contextlib.ExitStack() as stack:
        stack.callback(metadata.close)
        stack.callback(heartbeats.stop)
        stack.callback(pool.close)
        stack.callback(lambda: completed(fetcher.close()))
