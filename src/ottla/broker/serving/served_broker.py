"""The parts of a broker that handlers may use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ottla.broker.groups.group_service import GroupService
from ottla.broker.security.scram_users import ScramUsers
from ottla.broker.serving.client_quotas import ClientQuotas
from ottla.broker.serving.fetch_sessions import FetchSessions
from ottla.broker.storage.appending import Appender
from ottla.broker.storage.leaders import Leaders
from ottla.broker.storage.memory import MemoryBudget
from ottla.broker.storage.open_transactions import OpenTransactions
from ottla.broker.storage.runtime import Runtime
from ottla.broker.storage.setting_changes import SettingChanges
from ottla.broker.storage.topic_changes import TopicChanges
from ottla.broker.storage.topic_store import TopicStore
from ottla.broker.transactions.transaction_service import TransactionService
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.wire.server_connection import ServedApis

if TYPE_CHECKING:
    from ottla.broker.security.authorizer import Authorizer
    from ottla.broker.share_groups.share_service import ShareGroupService
    from ottla.wire.api.offset_commit import OffsetCommitRequest, OffsetCommitResponse
    from ottla.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchResponse


class OffsetsInZooKeeper(Protocol):
    """OffsetCommit and OffsetFetch of version 0. Both reply later, on the loop."""

    def commit(self, request: OffsetCommitRequest, reply: Callable[[OffsetCommitResponse], None]) -> None:
        """Store offsets in ZooKeeper."""

    def fetch(self, request: OffsetFetchRequest, reply: Callable[[OffsetFetchResponse], None]) -> None:
        """Read offsets from ZooKeeper."""


@dataclass(slots=True)
class ServedBroker:
    """One broker of the process, as its handlers see it. Owned by the loop.

    runtime     the event loop, its threads, the clock and the turn
    store       looking up topics, partitions and the settings in force
    leaders     which brokers are up, where they listen, who leads what
    topics      creating, changing and deleting topics
    settings    what the config APIs describe and change
    appender    appending record sets to partitions that this broker leads
    groups      the groups that this broker coordinates
    memory      what clients can make the process hold
    served      the API versions that clients may use
    transactions  asked before a transaction begins to write in a partition
    coordinated  the transactional ids that this broker coordinates
    scram_users  who may log in by SCRAM
    sessions    what clients that fetch again and again have asked for
    quotas      what clients have used, and how long they have to wait
    authorizer  who may do what; None: everybody may do everything
    """

    broker_id: int
    runtime: Runtime
    store: TopicStore
    leaders: Leaders
    topics: TopicChanges
    settings: SettingChanges
    appender: Appender
    groups: GroupService
    memory: MemoryBudget
    served: ServedApis
    transactions: OpenTransactions
    coordinated: TransactionService
    scram_users: ScramUsers
    load_shares: Callable[[], ShareGroupService]
    sessions: FetchSessions
    quotas: ClientQuotas
    authorizer: Authorizer | None
    zookeeper_offsets: OffsetsInZooKeeper | None = None

    @property
    def shares(self) -> ShareGroupService:
        """The share groups of the process, loaded by the first use."""
        return self.load_shares()

    def offsets_of_version_0(self) -> OffsetsInZooKeeper:
        """Return where offsets of version 0 are kept. Raises KafkaError 15 until that is registered."""
        if self.zookeeper_offsets is None:
            raise KafkaError(Code.COORDINATOR_NOT_AVAILABLE, "not registered in ZooKeeper yet")
        return self.zookeeper_offsets
