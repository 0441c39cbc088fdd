"""Which brokers are up, and which of them leads each partition.

Leaders are a matter of this process: a partition is led by the first of its replicas that is up. Every change
of a leader raises the partition's epoch, which is stored, so that it never goes back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from ottla.broker.storage.catalog import Replicas, Topic
from ottla.broker.storage.partition import NO_LEADER, Partition
from ottla.broker.storage.runtime import Runtime
from ottla.broker.storage.topic_store import TopicStore
from ottla.model.address import Address
from ottla.model.errors import StorageError
from ottla.wire.leader_hint import LeaderIdAndEpoch, NodeEndpoint

log = logging.getLogger(__name__)

LeaderListener = Callable[[Partition, int], None]


class Leaders:
    """Owned by the broker's loop.

    brokers           the brokers that are up, with the address that clients of the first listener get
    leader_listeners  called with every partition whose leader changed, and with its leader before
    broker_listeners  called when a broker has come or gone
    """

    def __init__(self, store: TopicStore, runtime: Runtime) -> None:
        self._store = store
        self._turn = runtime.turn
        self.brokers: dict[int, Address] = {}
        self._further: dict[str, dict[int, Address]] = {}  # by listener: all but the first
        self.leader_listeners: list[LeaderListener] = []
        self.broker_listeners: list[Callable[[], None]] = []

    @property
    def controller_id(self) -> int:
        """The broker that clients take for the controller: any broker could be it, so it is the first."""
        return min(self.brokers, default=NO_LEADER)

    def alive(self, replicas: Replicas) -> list[int]:
        """Return those replicas that are up, in their order."""
        return [broker_id for broker_id in replicas if broker_id in self.brokers]

    def join(self, brokers: Mapping[int, Address]) -> None:
        """Note that brokers are up. Name them all at once, or the first one would lead everything."""
        self.brokers |= brokers
        self._brokers_changed()

    def advertise(self, listener: str, broker_id: int, address: Address) -> None:
        """Note the address that clients of a further listener get."""
        self._further.setdefault(listener, {})[broker_id] = address

    def at(self, listener: str) -> Mapping[int, Address]:
        """Return the brokers that are up, with the addresses of a listener: clients stay on theirs."""
        further = self._further.get(listener)
        if further is None:
            return self.brokers
        return {broker_id: further.get(broker_id, address) for broker_id, address in self.brokers.items()}

    def rack_of(self, broker_id: int) -> str | None:
        """Return the rack of a broker; None if it has none."""
        return self._store.config.rack_of(broker_id)

    def replica_in(self, rack: str, partition: Partition) -> int:
        """Return the replica that clients of a rack are to read from: the leader, if none is nearer."""
        if not rack or not self._store.config.selects_by_rack or self.rack_of(partition.leader) == rack:
            return partition.leader
        near = (replica for replica in self.alive(partition.replicas) if self.rack_of(replica) == rack)
        return next(near, partition.leader)

    def leave(self, broker_id: int) -> None:
        """Note that a broker is gone: its partitions get another leader, or none."""
        if self.brokers.pop(broker_id, None) is not None:
            self._brokers_changed()

    def _brokers_changed(self) -> None:
        self.elect(self._store.all_partitions())
        for listener in self.broker_listeners:
            listener()

    def elect(self, partitions: Iterable[Partition]) -> None:
        """Give partitions whose leader is not up the first replica that is."""
        changes = []
        for partition in partitions:
            if partition.leader in self.brokers:
                continue
            leader = next(iter(self.alive(partition.replicas)), NO_LEADER)
            if leader != partition.leader:
                changes.append((partition, leader))
        self.lead(changes)

    def lead(self, changes: Iterable[tuple[Partition, int]]) -> None:
        """Make brokers leaders. A partition that had a leader before gets a new epoch."""
        self._turn.end()  # staged records belong to the old leaders: the new ones must find them in the log
        leaders_before = []
        changed_topics: set[str] = set()
        for partition, leader in changes:
            leaders_before.append((partition, partition.leader))
            if partition.was_led:
                partition.leader_epoch += 1
                changed_topics |= {partition.topic} & self._store.partitions.keys()
            partition.leader = leader
            partition.was_led = True
        self._store_epochs(changed_topics)
        for partition, leader_before in leaders_before:
            for listener in self.leader_listeners:
                listener(partition, leader_before)
            partition.wake(0)

    def _store_epochs(self, names: set[str]) -> None:
        """Store new epochs. A full disk must not prevent a change of leaders, or the broker from stopping."""
        try:
            if names:
                self._store.catalog.put([self._with_epochs(name) for name in names])
        except StorageError as error:
            log.error("leader epochs are not stored, the next start goes on with older ones: %s", error)

    def _with_epochs(self, name: str) -> Topic:
        topic, partitions = self._store.catalog.topics[name], self._store.partitions[name]
        being_made = topic.leader_epochs[len(partitions) :]  # while the topic grows
        epochs = (*(partition.leader_epoch for partition in partitions), *being_made)
        return replace(topic, leader_epochs=epochs)

    def move(self, partition: Partition, replicas: Replicas, leader: int) -> None:
        """Give a partition other replicas, stored at once, and a leader. Raises StorageError.

        If the leader stays, this still tells the listeners that metadata has changed.
        """
        topic = self._store.topic(partition.topic)
        all_replicas = list(topic.replicas)
        all_replicas[partition.index] = replicas
        self._store.catalog.put([replace(topic, replicas=tuple(all_replicas))])
        partition.replicas = replicas
        self.lead([] if partition.leader == leader else [(partition, leader)])

    # --- the right broker, for clients that sent to a wrong one (KIP-951)

    def endpoints(self, partitions: Iterable[Partition], listener: str) -> list[NodeEndpoint]:
        """Return where the leaders of partitions listen, for clients of a listener."""
        brokers = self.at(listener)
        leaders = dict.fromkeys(partition.leader for partition in partitions)
        return [
            NodeEndpoint(
                node_id=broker_id,
                host=brokers[broker_id].host,
                port=brokers[broker_id].port,
                rack=self.rack_of(broker_id),
            )
            for broker_id in leaders
            if broker_id in brokers
        ]


def leader_and_epoch(partition: Partition) -> LeaderIdAndEpoch:
    """Return the leader and the epoch of a partition, for an answer."""
    return LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.leader_epoch)
