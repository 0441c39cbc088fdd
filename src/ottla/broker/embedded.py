"""EmbeddedBroker: Kafka in this process, for tests and for one machine."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self, TypeVar

from ottla.broker.loop_broker import LoopBroker
from ottla.broker.security.local_security import BrokerSecurity, LocalSecurity
from ottla.broker.service import BrokerService, new_loop
from ottla.broker.serving.faults import FaultKind, FaultRule, When, api_key, error_code
from ottla.broker.settings.broker_config import LOCAL_DEFAULTS, BrokerConfig, texts_by_name
from ottla.model.closing import Closing
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError
from ottla.model.forgotten import stop_if_forgotten
from ottla.model.property_table import merged, text_of
from ottla.wire.schema import Request

T = TypeVar("T")
Api = str | int | type[Request[Any]]


class EmbeddedBroker(Closing):
    """A Kafka broker in this process, or several over the same data.

        >>> from ottla import EmbeddedBroker
        >>> with EmbeddedBroker(num_partitions=3) as broker:
        ...     broker.create_topic("orders", partitions=2)
        ...     broker.bootstrap.startswith("127.0.0.1:")
        True

    data_dir     where the logs are. Without it they are in a temporary directory, which `close` removes.
    port         the port of the first broker, the others follow; 0 takes free ones
    brokers      how many brokers clients see. They share one copy of the data: nothing is replicated.
    properties   Kafka's broker settings by name. Settings may also be given as keywords in snake_case, as
                 `num_partitions` above; values are texts, numbers or booleans.
    security     True, or a BrokerSecurity: certificates, users and ACLs are made, and every client has to log
                 in; `client_settings` has what it needs. Certificates need `pip install 'ottla[security]'`.

    Raises ConfigError for a setting that is not known or has a wrong value. The broker runs in a thread of
    its own; every method may be called from any thread. A broker that was stopped and is started again has
    the same ports and data.
    """

    def __init__(
        self,
        data_dir: str | Path | None = None,
        *,
        port: int = 0,
        brokers: int = 1,
        properties: Mapping[str, object] | None = None,
        security: BrokerSecurity | bool = False,
        **settings: object,
    ) -> None:
        given = texts_by_name(merged(properties, settings))
        self._belongings = _Belongings(data_dir)
        own = {"log.dir": str(self.data_dir), "listeners": f"PLAINTEXT://127.0.0.1:{port}"}
        self._security: LocalSecurity | None = None
        if security:
            wanted = BrokerSecurity() if security is True else security
            self._security = LocalSecurity(wanted, self.data_dir)
            own |= self._security.properties(port, brokers)
        self._config = BrokerConfig.from_properties({**LOCAL_DEFAULTS, **own, **given})
        self._broker_count = brokers
        self._ports: list[list[int]] = []
        self._forgotten: weakref.finalize[..., object] | None = None

    @classmethod
    def aio(
        cls,
        data_dir: str | Path | None = None,
        *,
        port: int = 0,
        brokers: int = 1,
        properties: Mapping[str, object] | None = None,
        **settings: object,
    ) -> LoopBroker:
        """A broker on the caller's event loop, without a thread: `async with EmbeddedBroker.aio() as broker`.

        Arguments as those of EmbeddedBroker, but without `security`.
        """
        made = cls(data_dir, port=port, brokers=brokers, properties=merged(properties, settings))
        return LoopBroker(made._config, brokers, made.close)

    def __repr__(self) -> str:
        count = "" if self._broker_count == 1 else f" of {self._broker_count} brokers"
        where = f"at {self.bootstrap}" if self.is_running else "not running"
        return f"<EmbeddedBroker{count} {where}, data in {self.data_dir}>"

    # --- life

    def start(self) -> Self:
        """Start; clients can connect when this returns. Raises ConfigError or StorageError."""
        if self.is_running:
            raise ConfigError("this broker is running already")
        if self._belongings.is_removed:
            raise ConfigError("this broker is closed and its temporary data is gone: make a new one")
        thread = BrokerThread(self._config, self._broker_count, self._ports, self._security)
        thread.start()
        self._ports = [node.ports for node in thread.service.nodes.values()]
        self._belongings.thread = thread
        self._forgotten = stop_if_forgotten(self, repr(self), self._belongings.close)
        return self

    def stop(self) -> None:
        """Flush and close everything. A temporary directory stays until `close`, so `start` finds it."""
        if self._forgotten is not None:
            self._forgotten.detach()
        self._belongings.stop()

    def close(self) -> None:
        """Stop, and remove the data directory if it was temporary."""
        if self._forgotten is not None:
            self._forgotten.detach()
        self._belongings.close()

    def __enter__(self) -> Self:
        if not self.is_running:
            try:
                self.start()
            except BaseException:
                self.close()
                raise
        return self

    def _thread(self) -> BrokerThread:
        thread = self._belongings.thread
        if thread is None:
            raise ConfigError("this broker is not running: start() it, or use it in a with statement")
        return thread

    def _running(self) -> BrokerService:
        return self._thread().service

    def _call(self, function: Callable[[], T]) -> T:
        return self._thread().call(function)

    # --- where it is

    @property
    def is_running(self) -> bool:
        """Whether clients can connect."""
        return self._belongings.thread is not None

    @property
    def bootstrap(self) -> str:
        """What clients of the first listener take as bootstrap.servers. Raises ConfigError if it is down."""
        return self._running().bootstrap

    @property
    def port(self) -> int:
        """The port of the first broker's first listener. Raises ConfigError if it is not up."""
        return self._running().nodes[self._config.broker_id].ports[0]

    def bootstrap_at(self, listener: str) -> str:
        """Return what clients of a listener take as bootstrap.servers. Raises ConfigError."""
        return self._running().bootstrap_at(listener)

    def client_settings(
        self,
        user: str | None = None,
        *,
        listener: str | None = None,
        mechanism: str = "SCRAM-SHA-512",
        form: str = "python",
    ) -> dict[str, str]:
        """Return what a client of a broker with `security` needs: its settings, bootstrap.servers included.

        Without a user it is the last one, without a listener the first one. `form` is "python" (ottla's
        clients), "librdkafka", "java" or "spark". Raises ConfigError.
        """
        listeners = {each.name: str(each.protocol) for each in self._config.listeners}
        listener = (listener or next(iter(listeners))).upper()
        where = self.bootstrap_at(listener)
        if self._security is None:
            return {"bootstrap.servers": where}
        return self._security.login(where, listeners[listener], user, mechanism).settings(form)

    @property
    def listeners(self) -> tuple[str, ...]:
        """The names of the listeners."""
        return tuple(each.name for each in self._config.listeners)

    @property
    def data_dir(self) -> Path:
        """The directory of the logs."""
        return self._belongings.data_dir

    # --- topics

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replication_factor: int = 1,
        config: Mapping[str, object] | None = None,
    ) -> None:
        """Create a topic; `config` has Kafka's topic settings. Raises KafkaError, 36 if it exists."""
        service = self._running()
        overrides = {name.replace("_", "."): text_of(value) or "" for name, value in (config or {}).items()}
        self._thread().wait_for(service.create_topic(name, partitions, replication_factor, overrides))

    def delete_topic(self, name: str) -> None:
        """Delete a topic and its records. Raises KafkaError 3 if there is none."""
        service = self._running()
        self._thread().wait_for(service.delete_topic(name))

    # --- stopping, starting and moving

    def stop_broker(self, broker_id: int) -> None:
        """Stop one of several brokers: its connections break, its partitions get other leaders or none."""
        self._thread().wait_for(self._running().stop_broker(broker_id))

    def start_broker(self, broker_id: int) -> None:
        """Start a broker that was stopped, on the port that it had."""
        self._thread().wait_for(self._running().start_broker(broker_id))

    def move_leader(self, topic: str, partition: int, broker_id: int) -> None:
        """Make another broker the leader of a partition."""
        service = self._running()
        self._call(lambda: service.move_leader(topic, partition, broker_id))

    # --- faults

    # An API is given by its name ("Produce"), its key or its request class. A fault hits the next `times`
    # calls, all calls with -1; with `when`, only calls for whose request it returns True.

    def fail(
        self, api: Api, error: Code | int | str, *, times: int = 1, when: When | None = None
    ) -> FaultRule:
        """Answer an error to the next calls of an API: a `Code`, its number or its name."""
        key = api_key(api)
        return self._add_fault(FaultRule(key, FaultKind.ERROR, times, error=error_code(error), when=when))

    def delay(self, api: Api, seconds: float, *, times: int = 1, when: When | None = None) -> FaultRule:
        """Handle the next calls of an API `seconds` later."""
        key = api_key(api)
        return self._add_fault(FaultRule(key, FaultKind.DELAY, times, delay_s=seconds, when=when))

    def drop(self, api: Api, *, times: int = 1, handled: bool = False, when: When | None = None) -> FaultRule:
        """Cut the connection instead of answering; with `handled`, do the work first and lose the answer."""
        kind = FaultKind.DROP_AFTER if handled else FaultKind.DROP
        return self._add_fault(FaultRule(api_key(api), kind, times, when=when))

    def clear_faults(self) -> None:
        """End all faults."""
        service = self._running()
        self._call(service.faults.clear)

    def heal(self) -> None:
        """End all faults, and start the brokers that were stopped: for use between two tests."""
        self._thread().wait_for(self._running().heal())

    def _add_fault(self, rule: FaultRule) -> FaultRule:
        service = self._running()
        self._call(lambda: service.faults.add(rule))
        return rule


