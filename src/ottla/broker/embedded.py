"""EmbeddedBroker: Kafka in this process, for tests and for one machine.

    with EmbeddedBroker() as broker:
        ... bootstrap_servers=broker.bootstrap ...

Without a data directory it keeps its data in a temporary one, which goes with it. It runs in one thread, and
every method here may be called from any other.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from ottla.broker.config import BrokerConfig
from ottla.broker.faults import FaultKind, Rule, When, api_key, known_error
from ottla.broker.service import BrokerService, new_loop
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError
from ottla.wire.schema import Request

T = TypeVar("T")
Api = str | int | type[Request[Any]]

# Kafka's own example configuration has it too: who starts a consumer wants it now, not in 3 seconds.
DEFAULTS = {"group.initial.rebalance.delay.ms": "0"}


class EmbeddedBroker:
    """One broker, or several over the same data (`brokers=3`): clients see a cluster, nothing is replicated.

    `properties` are Kafka's, by their names. `port` 0 takes a free one. A stopped broker that is started
    again has its ports and its data as before.
    """

    def __init__(
        self,
        data_dir: str | Path | None = None,
        *,
        port: int = 0,
        brokers: int = 1,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self._scratch: weakref.finalize[..., EmbeddedBroker] | None = None  # removes a temporary directory
        if data_dir is None:
            data_dir = tempfile.mkdtemp(prefix="ottla-")
            # Not only `close` does it: a broker that is just dropped leaves nothing either.
            self._scratch = weakref.finalize(self, shutil.rmtree, data_dir, ignore_errors=True)
        self._data_dir = Path(data_dir)
        own = {"log.dir": str(self._data_dir), "listeners": f"PLAINTEXT://127.0.0.1:{port}"}
        self._config = BrokerConfig.from_properties({**DEFAULTS, **own, **(properties or {})})
        self._broker_count = brokers
        self._ports: list[int] = []
        self._service: BrokerService | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    # --- life

    def start(self) -> Self:
        """Come up; clients can connect when this returns. Raises ConfigError or StorageError."""
        if self._thread is not None:
            raise ConfigError("this broker is running already")
        if self._scratch is not None and not self._scratch.alive:
            raise ConfigError("this broker is closed and its temporary data is gone: make a new one")
        started: Future[BrokerService] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name="ottla-broker", daemon=True)
        self._thread.start()
        try:
            self._service = started.result()
        except BaseException:
            self._thread.join()
            self._thread = None
            raise
        self._ports = [node.port for node in self._service.nodes.values()]
        return self

    def stop(self) -> None:
        """Flush and close everything. A temporary directory stays until `close`, so that `start` finds it."""
        if self._thread is None or self._loop is None:
            return
        thread, service = self._thread, self._running()
        self._thread = self._service = None
        try:
            asyncio.run_coroutine_threadsafe(service.stop(), self._loop).result()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join()

    def close(self) -> None:
        """Stop, and remove the data directory if it was temporary."""
        try:
            self.stop()
        finally:
            if self._scratch is not None:
                self._scratch()

    def __enter__(self) -> Self:
        if self._thread is None:
            try:
                self.start()
            except BaseException:
                self.close()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, started: Future[BrokerService]) -> None:
        self._loop = loop = new_loop()
        asyncio.set_event_loop(loop)
        try:
            try:
                service = loop.run_until_complete(self._start_service())
            except BaseException as error:  # noqa: BLE001 - raised by start()
                started.set_exception(error)
                return
            started.set_result(service)
            loop.run_forever()
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    async def _start_service(self) -> BrokerService:
        service = BrokerService(self._config, self._broker_count)
        for node, port in zip(service.nodes.values(), self._ports, strict=False):
            node.port = port
        await service.start()
        return service

    def _running(self) -> BrokerService:
        if self._service is None:
            raise ConfigError("this broker is not running: start() it, or use it in a with statement")
        return self._service

    def _await(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _call(self, function: Callable[[], T]) -> T:
        """Run a function on the loop, which owns all state."""

        async def run() -> T:
            return function()

        self._running()
        return self._await(run())

    # --- where it is

    @property
    def is_running(self) -> bool:
        """Whether clients can connect."""
        return self._service is not None

    @property
    def bootstrap(self) -> str:
        """What clients take as bootstrap.servers."""
        return self._running().bootstrap

    @property
    def port(self) -> int:
        """Where the first broker listens."""
        self._running()
        return self._ports[0]

    @property
    def data_dir(self) -> Path:
        """Where the logs are."""
        return self._data_dir

    # --- topics

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replication_factor: int = 1,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Make a topic. Raises KafkaError, e.g. 36 if it exists."""
        service = self._running()
        self._call(lambda: service.create_topic(name, partitions, replication_factor, dict(config or {})))

    def delete_topic(self, name: str) -> None:
        """Take a topic and its records away. Raises KafkaError 3 if there is none."""
        service = self._running()
        self._call(lambda: service.delete_topic(name))

    # --- what happens to brokers

    def stop_broker(self, broker_id: int) -> None:
        """One of several brokers goes: connections break, its partitions get other leaders or none."""
        self._await(self._running().stop_broker(broker_id))

    def start_broker(self, broker_id: int) -> None:
        """It comes back on its port."""
        self._await(self._running().start_broker(broker_id))

    def move_leader(self, topic: str, partition: int, broker_id: int) -> None:
        """Another broker leads a partition from now on."""
        service = self._running()
        self._call(lambda: service.move_leader(topic, partition, broker_id))

    # --- faults

    def fail(self, api: Api, error: Code | int, *, times: int = 1, when: When | None = None) -> Rule:
        """Answer `error` to the next calls of an API, by name ("Produce") or key; -1 times is for ever."""
        return self._add_fault(
            Rule(api_key(api), FaultKind.ERROR, times, error=known_error(error), when=when)
        )

    def delay(self, api: Api, delay_ms: int, *, times: int = 1, when: When | None = None) -> Rule:
        """Handle the next calls of an API so much later."""
        return self._add_fault(Rule(api_key(api), FaultKind.DELAY, times, delay_ms=delay_ms, when=when))

    def drop(self, api: Api, *, times: int = 1, handled: bool = False, when: When | None = None) -> Rule:
        """Cut the connection instead of answering; `handled` does the work first and loses the answer."""
        kind = FaultKind.DROP_AFTER if handled else FaultKind.DROP
        return self._add_fault(Rule(api_key(api), kind, times, when=when))

    def clear_faults(self) -> None:
        """No faults any more."""
        service = self._running()
        self._call(service.faults.clear)

    def heal(self) -> None:
        """No faults any more, and all brokers run: what a test leaves to the next one."""
        self._await(self._running().heal())

    def _add_fault(self, rule: Rule) -> Rule:
        service = self._running()
        self._call(lambda: service.faults.add(rule))
        return rule
