"""Classes with `close()` that can be used in a `with` block, or in `async with` on an event loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Never, Self


class OfOneProcess:
    """Base of objects with connections and threads: these cannot be copied, nor sent to another process."""

    __slots__ = ()

    def __reduce__(self) -> Never:
        raise TypeError(f"{type(self).__name__} cannot be copied or pickled: make one in each process")


class Closing(OfOneProcess, ABC):
    """Base of classes with a `close()` that ends them: leaving a `with` block calls it."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """End it. May be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClosing(OfOneProcess, ABC):
    """The same on an event loop: leaving an `async with` block awaits `close()`."""

    __slots__ = ()

    @abstractmethod
    async def close(self) -> None:
        """End it. May be called twice."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