class BrokerThread:
    """A thread that runs a BrokerService in an event loop of its own. `start` and `stop` once each.

    It has no reference to the EmbeddedBroker, so that a dropped broker can be collected.
    """

    def __init__(
        self,
        config: BrokerConfig,
        broker_count: int,
        ports: list[list[int]],
        security: LocalSecurity | None = None,
    ) -> None:
        self._config = config
        self._broker_count = broker_count
        self._ports = ports
        self._security = security
        self._loop = new_loop()
        self._process = os.getpid()
        self._started: Future[BrokerService] = Future()
        self._thread = threading.Thread(target=self._run, name="ottla-broker", daemon=True)

    @property
    def service(self) -> BrokerService:
        """The running service. Only its loop may use what is in it."""
        return self._started.result()

    def start(self) -> None:
        """Start the thread and wait until the service serves. Raises what the service raises."""
        self._thread.start()
        try:
            self._started.result()
        except BaseException:
            self._thread.join()
            raise

    def stop(self) -> None:
        """Stop the service and end the thread. Raises StorageError if not all could be written."""
        if not self._is_here:
            return  # a fork: the thread and the service are the parent's
        try:
            self.wait_for(self.service.stop())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop, which owns all state, and return its result."""
        if not self._is_here:
            work.close()
            raise ConfigError("this broker runs in the process that forked this one: only that can change it")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    @property
    def _is_here(self) -> bool:
        return self._process == os.getpid()

    def call(self, function: Callable[[], T]) -> T:
        """Run a function on the loop and return its result."""

        async def run() -> T:
            return function()

        return self.wait_for(run())

    def _run(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        try:
            try:
                service = loop.run_until_complete(self._start_service())
            except BaseException as error:  # noqa: BLE001 - raised by start()
                self._started.set_exception(error)
                return
            self._started.set_result(service)
            loop.run_forever()
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    async def _start_service(self) -> BrokerService:
        service = BrokerService(self._config, self._broker_count)
        for node, ports in zip(service.nodes.values(), self._ports, strict=False):
            node.ports = list(ports)
        if self._security is not None:
            self._security.install(service.cluster.scram_users, service.cluster.authorizer)
        await service.start()
        return service


def _remove(directory: str, process: int) -> None:
    """Remove a temporary directory, unless this is a fork of the process that made it."""
    if process == os.getpid():
        shutil.rmtree(directory, ignore_errors=True)


class _Belongings:
    """What an EmbeddedBroker leaves behind when it is dropped: its thread, and a temporary directory."""

    def __init__(self, data_dir: str | Path | None) -> None:
        self.thread: BrokerThread | None = None
        self._scratch: weakref.finalize[..., _Belongings] | None = None
        if data_dir is None:
            data_dir = tempfile.mkdtemp(prefix="ottla-")
            # Removed by `close`, when this object is collected, or when the interpreter ends.
            self._scratch = weakref.finalize(self, _remove, data_dir, os.getpid())
        self.data_dir = Path(data_dir)

    @property
    def is_removed(self) -> bool:
        """Whether the data were temporary and are gone."""
        return self._scratch is not None and not self._scratch.alive

    def stop(self) -> None:
        """Stop the thread, if one runs."""
        thread, self.thread = self.thread, None
        if thread is not None:
            thread.stop()

    def close(self) -> None:
        """Stop the thread, and remove temporary data."""
        try:
            self.stop()
        finally:
            if self._scratch is not None:
                self._scratch()
