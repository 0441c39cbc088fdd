"""What members of share groups have in common, whether threads or coroutines wait for records."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from ottla.client.conversation import Metadata
from ottla.consumer.reading.group_argument import group_settings
from ottla.consumer.reading.health import Health
from ottla.consumer.reading.held_chunks import HeldChunk
from ottla.consumer.share.held_records import Answer
from ottla.consumer.share.share_config import ShareConfig
from ottla.consumer.share.share_fetcher import ShareFetcher
from ottla.consumer.share.share_membership import ShareMembership
from ottla.fetching.chunk_queue import FetchedDataChunk
from ottla.model.errors import ConfigError, ConsumerClosed, OttlaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.messages import MessageAndMetadata
from ottla.records.rows import Deserializer, RowMaker

log = logging.getLogger(__name__)

MAX_WAIT_S = 1.0
"""The longest wait for an assignment before the application's time limit is looked at again."""

Message = MessageAndMetadata[Any, Any]
Acknowledgeable = Message | FetchedDataChunk
"""What can be answered for: a message, or all rows of a chunk."""
Topics = str | tuple[str, ...] | list[str]


def share_config(
    properties: Mapping[str, object] | None, group_id: str | None, settings: dict[str, object]
) -> ShareConfig:
    """Return the settings that a consumer's arguments say. Raises ConfigError."""
    return ShareConfig.from_properties(group_settings(properties, group_id, settings))


class BaseShareConsumer:
    """A member of a share group: its properties, and the methods that need not wait."""

    def __init__(
        self,
        config: ShareConfig,
        topics: Topics,
        deserializers: tuple[Deserializer | None, Deserializer | None],
    ) -> None:
        self._config = config
        self._topics = topic_names(topics)
        self._deserializers = deserializers
        self._makers: dict[TopicAndPartition, RowMaker] = {}
        self._queue: deque[HeldChunk] = deque()
        self._is_closed = False

    _membership: ShareMembership
    _fetcher: ShareFetcher
    _known: Metadata

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else self.health.value
        return f"<{type(self).__name__} of group {self._config.group_id!r}, topics {self._topics!r}: {state}>"

    # --- what was fetched

    def _first(self) -> HeldChunk | None:
        """Return the next fetched chunk with rows left; None if there is none."""
        while self._queue:
            first = self._queue[0]
            if not first.is_finished and self._fetcher.held.has(first.topic_partition):
                return first
            self._queue.popleft()  # finished, or its session is over: other members get these records
        return None

    def _enqueue(self, chunks: Iterable[FetchedDataChunk]) -> None:
        for chunk in chunks:
            partition = chunk.topic_partition
            maker = self._makers.get(partition)
            if maker is None:
                maker = self._makers[partition] = RowMaker(*partition, *self._deserializers)
            self._queue.append(HeldChunk(chunk, maker))

    def _answer_for_last_poll(self) -> None:
        """Accept the records that have no answer.

        Raises ConfigError if the application has to answer for them.
        """
        held = self._fetcher.held
        if not self._config.is_explicit:
            held.answer_rest(Answer.ACCEPT)
            return
        missing = held.unanswered()
        if missing:
            raise ConfigError(
                f"{missing} records of the last poll have no answer: accept, release, reject or renew "
                "each of them before the next poll (share.acknowledgement.mode=explicit)"
            )

    def _log_refused(self, errors: Mapping[TopicAndPartition, OttlaError]) -> None:
        for partition, error in errors.items():
            log.warning("share group %r: %s: not acknowledged: %s", self._config.group_id, partition, error)

    def _answer_for_all(self) -> None:
        """Release rows that were fetched and not handed out; with mode "implicit", accept the rest."""
        if not self._config.is_explicit or self._is_closed:
            for chunk in self._queue:
                rest = chunk.take_rest()
                if rest is not None:
                    self._fetcher.held.answer(*_offsets(rest), Answer.RELEASE)
            self._queue.clear()
        if not self._config.is_explicit:
            self._fetcher.held.answer_rest(Answer.ACCEPT)

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

    # --- the group

    @property
    def assignment(self) -> frozenset[TopicAndPartition]:
        """The partitions that this member reads; other members may read them too."""
        names = {topic.topic_id: topic.name for topic in self._known.view.topics.values()}
        assigned = self._membership.assigned() or ()
        return frozenset(
            TopicAndPartition(names[topic_id], index) for topic_id, index in assigned if topic_id in names
        )

    @property
    def health(self) -> Health:
        """The health of the member."""
        if self._is_closed:
            return Health.CLOSED
        try:
            assigned = self._membership.assigned()
        except OttlaError:
            return Health.FAILED
        return Health.JOINING if assigned is None else Health.STABLE

    def subscribe(self, topics: Topics) -> None:
        """Read these topics instead of the present ones."""
        self._check_open()
        self._topics = topic_names(topics)
        self._membership.subscribe(self._topics)

    @property
    def network_error(self) -> OttlaError | None:
        """Why no broker gives a usable answer at present; None if one does, or none was asked."""
        return self._known.errors.problem()


def topic_names(topics: Topics) -> tuple[str, ...]:
    """The names, sorted. Raises ConfigError."""
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
