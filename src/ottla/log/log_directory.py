"""A data directory: all partition logs in it, the checkpoints about them, and who owns it.

    DIR/.lock  meta.properties  .kafka_cleanshutdown  recovery-point-offset-checkpoint  …
    DIR/orders-0/…   DIR/orders-1/…   DIR/old-0.<32 hex>-delete/…

Opening takes the lock, reads the checkpoints, and opens every log, repairing those of an unclean stop. A log
with damage in its middle does not keep the others from being served: it stands in `damaged`, not in `logs`.
`close` flushes everything and leaves the mark of a clean stop, unless a log is damaged: then the next opening
must find the damage again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path

from ottla.log import checkpoints, file_names
from ottla.log.checkpoints import TopicPartition
from ottla.log.config import LogConfig
from ottla.log.directory_lock import DirectoryLock
from ottla.log.file_system import REAL, FileSystem
from ottla.log.partition_log import PartitionLog
from ottla.log.recovery import OnDamage
from ottla.model.errors import ConfigError, DamagedLog, StorageError

# version 0 is that of brokers with ZooKeeper; version 1 (KRaft) has node.id and directory.id instead.
META_VERSION, META_VERSION_KRAFT = "0", "1"
# The log of Kafka's controllers, which is no topic: it stays as it is.
CONTROLLERS_LOG = "__cluster_metadata"

ConfigOf = Callable[[str, int], LogConfig]


class LogDirectory:
    """Owned by the broker's loop. Made by `LogDirectory.open`."""

    def __init__(self, path: Path, lock: DirectoryLock, file_system: FileSystem) -> None:
        self.path = path
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.damaged: dict[TopicPartition, DamagedLog] = {}
        self.first_dirty_offsets: dict[TopicPartition, int] = {}
        self.was_clean = False
        self._lock = lock
        self._file_system = file_system
        self._checkpointed: dict[str, dict[TopicPartition, int]] = {}

    @classmethod
    def open(
        cls,
        path: Path,
        config_of: ConfigOf,
        now_ms: int,
        *,
        broker_id: int = 0,
        cluster_id: str = "",
        file_system: FileSystem = REAL,
    ) -> LogDirectory:
        """Open all logs of a data directory, which is made if it is missing.

        Raises DirectoryInUse if another broker has it, StorageError if it belongs to another broker id.
        """
        try:
            path.mkdir(parents=True, exist_ok=True)
            directory = cls(path, DirectoryLock(path), file_system)
        except OSError as error:
            raise StorageError(f"{path}: cannot use it as data directory: {error}") from error
        try:
            directory._claim(broker_id, cluster_id)
            directory._load(config_of, now_ms)
        except BaseException as error:
            directory.abandon()
            if isinstance(error, OSError):
                raise StorageError(f"{path}: cannot open the data directory: {error}") from error
            raise
        return directory

    def _claim(self, broker_id: int, cluster_id: str) -> None:
        """Check or write `meta.properties`."""
        path = self.path / checkpoints.META
        known = checkpoints.read_properties(path)
        wanted = {"version": META_VERSION, "broker.id": str(broker_id)}
        if known.get("version") == META_VERSION_KRAFT:
            wanted = {"node.id": str(broker_id)}
        if cluster_id:
            wanted["cluster.id"] = cluster_id
        for name, value in wanted.items():
            if known.get(name, value) != value:
                what = f"{path} says {name}={known[name]}, not {value}"
                raise StorageError(f"{what}: these are the data of another broker")
        if not known:
            checkpoints.write_properties(path, wanted, self._file_system)

    def _load(self, config_of: ConfigOf, now_ms: int) -> None:
        marker = self.path / checkpoints.CLEAN_SHUTDOWN
        self.was_clean = marker.exists()
        # From here on a crash is a crash again.
        self._file_system.remove(marker)
        self._file_system.sync_directory(self.path)
        for name in (checkpoints.RECOVERY_POINT, checkpoints.LOG_START, checkpoints.CLEANER):
            self._checkpointed[name] = checkpoints.read_offsets(self.path / name)
        for item in sorted(self.path.iterdir()):
            if not item.is_dir():
                continue
            if item.name.endswith(file_names.DELETED_DIRECTORY):
                self._remove_tree(item)
            elif (partition := file_names.parse_partition_directory(item.name)) is not None:
                if partition[0] == CONTROLLERS_LOG:
                    continue
                self._open_log(partition, item, config_of(*partition), now_ms)
        if not self.was_clean and self.logs:
            self.checkpoint()  # a recovery point above a log that was cut would trust what comes there next

    def _open_log(self, partition: TopicPartition, path: Path, config: LogConfig, now_ms: int) -> None:
        try:
            self.logs[partition] = PartitionLog.open(
                path,
                config,
                now_ms,
                recovery_point=self._checkpointed[checkpoints.RECOVERY_POINT].get(partition, 0),
                start_offset=self._checkpointed[checkpoints.LOG_START].get(partition, 0),
                clean=self.was_clean,
                file_system=self._file_system,
            )
            self.first_dirty_offsets[partition] = self._checkpointed[checkpoints.CLEANER].get(partition, 0)
        except DamagedLog as damage:
            self.damaged[partition] = damage

    def repair(self, topic: str, partition: int, config: LogConfig, now_ms: int) -> PartitionLog:
        """Open a damaged log by losing everything from the damage on: for a person to decide."""
        path = file_names.partition_directory(self.path, topic, partition)
        log = PartitionLog.open(path, config, now_ms, file_system=self._file_system, on_damage=OnDamage.CUT)
        self.damaged.pop((topic, partition), None)
        self.logs[topic, partition] = log
        self.first_dirty_offsets[topic, partition] = 0
        return log

    # ---- partitions

    def create(self, topic: str, partition: int, config: LogConfig, now_ms: int) -> PartitionLog:
        """A new, empty log."""
        return self.create_all(topic, [partition], config, now_ms)[0]

    def create_all(
        self, topic: str, partitions: Iterable[int], config: LogConfig, now_ms: int
    ) -> list[PartitionLog]:
        """New, empty logs of one topic, with one wait for the disk."""
        keys = [(topic, partition) for partition in partitions]
        paths = [file_names.partition_directory(self.path, *key) for key in keys]
        for key, path in zip(keys, paths, strict=True):
            if file_names.parse_partition_directory(path.name) != key or topic in {".", ".."}:
                raise ConfigError(f"{topic!r} partition {key[1]} is no name of a partition")
        if any(key in lines for lines in self._checkpointed.values() for key in keys):
            # Lines of a deleted partition of this name: after a crash they would be believed of the new one.
            self.checkpoint()
        made = []  # only these are ours to remove
        try:
            for key, path in zip(keys, paths, strict=True):
                self._file_system.make_directory(path)
                made.append(key)
            self._file_system.sync_directory(self.path)
            for key, path in zip(keys, paths, strict=True):
                self.logs[key] = PartitionLog.open(
                    path, config, now_ms, clean=True, file_system=self._file_system
                )
                self.first_dirty_offsets[key] = 0
        except (OSError, StorageError) as error:
            self._undo_creation(made)
            raise StorageError(f"{self.path}: cannot make partitions of {topic}: {error}") from error
        return [self.logs[key] for key in keys]

    def _undo_creation(self, keys: Iterable[TopicPartition]) -> None:
        """Remove what there is of partitions that could not all be made; a disk that fails may keep some."""
        for key in keys:
            if key in self.logs:
                self.logs.pop(key).abandon()
                self.first_dirty_offsets.pop(key, None)
            with contextlib.suppress(OSError):
                self._remove_tree(file_names.partition_directory(self.path, *key))

    def delete(self, topic: str, partition: int) -> Path:
        """Take a partition out: its directory is renamed at once and removed by `purge_deleted`.

        The rename decides: a crash before it leaves the partition, after it the next opening ends the job.
        """
        return self.delete_all([(topic, partition)])[0]

    def delete_all(self, partitions: Iterable[TopicPartition]) -> list[Path]:
        """Take partitions out, also damaged ones, with one wait for the disk."""
        doomed = []
        try:
            for key in partitions:
                if key in self.logs:
                    self.logs.pop(key).abandon()
                self.damaged.pop(key, None)
                self.first_dirty_offsets.pop(key, None)
                doomed.append(self._rename_away(file_names.partition_directory(self.path, *key)))
            self._file_system.sync_directory(self.path)
        except OSError as error:
            raise StorageError(f"{self.path}: cannot delete partitions: {error}") from error
        return doomed

    def _rename_away(self, path: Path) -> Path:
        number = 0
        while (doomed := self._doomed_path(path.name, number)).exists():
            number += 1
        self._file_system.rename(path, doomed)
        return doomed

    def _doomed_path(self, name: str, number: int) -> Path:
        unique = f".{number:032x}{file_names.DELETED_DIRECTORY}"
        # Kafka cuts the topic too, so that the name fits the 255 bytes of a directory name.
        return self.path / (name[: 255 - len(unique)] + unique)

    def purge_deleted(self) -> int:
        """Remove the directories of deleted partitions; how many."""
        doomed = [item for item in self.path.iterdir() if item.name.endswith(file_names.DELETED_DIRECTORY)]
        try:
            for item in doomed:
                self._remove_tree(item)
        except OSError as error:
            raise StorageError(f"{self.path}: cannot remove a deleted partition: {error}") from error
        return len(doomed)

    def _remove_tree(self, path: Path) -> None:
        for item in sorted(path.iterdir()):
            self._file_system.remove(item)
        self._file_system.remove_directory(path)

    # ---- checkpoints and end

    def checkpoint(self) -> None:
        """Write all offset checkpoints. Damaged logs keep the lines they had."""
        lines = {
            checkpoints.RECOVERY_POINT: {name: log.recovery_point for name, log in self.logs.items()},
            checkpoints.LOG_START: {name: log.start_offset for name, log in self.logs.items()},
            checkpoints.HIGH_WATERMARK: {name: log.high_watermark for name, log in self.logs.items()},
            checkpoints.CLEANER: dict(self.first_dirty_offsets),
        }
        try:
            for file_name, offsets in lines.items():
                known = self._checkpointed.get(file_name, {})
                kept = {name: offset for name, offset in known.items() if name in self.damaged}
                checkpoints.write_offsets(self.path / file_name, kept | offsets, self._file_system)
                self._checkpointed[file_name] = kept | offsets
        except OSError as error:
            raise StorageError(f"{self.path}: cannot write checkpoints: {error}") from error

    def close(self) -> None:
        """Flush and close everything, and mark the stop as clean unless a log could not be closed.

        Raises the first StorageError after all have had their turn.
        """
        failures: list[StorageError] = []
        try:
            for log in self.logs.values():
                try:
                    log.close()
                except StorageError as failure:
                    failures.append(failure)
            self.checkpoint()
            if not self.damaged and not failures:
                self._file_system.replace_file(self.path / checkpoints.CLEAN_SHUTDOWN, b"")
        except OSError as error:
            raise StorageError(f"{self.path}: cannot mark the stop as clean: {error}") from error
        finally:
            self.abandon()
        if failures:
            raise failures[0]

    def abandon(self) -> None:
        """Give up descriptors and the lock and leave the disk alone, as a crash would."""
        for log in self.logs.values():
            log.abandon()
        self._lock.release()
