"""What a handler is, what it is given, and the list of them.

Every module of `ottla.broker.handlers` serves one API key and declares it as `HANDLER`; the modules are the
list, so adding an API means adding its file. What is served is what ApiVersions advertises.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import ottla.broker.handlers
from ottla.model.error_codes import Code
from ottla.model.errors import OttlaError
from ottla.wire.schema import Request, Response
from ottla.wire.server_connection import Call
from ottla.wire.versions import VersionRange

if TYPE_CHECKING:
    from ottla.broker.cluster import Cluster
    from ottla.broker.connection import Connection
    from ottla.broker.node import Node


class DropConnection(OttlaError):
    """A handler has no answer that the client would understand: the connection is closed, as Kafka does."""


class Inquiry:
    """A call that is being served, and the place where its answer goes."""

    __slots__ = ("call", "connection", "node")

    def __init__(self, node: Node, connection: Connection, call: Call) -> None:
        self.node = node
        self.connection = connection
        self.call = call

    @property
    def cluster(self) -> Cluster:
        """What all brokers of this process share."""
        return self.node.cluster

    @property
    def version(self) -> int:
        """The version of the request, and so of the answer."""
        return self.call.version

    def reply(self, response: Response) -> None:
        """Answer, later than the handler returned. A peer that has left is not told."""
        self.connection.answer(self.call, response)


Handle = Callable[[Inquiry, Any], Response | None]
Refuse = Callable[[Any, Code, int], Response]


@dataclass(frozen=True, slots=True)
class Handler:
    """One API of the broker.

    handle      the answer, or None when it will come by `Inquiry.reply`
    refuse      the answer that carries one error for the whole request: (request, error, version)
    pipelined   the next call of the connection may be served before this one is answered
    """

    request: type[Request[Any]]
    versions: VersionRange
    handle: Handle
    refuse: Refuse
    pipelined: bool = False
    oldest_without_zookeeper: int = 0

    def served(self, *, zookeeper: bool) -> VersionRange:
        """The versions that work: offsets of version 0 are kept in ZooKeeper or not at all."""
        oldest = (
            self.versions.oldest if zookeeper else max(self.versions.oldest, self.oldest_without_zookeeper)
        )
        return VersionRange(oldest, self.versions.newest)


@cache
def handlers() -> Mapping[int, Handler]:
    """All handlers by API key, in its order."""
    found = sorted(_declared(), key=lambda handler: handler.request.API.key)
    by_key = {handler.request.API.key: handler for handler in found}
    if len(by_key) != len(found):
        raise TypeError(f"two modules serve one API key: {[handler.request.API for handler in found]}")
    return MappingProxyType(by_key)


def _declared() -> Iterator[Handler]:
    package = ottla.broker.handlers
    for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        yield import_module(info.name).HANDLER
