"""Calls to the cluster for pages and samples: one at a time, because an Admin is for one thread at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from ottla.admin import Admin
from ottla.admin.access import ClusterAccess
from ottla.admin.admin_config import AdminConfig
from ottla.client.conversation import completed
from ottla.client.pool import ThreadDriver
from ottla.model.closing import Closing
from ottla.model.errors import OttlaError
from ottla.query.local_files import admin_properties, reader_properties
from ottla.schemas.json_texts import json_texts_of
from ottla.schemas.registry import Schemas
from ottla.zookeeper.session import ZooKeeperSession

T = TypeVar("T")


class ClusterReader(Closing):
    """`properties` are a client's. Two connections: samples do not keep pages waiting.

    `schemas`, a registry's URL or a directory, decode keys and values; `registry_error` says why not.
    """

    def __init__(self, properties: Mapping[str, object], schemas: str | Schemas | None = None) -> None:
        self.properties = dict(properties)
        self.schemas = schemas
        self.registry_error = ""
        self._json_texts = json_texts_of(schemas)
        self._given = admin_properties(properties)
        self._admin = Admin(self._given)
        self._lock = threading.Lock()
        self._access: ClusterAccess | None = None
        self._access_lock = threading.Lock()

    @property
    def address(self) -> str:
        """The address of the cluster, as the user gave it."""
        brokers = self._given.get("bootstrap.servers") or self._given.get("bootstrap_servers")
        return str(brokers or self._given.get("zookeeper.connect") or "")

    @property
    def has_zookeeper(self) -> bool:
        """Whether ZooKeeper's address is known."""
        return bool(self._given.get("zookeeper.connect") or self._given.get("zookeeper_connect"))

    @property
    def reading(self) -> dict[str, object]:
        """Settings for consumers and producers."""
        return reader_properties(self.properties)

    def decoded(self, data: bytes | None, subject: str) -> bytes | None:
        """The bytes as JSON text if a schema decodes them; else as they are."""
        if self._json_texts is None:
            return data
        try:
            text = self._json_texts.encoded(data, subject)
        except OttlaError as error:
            self.registry_error = str(error)
            return data
        self.registry_error = ""
        return text

    def ask(self, call: Callable[[Admin], T]) -> T:
        """Return what `call(admin)` returns. Raises OttlaError."""
        with self._lock:
            return call(self._admin)

    def access(self, call: Callable[[ClusterAccess], Coroutine[Any, Any, T]]) -> T:
        """Return what `call(access)` returns, for requests that Admin does not have. Raises OttlaError."""
        with self._access_lock:
            if self._access is None:
                self._access = ClusterAccess(AdminConfig.from_properties(self._given), ThreadDriver())
            return completed(call(self._access))

    def zookeeper(self, call: Callable[[ZooKeeperSession], T]) -> T:
        """Return what `call(session)` returns, with a ZooKeeper session. Raises OttlaError."""

        async def looked_up(access: ClusterAccess) -> T:
            return call(await access.zookeeper("showing znodes", "they are in ZooKeeper"))

        return self.access(looked_up)

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            self._admin.close()
        with self._access_lock:
            if self._access is not None:
                completed(self._access.close())
