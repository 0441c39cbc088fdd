"""A running broker process: nodes over a cluster, with housekeeping, ZooKeeper and metrics. Asyncio.

`EmbeddedBroker` runs it in a thread of its own, `ottla broker start` in the main thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from ottla.broker.cluster import Cluster
from ottla.broker.groups.group_service import GroupService
from ottla.broker.handlers.registry import all_loaded
from ottla.broker.node import Node
from ottla.broker.serving.faults import FaultRules
from ottla.broker.settings.broker_config import BrokerConfig
from ottla.broker.settings.listeners import check_open
from ottla.broker.storage.housekeeping import CoordinatorUpkeep, Housekeeping
from ottla.broker.storage.partition import NO_LEADER, Partition
from ottla.broker.storage.topic_changes import Failed
from ottla.broker.transactions.transaction_service import TransactionService
from ottla.log.file_system import REAL, FileSystem
from ottla.model.errors import ConfigError
from ottla.model.topic_partition import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC

if TYPE_CHECKING:  # imported when they are needed: most brokers have neither
    from ottla.broker.metrics import MetricsServer
    from ottla.broker.registration.registration import ZooKeeperRegistration

log = logging.getLogger(__name__)

PORT_MAX = 65535


class BrokerService:
    """Made and used inside a running loop. `start` and `stop` once each."""

    def __init__(self, config: BrokerConfig, broker_count: int = 1, files: FileSystem = REAL) -> None:
        if broker_count < 1:
            raise ConfigError(f"brokers={broker_count}: at least one is needed")
        _check_ports(config, broker_count)
        for listener in config.listeners:
            check_open(listener, is_allowed=config.allows_open_listeners)
        self.config = config
        self.cluster = Cluster(config, files)
        self.housekeeping = Housekeeping(self.cluster.store, self.cluster.runtime, self._upkeep())
        self.zookeeper: ZooKeeperRegistration | None = None
        self.faults = FaultRules()
        self.nodes: dict[int, Node] = {}
        for number in range(broker_count):
            ports = [listener.port + number if listener.port else 0 for listener in config.listeners]
            broker_id = config.broker_id + number
            self.nodes[broker_id] = Node(self.cluster, broker_id, ports, self.faults)
        self.metrics: MetricsServer | None = None
        self.cluster.leaders.leader_listeners.append(self._leader_changed)
        self.cluster.topics.deletion_listeners.append(self._topic_deleted)

    @property
    def bootstrap(self) -> str:
        """What clients of the first listener take as bootstrap.servers."""
        return self.bootstrap_at(self.config.listeners[0].name)

    def bootstrap_at(self, listener: str) -> str:
        """Return what clients of a listener take as bootstrap.servers. Raises ConfigError."""
        names = [each.name for each in self.config.listeners]
        if listener.upper() not in names:
            raise ConfigError(f"no listener is called {listener}; there are {', '.join(names)}")
        number = names.index(listener.upper())
        return ",".join(str(node.address_at(number)) for node in self.nodes.values())

    async def start(self) -> None:
        """Listen on all nodes, and register them. Raises OttlaError; then nothing is left running."""
        for listener in self.config.listeners:
            if listener.is_open:
                log.warning(
                    "listening on %s without a login: any client may read and write",
                    listener.host,
                )
        try:
            for node in self.nodes.values():
                await node.listen()
            self.cluster.leaders.join({node.broker_id: node.address for node in self.nodes.values()})
            for node in self.nodes.values():
                await node.serve()
            if self.config.zookeeper_connect:
                await self._register()
            if self.config.metrics_port is not None:
                await self._serve_metrics(self.config.metrics_port)
        except BaseException:
            await self.stop()
            raise
        self.housekeeping.start()

    async def _register(self) -> None:
        from ottla.broker.registration.registration import ZooKeeperRegistration

        self.zookeeper = await ZooKeeperRegistration.start(self.cluster)
        for node in self.nodes.values():
            node.broker.zookeeper_offsets = self.zookeeper.offsets

    async def _serve_metrics(self, port: int) -> None:
        from ottla.broker.metrics import MetricsServer

        faults = self.cluster.runtime.turn.faults
        self.metrics = MetricsServer(self.cluster.store, self.nodes.values(), faults)
        await self.metrics.start(self.config.host, port)

    def load_rest(self) -> Generator[None, None, None]:
        """Import the handlers, messages and coordinators that nobody has asked for, some at each step."""
        yield from all_loaded()
        for node in self.nodes.values():
            _ = node.groups.coordinator, node.transactions.coordinator
            yield
        _ = self.cluster.shares

    async def stop(self) -> None:
        """Stop listening, write and flush everything, and mark the directory as closed cleanly."""
        await self.housekeeping.stop()
        if self.metrics is not None:
            self.metrics.stop()
        zookeeper, self.zookeeper = self.zookeeper, None
        if zookeeper is not None:
            for node in self.nodes.values():
                node.broker.zookeeper_offsets = None
            # First, so that ZooKeeper does not see the leaders go one after the other.
            await zookeeper.stop()
        for node in self.nodes.values():
            await node.stop()
        await self.cluster.close()

    # --- stopping, starting and moving, for tests

    async def stop_broker(self, broker_id: int) -> None:
        """Stop one broker: its connections break, its partitions get other leaders or none."""
        node = self._node(broker_id)
        if not node.is_running:
            raise ConfigError(f"broker {broker_id} is not running")
        await node.stop()

    async def start_broker(self, broker_id: int) -> None:
        """Start a broker that was stopped, on the port that it had."""
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
        moved = self.cluster.store.partition(topic, partition)
        if moved.leader == broker_id:
            return
        others = (replica for replica in moved.replicas if replica != broker_id)
        replicas = (broker_id, *others)[: len(moved.replicas)]
        self.cluster.leaders.move(moved, replicas, broker_id)

    def _node(self, broker_id: int) -> Node:
        if broker_id not in self.nodes:
            raise ConfigError(
                f"no broker has the id {broker_id}; there are {', '.join(map(str, self.nodes))}"
            )
        return self.nodes[broker_id]

    async def create_topic(
        self, name: str, partitions: int, replication_factor: int, overrides: dict[str, str]
    ) -> None:
        """Create a topic without a client. Raises KafkaError."""

        def work() -> Generator[None, None, Failed]:
            topics = self.cluster.topics
            draft = topics.draft(name, topics.spread(partitions, replication_factor), overrides)
            return (yield from topics.creation([draft]))

        _raise_first(await self.cluster.runtime.slices.add(work()))

    async def delete_topic(self, name: str) -> None:
        """Delete a topic without a client. Raises KafkaError."""

        def work() -> Generator[None, None, Failed]:
            self.cluster.topics.check_deletion(name)
            return (yield from self.cluster.topics.deletion([name]))

        _raise_first(await self.cluster.runtime.slices.add(work()))

    # --- coordinators

    def _upkeep(self) -> CoordinatorUpkeep:
        def each(work: Callable[[Node], None]) -> Callable[[], None]:
            def run() -> None:
                for node in self.nodes.values():
                    if node.is_running:
                        work(node)

            return run

        return CoordinatorUpkeep(
            expire_groups=each(lambda node: node.groups.expire()),
            abort_timed_out=each(lambda node: node.transactions.abort_timed_out()),
            expire_transactional_ids=each(lambda node: node.transactions.expire()),
        )

    def _topic_deleted(self, name: str) -> None:
        if self.cluster.has_shares:
            self.cluster.shares.forget_deleted_topics()
        for node in self.nodes.values():
            if node.is_running:
                node.groups.forget_topic(name)

    def _leader_changed(self, partition: Partition, leader_before: int) -> None:
        if partition.topic == SHARE_STATE_TOPIC:
            if partition.leader != NO_LEADER:
                self.cluster.shares.lead(partition)
            return
        if partition.topic not in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
            return
        if leader_before != NO_LEADER:
            self._coordinator(leader_before, partition.topic).resign(partition)
        if partition.leader != NO_LEADER:
            self._coordinator(partition.leader, partition.topic).lead(partition)

    def _coordinator(self, broker_id: int, topic: str) -> GroupService | TransactionService:
        node = self.nodes[broker_id]
        return node.groups if topic == OFFSETS_TOPIC else node.transactions


def _check_ports(config: BrokerConfig, broker_count: int) -> None:
    """Raise ConfigError if the ports of several brokers, which are in a row, run into each other."""
    taken: set[tuple[str, int]] = set()
    for listener in config.listeners:
        for port in (listener.port, listener.advertised_port):
            if port + broker_count - 1 > PORT_MAX:
                raise ConfigError(f"{broker_count} brokers from port {port} on: {PORT_MAX} is the last port")
        ports = {(listener.host, listener.port + number) for number in range(broker_count) if listener.port}
        if ports & taken:
            raise ConfigError(
                f"listeners: {broker_count} brokers take ports in a row, and those of {listener.name} from "
                f"{listener.port} on belong to another listener; leave more room between them"
            )
        taken |= ports


def _raise_first(failed: Failed) -> None:
    for error in failed.values():
        raise error


def new_loop() -> asyncio.AbstractEventLoop:
    """Return uvloop's loop if it is installed (less CPU per request), else asyncio's."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
