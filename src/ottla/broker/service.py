"""The running thing: nodes over a cluster, with housekeeping, ZooKeeper and metrics beside them. Asyncio.

`EmbeddedBroker` runs it in a thread of its own, `ottla broker start` in the main thread.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from dataclasses import replace

from ottla.broker import topics
from ottla.broker.cluster import OFFSETS_TOPIC, Cluster
from ottla.broker.config import BrokerConfig
from ottla.broker.faults import Faults
from ottla.broker.housekeeping import Housekeeping
from ottla.broker.metrics import MetricsServer
from ottla.broker.node import Node
from ottla.broker.partition import NO_LEADER, Partition
from ottla.broker.settings.listeners import bracketed
from ottla.model.errors import ConfigError

log = logging.getLogger(__name__)

PORT_MAX = 65535


class BrokerService:
    """Made and used inside a running loop. `start` and `stop` once each."""

    def __init__(self, config: BrokerConfig, broker_count: int = 1) -> None:
        if broker_count < 1:
            raise ConfigError(f"brokers={broker_count}: at least one is needed")
        if broker_count > 1 and (config.advertised_host or config.advertised_port):
            raise ConfigError(f"{broker_count} brokers cannot all be advertised under one address")
        if config.port + broker_count - 1 > PORT_MAX:
            raise ConfigError(
                f"{broker_count} brokers from port {config.port} on: {PORT_MAX} is the last port"
            )
        self.config = config
        self.cluster = Cluster(config)
        self.housekeeping = Housekeeping(self.cluster)
        self.faults = Faults()
        self.nodes: dict[int, Node] = {}
        for number in range(broker_count):
            port = config.port + number if config.port else 0
            broker_id = config.broker_id + number
            self.nodes[broker_id] = Node(self.cluster, broker_id, port, self.faults)
        self.metrics = MetricsServer(self.cluster, self.nodes.values())
        self.cluster.leader_listeners.append(self._leader_changed)

    @property
    def bootstrap(self) -> str:
        """What clients take as bootstrap.servers."""
        return ",".join(f"{bracketed(node.host)}:{node.advertised_port}" for node in self.nodes.values())

    async def start(self) -> None:
        """Listen on all nodes, and register them. Raises OttlaError; nothing is left running then."""
        _warn_of_open_address(self.config.host)
        try:
            for node in self.nodes.values():
                await node.listen()
            self.cluster.join(self.nodes.values())
            for node in self.nodes.values():
                await node.serve()
            if self.config.zookeeper_connect:
                # Imported here: kazoo takes its time, and most brokers have no ZooKeeper.
                from ottla.broker.registration.registration import ZooKeeperRegistration

                self.cluster.zookeeper = await ZooKeeperRegistration.start(self.cluster)
            if self.config.metrics_port is not None:
                await self.metrics.start(self.config.host, self.config.metrics_port)
        except BaseException:
            await self.stop()
            raise
        self.housekeeping.start()

    async def stop(self) -> None:
        """Stop listening, write and flush everything, and mark the directory as closed cleanly."""
        await self.housekeeping.stop()
        self.metrics.stop()
        zookeeper, self.cluster.zookeeper = self.cluster.zookeeper, None
        if zookeeper is not None:
            # First, so that ZooKeeper is not told of leaders that go one after the other.
            await zookeeper.stop()
        for node in self.nodes.values():
            await node.stop()
        await self.cluster.close()

    # --- what tests do to brokers

    async def stop_broker(self, broker_id: int) -> None:
        """One broker goes: its connections break, its partitions get other leaders or none."""
        node = self._node(broker_id)
        if not node.is_running:
            raise ConfigError(f"broker {broker_id} is not running")
        await node.stop()

    async def start_broker(self, broker_id: int) -> None:
        """It comes back, on its port."""
        node = self._node(broker_id)
        if node.is_running:
            raise ConfigError(f"broker {broker_id} is running")
        await node.start()

    async def heal(self) -> None:
        """End all faults, and start the brokers that were stopped."""
        self.faults.clear()
        for node in self.nodes.values():
            if not node.is_running:
                await node.start()

    def move_leader(self, topic: str, partition: int, broker_id: int) -> None:
        """Make a running broker the leader of a partition, and its preferred one."""
        if not self._node(broker_id).is_running:
            raise ConfigError(f"broker {broker_id} is not running and cannot lead")
        moved = self.cluster.partition(topic, partition)
        if moved.leader == broker_id:
            return
        moved.replicas = (broker_id, *(one for one in moved.replicas if one != broker_id))[
            : len(moved.replicas)
        ]
        known = self.cluster.topic(topic)
        replicas = tuple(one.replicas for one in self.cluster.partitions[topic])
        self.cluster.catalog.put([replace(known, replicas=replicas)])
        self.cluster.lead([(moved, broker_id)])

    def _node(self, broker_id: int) -> Node:
        if broker_id not in self.nodes:
            raise ConfigError(
                f"no broker has the id {broker_id}; there are {', '.join(map(str, self.nodes))}"
            )
        return self.nodes[broker_id]

    def create_topic(
        self, name: str, partitions: int, replication_factor: int, overrides: dict[str, str]
    ) -> None:
        """Make a topic without a client."""
        topics.create(
            self.cluster, name, topics.spread(self.cluster, partitions, replication_factor), overrides
        )

    def delete_topic(self, name: str) -> None:
        """Delete a topic without a client."""
        topics.delete(self.cluster, name)

    def _leader_changed(self, partition: Partition, leader_before: int) -> None:
        if partition.topic != OFFSETS_TOPIC:
            return
        if leader_before != NO_LEADER:
            self.nodes[leader_before].groups.resign(partition)
        if partition.leader != NO_LEADER:
            self.nodes[partition.leader].groups.lead(partition)


def _warn_of_open_address(host: str) -> None:
    try:
        is_local = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_local = False
    if not is_local:
        log.warning(
            "listening on %s without authentication or encryption: whoever reaches it reads and writes", host
        )


def new_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it is installed: fewer CPU seconds a request; asyncio's otherwise."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
