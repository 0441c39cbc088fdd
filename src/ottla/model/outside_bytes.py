"""Bytes that a message carries and that are not in memory when it is encoded."""

from __future__ import annotations

from abc import ABC, abstractmethod


class OutsideBytes(ABC):
    """A record set of which encoding needs only the length.

    The writer of the message knows where the bytes are.
    """

    __slots__ = ()

    @abstractmethod
    def __len__(self) -> int: ...
