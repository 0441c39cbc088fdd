"""`Closing`: classes with `close()` that can be used in a `with` block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Closing(ABC):
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
