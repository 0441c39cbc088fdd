"""CoordinatorService: carries out the decisions of a coordinator, which is pure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar, cast

from ottla.broker.coordination.effects import Append, Caller, Record, Reply
from ottla.broker.coordination.loading import PartitionLoads
from ottla.broker.coordination.topic_writer import CoordinatorWriter
from ottla.broker.storage.partition import Partition
from ottla.broker.storage.runtime import Runtime
from ottla.model.error_codes import Code
from ottla.wire.schema import Request

ReplyTo = Callable[[Any], None]


class Due(Protocol):
    """Asks for a call of `on_timer` at or after `at_ms`."""

    @property
    def at_ms(self) -> int: ...


class Decided(Protocol):
    """What one call of a coordinator decided."""

    @property
    def replies(self) -> Sequence[Reply]: ...
    @property
    def appends(self) -> Sequence[Append]: ...
    @property
    def timers(self) -> Sequence[Due]: ...


D = TypeVar("D", bound=Decided)
D_co = TypeVar("D_co", bound=Decided, covariant=True)


class Coordinator(Protocol[D_co]):
    """A coordinator, as the service sees it."""

    def decide(self, request: Request[Any], caller: Caller, now_ms: int) -> D_co: ...
    def on_timer(self, timer: Any, now_ms: int) -> D_co: ...
    def on_append_result(self, append_id: int, error: Code, now_ms: int) -> D_co: ...
    def finish_load(self, partition: int, now_ms: int) -> D_co: ...
    def unload(self, partition: int, now_ms: int) -> D_co: ...
    def expire(self, now_ms: int) -> D_co: ...


class CoordinatorService(ABC, Generic[D]):
    """Replies, timers and records of one coordinator, and the partitions of its topic. Owned by the loop."""

    def __init__(self, writer: CoordinatorWriter, runtime: Runtime) -> None:
        self._writer = writer
        self._runtime = runtime
        self._loads = PartitionLoads(runtime, self._replay, self._loaded)

    @property
    @abstractmethod
    def coordinator(self) -> Coordinator[D]:
        """The coordinator, a cached property: it is imported and made when it first has something to do."""

    @property
    def is_used(self) -> bool:
        """Whether the coordinator had anything to do yet."""
        return "coordinator" in vars(self)

    @abstractmethod
    def _replay(self, record: Record, producer_id: int | None) -> None:
        """Apply a stored record."""

    def ask(self, request: Request[Any], caller: Caller) -> None:
        """Have a request decided. `caller.ticket` is called with the answer, now or later."""
        self._perform(self.coordinator.decide(request, caller, self._runtime.steady_ms()))

    def expire(self) -> None:
        """Delete what has expired."""
        if self.is_used:
            self._perform(self.coordinator.expire(self._runtime.steady_ms()))

    def _perform(self, decision: D) -> None:
        for reply in decision.replies:
            cast(ReplyTo, reply.ticket)(reply.response)
        for timer in decision.timers:
            delay_ms = timer.at_ms - self._runtime.steady_ms()
            self._runtime.loop.call_later(max(delay_ms, 0) / 1000, self._on_timer, timer)
        for append in decision.appends:
            self._append(append)

    def _on_timer(self, timer: Due) -> None:
        now_ms = self._runtime.steady_ms()
        if self._runtime.is_closed:
            return
        if now_ms < timer.at_ms:  # two clocks: the loop's clock may be a little ahead
            self._runtime.loop.call_later((timer.at_ms - now_ms) / 1000, self._on_timer, timer)
        else:
            self._perform(self.coordinator.on_timer(timer, now_ms))

    def _append(self, append: Append) -> None:
        then = partial(self._appended, append.append_id)
        self._writer.append(append.partition, append.records, then, append.producer)

    def _appended(self, append_id: int, error: Code) -> None:
        self._perform(self.coordinator.on_append_result(append_id, error, self._runtime.steady_ms()))

    # --- partitions of the coordinator's topic

    def _loaded(self, index: int) -> None:
        self._perform(self.coordinator.finish_load(index, self._runtime.steady_ms()))

    def resign(self, partition: Partition) -> None:
        """Forget what a partition coordinates: another broker leads it now."""
        self._loads.cancel(partition)
        self._perform(self.coordinator.unload(partition.index, self._runtime.steady_ms()))
