"""What a connector is connected to: ZooKeeper, brokers, where offsets are kept. Made at the first need."""

from __future__ import annotations

import threading
from contextlib import suppress

from ottla.classic.config import ClassicConfig, OffsetsStorage
from ottla.classic.identity import ConsumerIdString
from ottla.client.config import ClientConfig
from ottla.client.metadata import ClusterMetadata
from ottla.client.zookeeper_metadata import ZooKeeperMetadata
from ottla.fetching import FetchEngine
from ottla.model.address import Address
from ottla.model.errors import BrokerUnreachable
from ottla.offsets import DualOffsets, KafkaOffsets, OffsetStore, ZooKeeperOffsets
from ottla.zookeeper.kazoo_session import KazooZooKeeperSession


class Connections:
    """Thread-safe. The session is made without connecting."""

    def __init__(self, config: ClassicConfig, consumer_id: ConsumerIdString) -> None:
        self.session = KazooZooKeeperSession(config.zookeeper)
        self._config = config
        self._consumer_id = consumer_id
        self._lock = threading.RLock()  # guards the next four
        self._client: ClientConfig | None = None
        self._metadata: ClusterMetadata | None = None
        self._engine: FetchEngine | None = None
        self._store: OffsetStore | None = None

    def engine(self) -> FetchEngine:
        """What reads from brokers."""
        with self._lock:
            if self._engine is None:
                metadata = self._shared_metadata()
                self._engine = FetchEngine(
                    self._client_config(), self._config.fetch, metadata, name=self._consumer_id
                )
            return self._engine

    def store(self) -> OffsetStore:
        """Where offsets are kept."""
        with self._lock:
            if self._store is None:
                self._store = self._new_store()
            return self._store

    def partitions(self, topics: tuple[str, ...] | None) -> dict[str, tuple[int, ...]]:
        """Of these topics or of all, as the brokers tell it. A topic that is not there has none."""
        metadata = self._shared_metadata()
        if topics is None:
            view = metadata.refresh_all(reason="the group's filters")
            names = tuple(view.topics)
        else:
            view, names = metadata.refresh(topics, reason="the group's partitions"), topics
        return {
            name: tuple(sorted(one.index for one in view.topics[name].partitions))
            for name in names
            if name in view.topics
        }

    def find_brokers(self) -> None:
        """Where ZooKeeper says that they are now: those that we know may be gone, all of them."""
        if self._config.bootstrap or self._metadata is None:
            return
        with suppress(BrokerUnreachable):
            self._metadata.bootstrap_at(self._registered_brokers())

    def close(self) -> None:
        """The session last: with it, others see that we are gone. May be called twice."""
        with self._lock:
            engine, store, metadata = self._engine, self._store, self._metadata
        if metadata is not None:
            metadata.interrupt()
        for one in (engine, store, metadata, self.session):
            if one is not None:
                one.close()

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

    def _new_store(self) -> OffsetStore:
        zookeeper = ZooKeeperOffsets(self.session)
        if self._config.offsets_storage is OffsetsStorage.ZOOKEEPER:
            return zookeeper
        kafka = KafkaOffsets(
            self._client_config(), self._shared_metadata(), timeout_ms=self._config.commit_timeout_ms
        )
        return DualOffsets(kafka, zookeeper) if self._config.dual_commit else kafka
