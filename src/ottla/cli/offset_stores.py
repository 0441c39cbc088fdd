"""The offset stores of `ottla offsets`, opened at first use."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from ottla.admin import Admin, TopicAndPartition
from ottla.admin.admin_config import AdminConfig
from ottla.cli.kafka.zookeeper_session import zookeeper_session
from ottla.client.zookeeper_metadata import ZooKeeperMetadata
from ottla.model.errors import ConfigError
from ottla.offsets import KafkaOffsets, LedgerOffsets, OffsetStore, ZooKeeperOffsets
from ottla.zookeeper.session import ZooKeeperSession


class OffsetStores:
    """Offset stores by their names on the command line."""

    def __init__(
        self, properties: Mapping[str, object], ledger: str | None, table: str, stack: ExitStack
    ) -> None:
        """`ledger`: the path of a SQLite database. `stack` closes what is opened here."""
        self._properties = properties
        self._config = AdminConfig.from_properties(properties)
        self._ledger_path = ledger
        self._table = table
        self._stack = stack

    def named(self, name: str, *, is_made: bool = False) -> OffsetStore:
        """`kafka`, `zookeeper` or `ledger`; with `is_made` a missing ledger is created."""
        openers: dict[str, Callable[[], OffsetStore]] = {
            "kafka": self._kafka,
            "zookeeper": lambda: ZooKeeperOffsets(self._session),
            "ledger": lambda: self._ledger(is_made=is_made),
        }
        return openers[name]()

    def live_members(self, group: str) -> list[str]:
        """The live members of the group, of either kind."""
        groups = self._admin.groups_named(group)
        return [member.member_id for description in groups.values() for member in description.members]

    def partitions(self) -> set[TopicAndPartition]:
        """All partitions of the cluster."""
        return {
            TopicAndPartition(name, partition.partition)
            for name, topic in self._admin.describe_topics().items()
            for partition in topic.partitions
        }

    @cached_property
    def _admin(self) -> Admin:
        return self._stack.enter_context(Admin(self._properties))

    @cached_property
    def _session(self) -> ZooKeeperSession:
        if not self._config.zookeeper_connect:
            raise ConfigError("offsets in ZooKeeper: say where it is, with --zookeeper HOST:PORT")
        return self._stack.enter_context(zookeeper_session(self._config.zookeeper_connect))

    def _kafka(self) -> OffsetStore:
        # Fails within seconds if no broker answers; the store would wait longer.
        self._admin.describe_cluster()
        client = self._config.client
        if not client.bootstrap:
            metadata = ZooKeeperMetadata(self._session, protocol=client.security.protocol)
            client = replace(client, bootstrap=metadata.bootstrap())
        return self._stack.enter_context(KafkaOffsets(client, timeout=self._config.api_timeout_ms / 1000))

    def _ledger(self, *, is_made: bool) -> OffsetStore:
        if self._ledger_path is None:
            raise ConfigError("offsets in a ledger: say where it is, with --ledger FILE (a SQLite database)")
        # A plan creates nothing: a missing ledger is an empty one, in memory.
        is_there = _has_table(self._ledger_path, self._table)
        connection = sqlite3.connect(self._ledger_path if is_there or is_made else ":memory:")
        offsets = LedgerOffsets(self._stack.enter_context(closing(connection)), table=self._table)
        if not is_there:
            offsets.create_table()
        return offsets


def _has_table(path: str, table: str) -> bool:
    if not Path(path).exists():
        return False
    with closing(sqlite3.connect(path)) as connection:
        named = (table.rpartition(".")[2],)
        return bool(connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", named).fetchall())
