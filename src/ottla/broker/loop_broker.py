"""LoopBroker: Kafka in this process, on the event loop of its user. `EmbeddedBroker.aio` makes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from ottla.broker.service import BrokerService
from ottla.broker.serving.faults import FaultKind, FaultRule, When, api_key, error_code
from ottla.broker.settings.broker_config import BrokerConfig
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError
from ottla.model.property_table import text_of
from ottla.wire.schema import Request


class LoopBroker:
    """Runs inside `async with`, or from `await start()` to `await close()`. Belongs to one event loop.

    Everything that it does, it does on the caller's loop: code that blocks the loop stops the broker too.
    """

    def __init__(self, config: BrokerConfig, broker_count: int, forget: Callable[[], None]) -> None:
        """`forget` removes the data, if they are temporary."""
        self._config = config
        self._broker_count = broker_count
        self._forget = forget
        self._service: BrokerService | None = None

    def __repr__(self) -> str:
        return f"<LoopBroker {f'at {self.bootstrap}' if self._service is not None else 'not running'}>"

    async def start(self) -> Self:
        """Start; clients can connect when this returns. Raises ConfigError or StorageError."""
        if self._service is not None:
            raise ConfigError("this broker is running already")
        service = BrokerService(self._config, self._broker_count)
        await service.start()
        self._service = service
        return self

    async def close(self) -> None:
        """Flush and close everything; remove the data directory if it was temporary. May be called twice."""
        service, self._service = self._service, None
        try:
            if service is not None:
                await service.stop()
        finally:
            self._forget()

    async def __aenter__(self) -> Self:
        try:
            return await self.start()
        except BaseException:
            self._forget()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _running(self) -> BrokerService:
        if self._service is None:
            raise ConfigError("this broker is not running: use it in an async with statement")
        return self._service

    @property
    def bootstrap(self) -> str:
        """What clients of the first listener take as bootstrap.servers. Raises ConfigError if it is down."""
        return self._running().bootstrap

    # --- topics and brokers

    async def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replication_factor: int = 1,
        config: Mapping[str, object] | None = None,
    ) -> None:
        """Create a topic; `config` has Kafka's topic settings. Raises KafkaError, 36 if it exists."""
        overrides = {name.replace("_", "."): text_of(value) or "" for name, value in (config or {}).items()}
        await self._running().create_topic(name, partitions, replication_factor, overrides)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and its records. Raises KafkaError 3 if there is none."""
        await self._running().delete_topic(name)

    async def stop_broker(self, broker_id: int) -> None:
        """Stop one of several brokers: its connections break, its partitions get other leaders or none."""
        await self._running().stop_broker(broker_id)

    async def start_broker(self, broker_id: int) -> None:
        """Start a broker that was stopped, on the port that it had."""
        await self._running().start_broker(broker_id)

    # --- faults, as those of EmbeddedBroker

    def fail(
        self,
        api: str | int | type[Request[Any]],
        error: Code | int | str,
        *,
        times: int = 1,
        when: When | None = None,
    ) -> FaultRule:
        """Answer an error to the next calls of an API: a `Code`, its number or its name."""
        key = api_key(api)
        return self._add(FaultRule(key, FaultKind.ERROR, times, error=error_code(error), when=when))

    def drop(
        self, api: str | int | type[Request[Any]], *, times: int = 1, when: When | None = None
    ) -> FaultRule:
        """Cut the connection instead of answering."""
        return self._add(FaultRule(api_key(api), FaultKind.DROP, times, when=when))

    def clear_faults(self) -> None:
        """End all faults."""
        self._running().faults.clear()

    def _add(self, rule: FaultRule) -> FaultRule:
        self._running().faults.add(rule)
        return rule
