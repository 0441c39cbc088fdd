"""The calls of a transactional producer to its coordinators: that of its transactional.id, and of groups.

Every call is repeated until it is answered or its time is over; `ottla.client.reactions` says what is
repeated. A call that cannot be repeated raises TransactionAborted or ProducerFenced.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from ottla.client.clock import Clock, Deadline
from ottla.client.conversation import Peer, Tries
from ottla.client.coordinators import CoordinatorKind
from ottla.client.peer_pool import PeerPool
from ottla.client.reactions import Action, Call, action_about
from ottla.client.retry import Backoff
from ottla.model.committed_positions import GroupMetadata, OffsetAndMetadata
from ottla.model.error_codes import Code
from ottla.model.errors import (
    KafkaError,
    OttlaError,
    ProducerFenced,
    RemoteProtocolError,
    TransactionAborted,
    Unsupported,
)
from ottla.model.topic_partition import TopicAndPartition, by_topic
from ottla.producer.producer_config import ProducerConfig
from ottla.producer.sequences import Identity
from ottla.producer.transaction_state import TopicPartition
from ottla.wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.api.add_partitions_to_txn import AddPartitionsTopic, AddPartitionsToTxnRequest
from ottla.wire.api.end_txn import EndTxnRequest
from ottla.wire.api.init_producer_id import InitProducerIdRequest
from ottla.wire.api.txn_offset_commit import (
    TxnOffsetCommitPartition,
    TxnOffsetCommitRequest,
    TxnOffsetCommitTopic,
)

T = TypeVar("T")

Offsets = Mapping[TopicAndPartition, OffsetAndMetadata]

FEATURE = "transaction.version"
IMPLICIT_SINCE = 2  # of the feature: brokers add partitions and groups to the transaction themselves

INIT_VERSION_MAX = 5  # the next is not stable in Kafka
EPOCH_SINCE = 3  # of InitProducerId: a producer can ask for its next epoch
CLIENT_ADDS_MAX = 3  # of AddPartitionsToTxn: later ones are for brokers
END_VERSION_MAX, IMPLICIT_END_VERSION = 4, 5
OFFSETS_VERSION_MAX, IMPLICIT_OFFSETS_VERSION = 4, 5  # later ones name topics by ids

FIRST_PAUSE_MS = 20.0
"""Short: after each transaction the next one is often refused for a moment, while its markers are written."""
REGISTRATION_MS = 1_000.0
"""How long one `add_partitions` tries. Its caller has other things to do, and calls again."""


class TransactionLink:
    """The calls, for threads and asyncio, one at a time. A caller that needs several in a row holds `lock`.

    `transactional_id` and `is_implicit` are those of the transaction that calls are about.
    """

    def __init__(
        self, config: ProducerConfig, peers: PeerPool[Any], clock: Clock, chance: random.Random
    ) -> None:
        self.waits = peers.waits
        self.lock = self.waits.lock()
        self.is_implicit = False  # whether the next transaction uses the newer protocol
        self.wants_epoch = False  # it is the first one that does, and needs an epoch of its own
        self._config = config
        self.transactional_id = config.transactional_id or ""
        self._clock = clock
        self._chance = chance
        self._peers = peers
        client = config.client
        self._backoff = Backoff(min(FIRST_PAUSE_MS, client.retry_backoff_ms), client.retry_backoff_max_ms)

    def deadline(self, limit_ms: float | None = None) -> Deadline:
        """Return the time limit of a call that begins now: max.block.ms, or less."""
        longest = self._config.max_block_ms
        return Deadline(self._clock, longest if limit_ms is None else min(longest, limit_ms))

    # ---- the transaction coordinator

    async def init(self, current: Identity | None, deadline: Deadline) -> Identity:
        """Return the id and epoch of the next transaction.

        An open one of the same transactional.id is aborted.

        With `current` only if nobody else has got a newer epoch; otherwise everybody else is fenced. Raises
        ProducerFenced, KafkaError, Unsupported, and what connections raise.
        """

        async def ask(connection: Peer) -> Identity:
            version = connection.version_for(InitProducerIdRequest.API, at_most=INIT_VERSION_MAX)
            request = InitProducerIdRequest(
                transactional_id=self.transactional_id,
                transaction_timeout_ms=self._config.transaction_timeout_ms,
            )
            if current is not None:
                if version < EPOCH_SINCE:
                    raise Unsupported(
                        "after records of a transaction have failed, the producer needs another epoch, which"
                        " brokers before Kafka 2.5 cannot give: close it, and make another one"
                    )
                request.producer_id, request.producer_epoch = current
            answer = await connection.call(request, version=version)
            self._check(answer.error_code, f"transaction.timeout.ms={self._config.transaction_timeout_ms}")
            self._learn(connection)
            self.wants_epoch = False
            return Identity(answer.producer_id, answer.producer_epoch)

        return await self._settled(ask, deadline)

    async def add_partitions(self, identity: Identity, partitions: Sequence[TopicPartition]) -> None:
        """Tell the coordinator which partitions will be written. The caller holds `lock`. Raises as `end`."""

        async def ask(connection: Peer) -> None:
            topics = by_topic(TopicAndPartition(*each) for each in partitions)
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=identity.producer_id,
                v3_and_below_producer_epoch=identity.epoch,
                v3_and_below_topics=[
                    AddPartitionsTopic(name=name, partitions=numbers) for name, numbers in topics.items()
                ],
            )
            answer = await connection.call(request, at_most=CLIENT_ADDS_MAX)
            self._check_all(
                {
                    f"{topic.name}-{result.partition_index}": result.partition_error_code
                    for topic in answer.results_by_topic_v3_and_below
                    for result in topic.results_by_partition
                }
            )

        await self._settled(self._ending(ask), self.deadline(REGISTRATION_MS), is_locked=True)

    async def end(self, identity: Identity, deadline: Deadline, *, is_commit: bool) -> Identity | None:
        """Commit or abort; returns the identity of the next transaction, None if it stays the same.

        Raises TransactionAborted, ProducerFenced; anything else means that the outcome is not known.
        """
        is_implicit = self.is_implicit

        async def ask(connection: Peer) -> Identity | None:
            request = EndTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
                committed=is_commit,
            )
            newest = IMPLICIT_END_VERSION if is_implicit else END_VERSION_MAX
            answer = await connection.call(request, at_most=newest)
            self._check(answer.error_code, "commit" if is_commit else "abort")
            self._learn(connection)
            self.wants_epoch = self.is_implicit and not is_implicit
            return Identity(answer.producer_id, answer.producer_epoch) if is_implicit else None

        return await self._settled(self._ending(ask), deadline)

    def _learn(self, connection: Peer) -> None:
        """Learn which protocol the next transaction uses: that of the whole cluster, which may be
        upgraded.
        """
        self.is_implicit = connection.versions.features.get(FEATURE, 0) >= IMPLICIT_SINCE

    # ---- groups

    async def commit_offsets(
        self, identity: Identity, group: GroupMetadata, offsets: Offsets, deadline: Deadline
    ) -> None:
        """Store positions of a group that count when the transaction is committed. Raises as `end`."""
        left = dict(offsets)

        async def add(connection: Peer) -> None:
            request = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
                group_id=group.group_id,
            )
            self._check((await connection.call(request)).error_code, f"group {group.group_id!r}")

        async def ask(connection: Peer) -> None:
            newest = IMPLICIT_OFFSETS_VERSION if self.is_implicit else OFFSETS_VERSION_MAX
            answer = await connection.call(self._offsets_request(identity, group, left), at_most=newest)
            codes = {
                TopicAndPartition(topic.name, partition.partition_index): partition.error_code
                for topic in answer.topics
                for partition in topic.partitions
            }
            for topic_partition in [each for each in left if codes.get(each) == 0]:
                del left[topic_partition]
            self._check_all({f"group {group.group_id!r}, {each}": code for each, code in codes.items()})
            if left:
                raise RemoteProtocolError(f"the TxnOffsetCommit response lacks {', '.join(map(str, left))}")

        if not self.is_implicit:
            await self._settled(self._ending(add), deadline)
        await self._settled(self._ending(ask), deadline, group.group_id, CoordinatorKind.GROUP)

    def _offsets_request(
        self, identity: Identity, group: GroupMetadata, offsets: Offsets
    ) -> TxnOffsetCommitRequest:
        return TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group.group_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            generation_id_or_member_epoch=group.generation,
            member_id=group.member_id,
            group_instance_id=group.instance_id,
            topics=[
                TxnOffsetCommitTopic(
                    name=topic,
                    partitions=[
                        _position(number, offsets[TopicAndPartition(topic, number)]) for number in numbers
                    ],
                )
                for topic, numbers in by_topic(offsets).items()
            ],
        )

    # ---- asking

    async def _settled(
        self,
        ask: Callable[[Peer], Awaitable[T]],
        deadline: Deadline,
        key: str = "",
        kind: CoordinatorKind = CoordinatorKind.TRANSACTION,
        *,
        is_locked: bool = False,
    ) -> T:
        """Return the answer of a coordinator; asks again until the deadline."""
        key = key or self.transactional_id
        failure: OttlaError | None = None
        tries = Tries(self._backoff, deadline, self._chance, self.waits)
        while await tries.next():
            try:
                async with contextlib.nullcontext() if is_locked else self.lock:
                    return await ask(await self._peers.to_coordinator(key, deadline, kind=kind))
            except OttlaError as error:
                action = action_about(error, Call.TRANSACTION)
                if action is Action.FENCED:
                    raise ProducerFenced(self._why_fenced(error)) from error
                if action is Action.FAIL or self.waits.is_over:
                    raise
                if action is not Action.RETRY:
                    self._peers.forget_coordinator(key, kind=kind)
                failure = error
        assert failure is not None
        raise failure

    def _why_fenced(self, error: OttlaError) -> str:
        return (
            f"this producer is not that of transactional.id {self.transactional_id!r} any more: a newer one"
            f" has started, or a transaction took longer than transaction.timeout.ms="
            f"{self._config.transaction_timeout_ms}, and was aborted. Close it ({error})"
        )

    def _why_aborted(self, error: KafkaError) -> str:
        if error.code != Code.INVALID_TXN_STATE:
            return f"the transaction cannot go on: {error}"
        return (
            f"the coordinator has no such transaction: it was aborted, as one that took longer than "
            f"transaction.timeout.ms={self._config.transaction_timeout_ms} ({error})"
        )

    def _ending(self, ask: Callable[[Peer], Awaitable[T]]) -> Callable[[Peer], Awaitable[T]]:
        """Wrap a call whose final refusal ends the transaction."""

        async def ask_or_end(connection: Peer) -> T:
            try:
                return await ask(connection)
            except KafkaError as error:
                if action_about(error, Call.TRANSACTION) is Action.FAIL:
                    raise TransactionAborted(self._why_aborted(error)) from error
                raise

        return ask_or_end

    def _check(self, code: int, what: str) -> None:
        if code:
            raise KafkaError(code, f"transactional.id {self.transactional_id!r}, {what}")

    def _check_all(self, codes: Mapping[str, int]) -> None:
        """Raise the worst error: one that ends the transaction before one that passes."""
        errors = [
            KafkaError(code, f"transactional.id {self.transactional_id!r}, {name}")
            for name, code in codes.items()
            if code
        ]
        if errors:
            raise min(errors, key=lambda error: _SEVERITY.get(action_about(error, Call.TRANSACTION), 2))

    async def close(self) -> None:
        """Close the connections, after the call that is under way. May be called twice."""
        async with self.lock:
            await self._peers.close()


_SEVERITY = {Action.FENCED: 0, Action.FAIL: 1}


def _position(partition: int, position: OffsetAndMetadata) -> TxnOffsetCommitPartition:
    return TxnOffsetCommitPartition(
        partition_index=partition,
        committed_offset=position.offset,
        committed_leader_epoch=position.leader_epoch,
        committed_metadata=position.metadata,
    )
