"""The connections of a connector: ZooKeeper, brokers, the offset store. Created at their first use."""

from __future__ import annotations

import threading
from contextlib import suppress

from ottla.client.client_config import ClientConfig
from ottla.client.metadata import ClusterMetadata
from ottla.client.offset_lookup import OffsetLookup
from ottla.client.zookeeper_metadata import ZooKeeperMetadata
from ottla.consumer.classic.classic_config import ClassicConfig, OffsetsStorage
from ottla.consumer.classic.identity import ConsumerIdString
from ottla.fetching.engine import FetchEngine
from ottla.model.address import Address
from ottla.model.errors import BrokerUnreachable, OttlaError
from ottla.offsets import DualOffsets, KafkaOffsets, OffsetStore, ZooKeeperOffsets
from ottla.zookeeper.kazoo_session import KazooZooKeeperSession


class Connections:
    """Thread-safe. The session does not connect by itself."""

    def __init__(self, config: ClassicConfig, consumer_id: ConsumerIdString) -> None:
        self.session = KazooZooKeeperSession(config.zookeeper)
        self._config = config
        self._consumer_id = consumer_id
        self._lock = threading.RLock()  # guards the next six
        self._client: ClientConfig | None = None
        self._metadata: ClusterMetadata | None = None
        self._engine: FetchEngine | None = None
        self._store: OffsetStore | None = None
        self._hasty_store: OffsetStore | None = None
        self._lookup: OffsetLookup | None = None

    def engine(self) -> FetchEngine:
        """Return the engine that reads from brokers."""
        with self._lock:
            if self._engine is None:
                metadata = self._shared_metadata()
                self._engine = FetchEngine(
                    self._client_config(), self._config.fetch, metadata, name=self._consumer_id
                )
            return self._engine

    def store(self, *, retries: bool = True) -> OffsetStore:
        """Return the store of the group's offsets. `retries=False` sends each request to Kafka only once."""
        with self._lock:
            if not retries and self._config.offsets_storage is OffsetsStorage.KAFKA:
                self._hasty_store = self._hasty_store or self._new_store(timeout_ms=0)
                return self._hasty_store
            self._store = self._store or self._new_store(timeout_ms=self._config.commit_timeout_ms)
            return self._store

    def lookup(self) -> OffsetLookup:
        """Return the object that asks leaders for offsets by time."""
        with self._lock:
            if self._lookup is None:
                isolation_level = self._config.fetch.isolation_level
                self._lookup = OffsetLookup(self._client_config(), self._shared_metadata(), isolation_level)
            return self._lookup

    def partitions(self, topics: tuple[str, ...] | None) -> dict[str, tuple[int, ...]]:
        """Ask brokers for the partitions of these topics, or of all. Topics that do not exist are missing."""
        metadata = self._shared_metadata()
        if topics is None:
            view = metadata.refresh_all(reason="the group's filters")
            names = tuple(view.topics)
        else:
            view, names = metadata.refresh(topics, reason="the group's partitions"), topics
        return {
            name: tuple(sorted(partition.index for partition in view.topics[name].partitions))
            for name in names
            if name in view.topics
        }

    def check_brokers(self, timeout: float | None) -> None:
        """Ask a broker to describe the cluster; raises as `ClusterMetadata.refresh`."""
        self._shared_metadata().check_brokers(timeout)

    @property
    def network_error(self) -> OttlaError | None:
        """Why no broker gives a usable answer at present; None if one does, or none was asked."""
        return self._metadata.errors.problem() if self._metadata is not None else None

    def find_brokers(self) -> None:
        """Read the brokers' addresses from ZooKeeper again: all known addresses may be outdated."""
        if self._config.bootstrap or self._metadata is None:
            return
        with suppress(BrokerUnreachable):
            self._metadata.bootstrap_at(self._registered_brokers())

    def close(self) -> None:
        """Close everything, the session last: its end shows others that we are gone. May be called twice."""
        with self._lock:
            engine, metadata = self._engine, self._metadata
            users = self._lookup, self._store, self._hasty_store
        if metadata is not None:
            metadata.interrupt()
        for connection in (engine, *users, metadata, self.session):
            if connection is not None:
                connection.close()

    def _client_config(self) -> ClientConfig:
        if self._client is None:
            self._client = self._config.client(self._config.bootstrap or self._registered_brokers())
        return self._client

    def _registered_brokers(self) -> tuple[Address, ...]:
        return ZooKeeperMetadata(self.session, protocol=self._config.protocol).bootstrap()

    def _shared_metadata(self) -> ClusterMetadata:
        with self._lock:
            if self._metadata is None:
                self._metadata = ClusterMetadata(self._client_config())
            return self._metadata

    def _new_store(self, *, timeout_ms: float) -> OffsetStore:
        zookeeper = ZooKeeperOffsets(self.session)
        if self._config.offsets_storage is OffsetsStorage.ZOOKEEPER:
            return zookeeper
        kafka = KafkaOffsets(self._client_config(), self._shared_metadata(), timeout=timeout_ms / 1000)
        return DualOffsets(kafka, zookeeper) if self._config.dual_commit else kafka
