"""Brokers and their registrar on one thread, with ZooKeeper in memory: turn by turn."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

from ottla.broker.cluster import Cluster
from ottla.broker.registration.flags import Flags
from ottla.broker.registration.orders import Order, carry_out
from ottla.broker.registration.registrar import Registrar
from ottla.broker.registration.view import RegisteredView, cluster_view
from ottla.broker.service import BrokerService
from ottla.broker.settings.broker_config import BrokerConfig
from ottla.zookeeper.memory_session import MemoryZooKeeper
from ottla.zookeeper.session import CreateMode
from tests.broker.registration.znodes import tree


class Registered:
    """Brokers of a loop and their registrar on the same thread; `settle` is a turn of the real thread."""

    def __init__(self, service: BrokerService, ensemble: MemoryZooKeeper) -> None:
        self.service = service
        self.ensemble = ensemble
        self.now_s = 0.0
        self.now_ms = 1234
        self.session = ensemble.session()
        self.session.connect()
        self.tool = ensemble.session()
        self.tool.connect()
        self._flags = Flags()
        cluster = service.cluster
        cluster.leaders.leader_listeners.append(lambda partition, _: self._flags.raise_topic(partition.topic))
        cluster.store.topic_listeners.append(self._flags.raise_topic)
        cluster.leaders.broker_listeners.append(self._flags.raise_brokers)
        self._flags.raise_brokers()
        self._registrar = Registrar(
            self.session, self, self._flags, cluster.store.cluster_id, lambda: self.now_ms, lambda: self.now_s
        )

    @property
    def cluster(self) -> Cluster:
        return self.service.cluster

    def view(self, names: set[str] | None) -> RegisteredView:
        return cluster_view(self.cluster, names)

    def carry_out(self, order: Order) -> None:
        carry_out(self.cluster, order)

    def settle(self) -> None:
        self._registrar.work()

    def tidy(self) -> None:
        self._registrar.tidy()
        self.settle()

    def has_work(self) -> bool:
        return bool(self._flags.take())

    def data(self, path: str) -> object:
        return json.loads(self.tool.get(path).data)

    def paths(self, top: str) -> list[str]:
        return list(tree(self.tool, top))

    def state(self, topic: str, partition: int) -> object:
        return self.data(f"/brokers/topics/{topic}/partitions/{partition}/state")

    def write(self, path: str, value: object) -> None:
        """As a tool would."""
        data = json.dumps(value).encode()
        if self.tool.exists(path) is None:
            self.tool.create_with_parents(path, data)
        else:
            self.tool.set(path, data)

    def create(self, name: str, replicas: list[list[int]], config: dict[str, str] | None = None) -> None:
        """As TopicCommand --create does: config first."""
        self.write(f"/config/topics/{name}", {"version": 1, "config": config or {}})
        partitions = {str(index): brokers for index, brokers in enumerate(replicas)}
        self.write(f"/brokers/topics/{name}", {"version": 1, "partitions": partitions})

    def note(self, name: str, entity: str = "topics") -> str:
        data = json.dumps({"version": 1, "entity_type": entity, "entity_name": name}).encode()
        return self.tool.create("/config/changes/config_change_", data, CreateMode.PERSISTENT_SEQUENTIAL)

    def reset_session(self) -> None:
        self.session.expire()
        self.session.resume()
        self.session.resume()


Scenario = Callable[[Registered], Awaitable[None]]


def play(
    path: Path,
    scenario: Scenario,
    brokers: int = 1,
    ensemble: MemoryZooKeeper | None = None,
    **properties: str,
) -> None:
    given = {"log.dir": str(path / "data"), "listeners": "PLAINTEXT://127.0.0.1:0"}
    given |= {name.replace("_", "."): value for name, value in properties.items()}

    async def run() -> None:
        service = BrokerService(BrokerConfig.from_properties(given), brokers)
        await service.start()
        try:
            await scenario(Registered(service, ensemble or MemoryZooKeeper()))
        finally:
            await service.stop()

    asyncio.run(run())
