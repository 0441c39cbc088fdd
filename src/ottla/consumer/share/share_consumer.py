"""ShareConsumer: reads topics as a member of a share group."""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from ottla.client.metadata import ClusterMetadata
from ottla.consumer.reading.health import Health
from ottla.consumer.reading.held_chunks import HeldChunk
from ottla.consumer.share.heartbeats import Heartbeats
from ottla.consumer.share.held_records import Answer
from ottla.consumer.share.share_config import ShareConfig
from ottla.consumer.share.share_fetcher import ShareFetcher, deadline_after
from ottla.fetching.chunk_queue import FetchedDataChunk
from ottla.model.closing import Closing
from ottla.model.errors import ConfigError, ConsumerClosed, OttlaError
from ottla.model.forgotten import stop_if_forgotten
from ottla.model.property_table import merged
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.messages import MessageAndMetadata
from ottla.records.rows import Deserializer, RowMaker

log = logging.getLogger(__name__)

MAX_WAIT_S = 1.0
"""The longest wait for an assignment before the application's time limit is looked at again."""

Message = MessageAndMetadata[Any, Any]
Acknowledgeable = Message | FetchedDataChunk
"""What can be answered for: a message, or all rows of a chunk."""


class ShareConsumer(Closing):
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
        topics: str | tuple[str, ...] | list[str],
        properties: Mapping[str, object] | None = None,
        *,
        group_id: str | None = None,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        **settings: object,
    ) -> None:
        if isinstance(properties, str):
            raise ConfigError(f"{properties!r:.100}: the group is a keyword, as in group_id='billing'")
        if group_id is not None:
            settings["group_id"] = group_id
        self._config = config = ShareConfig.from_properties(merged(properties, settings))
        self._topics = _names(topics)
        self._deserializers = (key_deserializer, value_deserializer)
        self._makers: dict[TopicAndPartition, RowMaker] = {}
        self._queue: deque[HeldChunk] = deque()
        self._is_closed = False
        self._metadata = metadata = ClusterMetadata(config.client)
        self._heartbeats = heartbeats = Heartbeats(
            config.client, metadata, config.group_id, self._topics, config.rack
        )
        self._fetcher = fetcher = ShareFetcher(config, metadata, heartbeats.member_id)
        self._stop = partial(_stop, heartbeats, fetcher, metadata)
        self._forgotten = stop_if_forgotten(
            self,
            f"ShareConsumer of group {config.group_id!r}",
            self._stop,
            is_running=lambda: heartbeats.is_started,
        )

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else self.health.value
        return f"<ShareConsumer of group {self._config.group_id!r}, topics {self._topics!r}: {state}>"

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
        while self._queue:
            first = self._queue[0]
            if not first.is_finished and self._fetcher.held.has(first.topic_partition):
                return first
            self._queue.popleft()  # done, or its session is over: others get these records
        self._answer_for_last_poll()
        self._heartbeats.start()
        deadline = deadline_after(timeout)
        while True:
            left_ms = deadline.capped_ms(self._config.fetch_max_wait_ms)
            self._fetch(left_ms)
            if self._queue:
                return self._queue[0]
            if deadline.passed:
                return None

    def _answer_for_last_poll(self) -> None:
        held = self._fetcher.held
        if self._config.is_explicit:
            missing = held.unanswered()
            if missing:
                raise ConfigError(
                    f"{missing} records of the last poll have no answer: accept, release, reject or renew "
                    "each of them before the next poll (share.acknowledgement.mode=explicit)"
                )
        else:
            held.answer_rest(Answer.ACCEPT)
        for partition, error in self._fetcher.acknowledge().items():
            log.warning("share group %r: %s: not acknowledged: %s", self._config.group_id, partition, error)

    def _fetch(self, wait_ms: float) -> None:
        assigned = self._heartbeats.assigned()
        if not assigned:
            self._heartbeats.wait_for_assignment(min(wait_ms / 1000, MAX_WAIT_S))
            assigned = self._heartbeats.assigned()
        if not assigned:
            return
        for chunk in self._fetcher.fetch(assigned, self._topics, wait_ms):
            self._queue.append(HeldChunk(chunk, self._maker(chunk.topic_partition)))

    def _maker(self, partition: TopicAndPartition) -> RowMaker:
        maker = self._makers.get(partition)
        if maker is None:
            maker = self._makers[partition] = RowMaker(*partition, *self._deserializers)
        return maker

    def _check_open(self) -> None:
        if self._is_closed:
            raise ConsumerClosed(
                f"group {self._config.group_id!r}: this consumer is closed; make another one"
            )

    # --- answers

    def accept(self, records: Acknowledgeable) -> None:
        """The records are processed: nobody gets them again. Sent with the next `poll` or `commit`.

        Raises ConfigError if this consumer does not hold them (any more).
        """
        self._answer(records, Answer.ACCEPT)

    def release(self, records: Acknowledgeable) -> None:
        """The records could not be processed now: they are delivered again, as long as the limit allows.

        Raises ConfigError if this consumer does not hold them (any more).
        """
        self._answer(records, Answer.RELEASE)

    def reject(self, records: Acknowledgeable) -> None:
        """The records cannot be processed at all: nobody gets them again.

        Raises ConfigError if this consumer does not hold them (any more).
        """
        self._answer(records, Answer.REJECT)

    def renew(self, records: Acknowledgeable) -> None:
        """The records take longer: their locks begin anew with the next `poll` or `commit`. Answer later.

        Raises ConfigError if this consumer does not hold them (any more).
        """
        self._answer(records, Answer.RENEW)

    def _answer(self, records: Acknowledgeable, answer: Answer) -> None:
        self._check_open()
        self._fetcher.held.answer(*_offsets(records), answer)

    def delivery_count(self, message: Message) -> int:
        """Return which delivery of a message this is, from 1 on. Raises ConfigError if it is not held."""
        partition, offsets = _offsets(message)
        return self._fetcher.held.delivery_count(partition, offsets[0])

    def commit(self) -> None:
        """Send all answers and wait until they are stored; with mode "implicit", accept all of the last poll.

        Raises KafkaError or ConnectionLost for the first partition that was refused: others get its records.
        """
        self._check_open()
        if not self._config.is_explicit:
            self._release_unread()
            self._fetcher.held.answer_rest(Answer.ACCEPT)
        for error in self._fetcher.acknowledge().values():
            raise error

    def _release_unread(self) -> None:
        """Release rows that were fetched and not handed out."""
        for chunk in self._queue:
            rest = chunk.take_rest()
            if rest is not None:
                self._fetcher.held.answer(*_offsets(rest), Answer.RELEASE)
        self._queue.clear()

    # --- the group

    @property
    def assignment(self) -> frozenset[TopicAndPartition]:
        """The partitions that this member reads; other members may read them too."""
        names = {topic.topic_id: topic.name for topic in self._metadata.view.topics.values()}
        assigned = self._heartbeats.assigned() or ()
        return frozenset(
            TopicAndPartition(names[topic_id], index) for topic_id, index in assigned if topic_id in names
        )

    @property
    def health(self) -> Health:
        """The health of the member."""
        if self._is_closed:
            return Health.CLOSED
        try:
            assigned = self._heartbeats.assigned()
        except OttlaError:
            return Health.FAILED
        return Health.JOINING if assigned is None else Health.STABLE

    def subscribe(self, topics: str | tuple[str, ...] | list[str]) -> None:
        """Read these topics instead of the present ones."""
        self._check_open()
        self._topics = _names(topics)
        self._heartbeats.subscribe(self._topics)

    def check_brokers(self, timeout: float | None = None) -> None:
        """Ask a broker to describe the cluster, and return when one has.

        Raises BrokerUnreachable or AuthenticationFailed: at once if every address fails, at the latest after
        `timeout` seconds (default: request.timeout.ms).
        """
        self._check_open()
        self._metadata.check_brokers(timeout)

    @property
    def network_error(self) -> OttlaError | None:
        """Why no broker gives a usable answer at present; None if one does, or none was asked."""
        return self._metadata.errors.problem()

    def close(self) -> None:
        """Send the answers, release what is left, leave the group. May be called twice.

        With mode "implicit", everything that was handed out is accepted.
        """
        if self._is_closed:
            return
        self._forgotten.detach()
        self._is_closed = True
        self._release_unread()
        if not self._config.is_explicit:
            self._fetcher.held.answer_rest(Answer.ACCEPT)
        self._stop()


def _names(topics: str | tuple[str, ...] | list[str]) -> tuple[str, ...]:
    names = (topics,) if isinstance(topics, str) else tuple(topics)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ConfigError(f"{topics!r:.100}: a share group reads topics by their names; give one or several")
    return tuple(sorted(set(names)))


def _offsets(records: Acknowledgeable) -> tuple[TopicAndPartition, list[int]]:
    if isinstance(records, FetchedDataChunk):
        return records.topic_partition, records.batch.column("offset").to_pylist()
    if isinstance(records, MessageAndMetadata):
        return TopicAndPartition(records.topic, records.partition), [records.offset]
    raise ConfigError(f"{type(records).__name__} is neither a message nor a chunk")


def _stop(heartbeats: Heartbeats, fetcher: ShareFetcher, metadata: ClusterMetadata) -> None:
    """Send what was answered, leave the group and end all threads."""
    with contextlib.ExitStack() as stack:
        stack.callback(metadata.close)
        stack.callback(heartbeats.stop)
        stack.callback(fetcher.close)
