"""Fetches and acknowledgements of a ShareConsumer: a session with each broker that leads assigned partitions.

Belongs to the thread or the task that polls: its calls are conversations. A session that a broker has dropped
begins again; the records that it held are lost then, since the broker gives them to other members.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.client.clock import MONOTONIC, Deadline
from ottla.client.conversation import Metadata, Peer
from ottla.client.peer_pool import PeerPool
from ottla.client.reactions import Action, Call, action_for
from ottla.consumer.share.held_records import HeldRecords
from ottla.consumer.share.share_config import ShareConfig
from ottla.fetching.chunk_queue import FetchedDataChunk
from ottla.model.error_codes import Code
from ottla.model.errors import ConnectionLost, KafkaError, OttlaError, RequestTimedOut
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.reader import decode
from ottla.wire.api.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from ottla.wire.api.share_fetch import (
    AcquiredRecords,
    ForgottenShareTopic,
    ShareFetchPartition,
    ShareFetchPartitionResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchTopic,
)

log = logging.getLogger(__name__)

LAST_EPOCH = -1
EPOCH_MAX = 2**31 - 1
GRACE_MS = 30_000.0
"""How long an answer may take beyond the time that a fetch may wait."""

_SESSION_ERRORS = frozenset(
    {Code.SHARE_SESSION_NOT_FOUND, Code.INVALID_SHARE_SESSION_EPOCH, Code.SHARE_SESSION_LIMIT_REACHED}
)
TopicIdPartition = tuple[bytes, int]


@dataclass(slots=True)
class BrokerSession:
    """A session with a broker: its next epoch, its partitions, and its connection.

    The session ends with the connection.
    """

    connection: Peer
    epoch: int = 0
    partitions: set[TopicIdPartition] = field(default_factory=set)

    def next(self) -> None:
        """A request was answered."""
        self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1


class ShareFetcher:
    """Fetches into `held`. Errors of acknowledgements are returned by partition."""

    def __init__(self, config: ShareConfig, metadata: Metadata, peers: PeerPool[Any], member_id: str) -> None:
        self.held = HeldRecords()
        self._config = config
        self._metadata = metadata
        self._member_id = member_id
        self._peers = peers
        self._sessions: dict[int, BrokerSession] = {}
        self._owners: dict[TopicAndPartition, int] = {}  # the broker that each held partition came from
        self._names: dict[bytes, str] = {}

    # --- fetching

    async def fetch(
        self, assigned: frozenset[TopicIdPartition], topics: Iterable[str], wait_ms: float
    ) -> list[FetchedDataChunk]:
        """Fetch once from each leader of assigned partitions.

        The last broker waits up to `wait_ms` for records if the others had none.
        """
        try:
            by_broker = await self._leaders(assigned, topics)
        except (ConnectionLost, RequestTimedOut) as error:
            await self._wait_for_brokers(error, wait_ms)
            return []
        for broker_id in [known for known in self._sessions if known not in by_broker]:
            await self._fetch_from(broker_id, set(), 0.0)
        if not by_broker:
            await self._pause(wait_ms)
            return []
        chunks: list[FetchedDataChunk] = []
        for number, (broker_id, partitions) in enumerate(sorted(by_broker.items())):
            is_last = number == len(by_broker) - 1
            patience_ms = wait_ms if is_last and not chunks else 0.0
            chunks += await self._fetch_from(broker_id, partitions, patience_ms)
        return chunks

    async def _leaders(
        self, assigned: frozenset[TopicIdPartition], topics: Iterable[str]
    ) -> dict[int, set[TopicIdPartition]]:
        view = self._metadata.view
        if any(topic_id not in self._names for topic_id, _ in assigned):
            view = await self._metadata.refresh(topics, reason="topics were assigned")
        self._names |= {topic.topic_id: topic.name for topic in view.topics.values()}
        by_broker: dict[int, set[TopicIdPartition]] = {}
        for topic_id, index in assigned:
            topic = view.topics.get(self._names.get(topic_id, ""))
            partition = topic.partition(index) if topic is not None else None
            if partition is not None and partition.leader in view.brokers:
                by_broker.setdefault(partition.leader, set()).add((topic_id, index))
        if len(by_broker) == 0 and assigned:
            await self._metadata.refresh(topics, reason="assigned partitions have no leader")
        return by_broker

    async def _fetch_from(
        self, broker_id: int, partitions: set[TopicIdPartition], wait_ms: float
    ) -> list[FetchedDataChunk]:
        try:
            session = await self._session(broker_id)
            request = self._request(session, partitions, wait_ms)
            answer = await session.connection.call(request, timeout_ms=wait_ms + GRACE_MS)
        except ConnectionLost as error:
            await self._end(broker_id, error)
            await self._look_again(f"broker {broker_id} is lost", wait_ms)
            return []
        code = Code.of(answer.error_code)
        if code in _SESSION_ERRORS:
            await self._end(broker_id, KafkaError(code))
            return []
        if code:
            raise KafkaError(code, f"broker {broker_id}")
        session.next()
        session.partitions = partitions
        return await self._chunks(broker_id, answer)

    async def _look_again(self, reason: str, wait_ms: float) -> None:
        try:
            await self._metadata.refresh(reason=reason)
        except (ConnectionLost, RequestTimedOut) as error:
            await self._wait_for_brokers(error, wait_ms)

    async def _wait_for_brokers(self, error: OttlaError, wait_ms: float) -> None:
        """Wait after an error. `network_error` has the cause, and the next fetch tries again."""
        log.debug("share group %r: %s", self._config.group_id, error)
        await self._pause(wait_ms)

    async def _pause(self, wait_ms: float) -> None:
        await self._peers.waits.pause(min(wait_ms, self._config.client.retry_backoff_ms))

    async def _session(self, broker_id: int) -> BrokerSession:
        session = self._sessions.get(broker_id)
        if session is not None and not session.connection.is_usable():
            await self._end(broker_id, ConnectionLost(f"broker {broker_id} has closed the connection"))
            session = None
        if session is None:
            session = self._sessions[broker_id] = BrokerSession(await self._peers.to(broker_id))
        return session

    def _request(
        self, session: BrokerSession, partitions: set[TopicIdPartition], wait_ms: float
    ) -> ShareFetchRequest:
        config = self._config
        added, removed = partitions - session.partitions, session.partitions - partitions
        return ShareFetchRequest(
            group_id=config.group_id,
            member_id=self._member_id,
            share_session_epoch=session.epoch,
            max_wait_ms=int(wait_ms),
            min_bytes=1,
            max_bytes=config.fetch_max_bytes,
            max_records=config.max_poll_records,
            batch_size=config.max_poll_records,
            share_acquire_mode=int(config.is_strict),
            topics=[
                ShareFetchTopic(
                    topic_id=topic_id,
                    partitions=[ShareFetchPartition(partition_index=index) for index in indexes],
                )
                for topic_id, indexes in _by_topic(added)
            ],
            forgotten_topics_data=[
                ForgottenShareTopic(topic_id=topic_id, partitions=indexes)
                for topic_id, indexes in _by_topic(removed)
            ],
        )

    async def _end(self, broker_id: int, error: OttlaError) -> None:
        """End a session: the records that it held are lost."""
        self._sessions.pop(broker_id, None)
        await self._peers.drop(broker_id)
        lost = [item for item, owner in self._owners.items() if owner == broker_id]
        self.held.lose(lost)
        for item in lost:
            del self._owners[item]
        text = "share group %r: the session with broker %d is over: %s"
        log.warning(text, self._config.group_id, broker_id, error)

    # --- answers

    async def _chunks(self, broker_id: int, answer: ShareFetchResponse) -> list[FetchedDataChunk]:
        is_moved = False
        chunks: list[FetchedDataChunk] = []
        for topic in answer.responses:
            for item in topic.partitions:
                partition = TopicAndPartition(self._names.get(topic.topic_id, ""), item.partition_index)
                code = Code.of(item.error_code)
                if code:
                    is_moved |= action_for(code, Call.FETCH) is not Action.RETRY
                    text = "share group %r: %s: %s"
                    log.warning(text, self._config.group_id, partition, item.error_message or code.text)
                if item.acquired_records:
                    self._owners[partition] = broker_id
                    chunk = await self._chunk(partition, item)
                    if chunk is not None:
                        chunks.append(chunk)
        if is_moved:
            await self._look_again("a share fetch was refused", 0.0)
        return chunks

    async def _chunk(
        self, partition: TopicAndPartition, item: ShareFetchPartitionResponse
    ) -> FetchedDataChunk | None:
        acquired = item.acquired_records
        records = item.records or b""
        decoding = partial(
            decode,
            records,
            from_offset=acquired[0].first_offset,
            verify_crc=self._config.check_crcs,
            headers=self._config.include_headers,
        )
        decoded = await self._peers.waits.computed(decoding, len(records))
        batch = _acquired_rows(decoded.batch, acquired)
        self.held.take(partition, acquired, batch.column("offset").to_pylist())
        if not batch.num_rows:
            return None
        first, last = acquired[0].first_offset, acquired[-1].last_offset
        return FetchedDataChunk(partition, batch, first, last + 1, -1, batch.nbytes)

    # --- acknowledgements

    async def acknowledge(self) -> dict[TopicAndPartition, OttlaError]:
        """Send all answers, and return the errors by partition.

        Records of failed partitions are not held any more.
        """
        errors: dict[TopicAndPartition, OttlaError] = {}
        due = self.held.due()
        for broker_id in {self._owners[item] for item in due if item in self._owners}:
            mine = [item for item in due if self._owners.get(item) == broker_id]
            errors |= await self._acknowledge(broker_id, mine, is_last=False)
        return errors

    async def _acknowledge(
        self, broker_id: int, partitions: list[TopicAndPartition], *, is_last: bool
    ) -> dict[TopicAndPartition, OttlaError]:
        session = self._sessions.get(broker_id)
        if session is None:
            error = KafkaError(Code.SHARE_SESSION_NOT_FOUND, f"broker {broker_id}")
            return dict.fromkeys(partitions, error)
        epoch = LAST_EPOCH if is_last else session.epoch
        try:
            request = self._acknowledgement(epoch, partitions)
            answer = await session.connection.call(request, timeout_ms=GRACE_MS)
        except ConnectionLost as lost:
            await self._end(broker_id, lost)
            return dict.fromkeys(partitions, lost)
        code = Code.of(answer.error_code)
        if code:
            whole = KafkaError(code, f"broker {broker_id}")
            await self._end(broker_id, whole)
            return dict.fromkeys(partitions, whole)
        session.next()
        for partition in partitions:
            self.held.sent(partition)
        refused = {
            TopicAndPartition(self._names.get(topic.topic_id, ""), item.partition_index): item.error_code
            for topic in answer.responses
            for item in topic.partitions
            if item.error_code
        }
        return {partition: _refusal(error, partition) for partition, error in refused.items()}

    def _acknowledgement(self, epoch: int, partitions: list[TopicAndPartition]) -> ShareAcknowledgeRequest:
        ids = {name: topic_id for topic_id, name in self._names.items()}
        by_topic: dict[bytes, list[AcknowledgePartition]] = {}
        for partition in partitions:
            said = AcknowledgePartition(
                partition_index=partition.partition, acknowledgement_batches=self.held.batches(partition)
            )
            by_topic.setdefault(ids[partition.topic], []).append(said)
        return ShareAcknowledgeRequest(
            group_id=self._config.group_id,
            member_id=self._member_id,
            share_session_epoch=epoch,
            is_renew_ack=self.held.has_renewals(partitions),
            topics=[AcknowledgeTopic(topic_id=item, partitions=said) for item, said in by_topic.items()],
        )

    async def close(self) -> None:
        """Send the answers that are left, end the sessions, and close the connections."""
        try:
            for broker_id in list(self._sessions):
                if self._sessions[broker_id].epoch > 0:
                    mine = [item for item in self.held.due() if self._owners.get(item) == broker_id]
                    await self._acknowledge(broker_id, mine, is_last=True)
        finally:
            self._sessions.clear()
            await self._peers.close()


def _acquired_rows(batch: pa.RecordBatch, acquired: list[AcquiredRecords]) -> pa.RecordBatch:
    """Return the rows that this member acquired: a fetch sends whole batches.

    The last column counts deliveries.
    """
    offsets = batch.column("offset").to_numpy()
    firsts = np.array([item.first_offset for item in acquired])
    lasts = np.array([item.last_offset for item in acquired])
    counts = np.array([item.delivery_count for item in acquired], np.int16)
    at = np.clip(np.searchsorted(firsts, offsets, "right") - 1, 0, None)
    mine = (offsets >= firsts[at]) & (offsets <= lasts[at])
    columns = batch.append_column("delivery_count", pa.array(counts[at]))
    return columns if mine.all() else columns.filter(pa.array(mine))


def _refusal(code: int, partition: TopicAndPartition) -> KafkaError:
    if code != Code.INVALID_RECORD_STATE:
        return KafkaError(code, str(partition))
    return KafkaError(
        code,
        f"{partition}: this member lost the locks of its records before it answered for them; others get "
        "them: poll fewer (max.poll.records), renew them, or raise share.record.lock.duration.ms",
    )


def _by_topic(partitions: Iterable[TopicIdPartition]) -> list[tuple[bytes, list[int]]]:
    topics: dict[bytes, list[int]] = {}
    for topic_id, index in sorted(partitions):
        topics.setdefault(topic_id, []).append(index)
    return list(topics.items())


def deadline_after(timeout: float | None) -> Deadline:
    """Return a deadline `timeout` seconds from now; None is never."""
    return Deadline(MONOTONIC, None if timeout is None else timeout * 1000)
