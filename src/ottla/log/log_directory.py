"""A data directory: all partition logs in it, their checkpoints, and the lock.

    DIR/.lock  meta.properties  .kafka_cleanshutdown  recovery-point-offset-checkpoint  …
    DIR/orders-0/…   DIR/orders-1/…   DIR/old-0.<32 hex>-delete/…

Opening takes the lock, reads the checkpoints, and opens every log, repairing those of an unclean stop. A log
with damage in its middle does not keep the others from being served: it is in `damaged`, not in `logs`.
`close` flushes everything and leaves the mark of a clean stop, unless a log is damaged: then the next opening
must find the damage again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from ottla.log import checkpoints, file_names
from ottla.log.checkpoints import TopicPartition
from ottla.log.file_system import REAL, FileSystem
from ottla.log.log_config import LogConfig
from ottla.log.partition_log import PartitionLog
from ottla.log.recovery import LogOpening, damaged
from ottla.log.recovery_report import RecoveryReport
from ottla.log.segment import Segment
from ottla.model.errors import ConfigError, DamagedLog, DirectoryInUse, StorageError
from ottla.security.private_files import FILE_MODE, make_private_directory

# version 0 is that of brokers with ZooKeeper; version 1 (KRaft) has node.id and directory.id instead.
META_VERSION, META_VERSION_KRAFT = "0", "1"
# The log of Kafka's controllers, which is no topic: it stays as it is.
CONTROLLERS_LOG = "__cluster_metadata"

LOCK = ".lock"

ConfigOf = Callable[[str, int], LogConfig]


class LogDirectory:
    """Owned by the broker's loop. Made by `LogDirectory.open`.

    absent    partitions of the checkpoints without a directory: deleted, or lost as `note_missing` tells
    notes     what was found about the small files, for the operator's log
    """

    def __init__(self, path: Path, lock: DirectoryLock, file_system: FileSystem) -> None:
        self.path = path
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.damaged: dict[TopicPartition, DamagedLog] = {}
        self.absent: set[TopicPartition] = set()
        self.first_dirty_offsets: dict[TopicPartition, int] = {}
        self.notes: list[str] = []
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
            make_private_directory(path)
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
        if path.exists() and not checkpoints.names_owner(known):
            remedy = checkpoints.REMEDY.format(self.path)
            raise StorageError(f"{path} does not say whose data these are: {remedy}")
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
        self._read_checkpoints()
        with os.scandir(self.path) as items:
            names = sorted(item.name for item in items if item.is_dir())
        for name in names:
            if name.endswith(file_names.DELETED_DIRECTORY):
                self._remove_tree(self.path / name)
            elif (partition := file_names.parse_partition_directory(name)) is not None:
                if partition[0] == CONTROLLERS_LOG:
                    continue
                self._open_log(partition, self.path / name, config_of(*partition), now_ms)
        known = {key for lines in self._checkpointed.values() for key in lines}
        self.absent = known - self.logs.keys() - self.damaged.keys()
        if self.was_clean:
            # From here on a crash is a crash again.
            self._file_system.remove(marker)
            self._file_system.sync_directory(self.path)
        if not self.was_clean and self.logs:
            self.checkpoint()  # a recovery point above a log that was cut would trust what comes there next

    def _open_log(self, partition: TopicPartition, path: Path, config: LogConfig, now_ms: int) -> None:
        try:
            self.logs[partition] = PartitionLog.open(
                path,
                config,
                now_ms,
                recovery_point=self._checkpointed[checkpoints.RECOVERY_POINT].get(partition, 0),
                start_offset=self._checkpointed[checkpoints.LOG_START].get(partition),
                high_watermark=self._checkpointed[checkpoints.HIGH_WATERMARK].get(partition),
                first_dirty=self._checkpointed[checkpoints.CLEANER].get(partition, 0),
                clean=self.was_clean,
                file_system=self._file_system,
            )
            self.first_dirty_offsets[partition] = self._checkpointed[checkpoints.CLEANER].get(partition, 0)
        except DamagedLog as damage:
            self.damaged[partition] = damage

    def _read_checkpoints(self) -> None:
        paths = [self.path / name for name in checkpoints.ALL]
        sums = checkpoints.read_checksums(self.path)
        is_new = not sums and not any(path.exists() for path in paths)  # they come with the first checkpoint
        for path in paths:
            self._checkpointed[path.name] = checkpoints.read_offsets(path)
            if not path.exists():
                if not is_new:
                    self.notes.append(f"{path} is missing: what it says of each partition is not known")
            elif path.name in sums and checkpoints.checksum(path.read_bytes()) not in sums[path.name]:
                self.notes.append(
                    f"{path} is not as this broker wrote it: changed by another one, or damaged"
                )

    def note_missing(self, topic: str, partition: int) -> bool:
        """Whether the directory of a partition is gone that had records: then it is in `damaged`."""
        key = topic, partition
        if key not in self.absent:
            return False
        end = max(lines.get(key, 0) for lines in self._checkpointed.values())
        if not end:
            return False
        path = file_names.partition_directory(self.path, *key)
        what = f"the directory is missing, and had records up to offset {end}"
        self.damaged[key] = damaged(path, what, path, 0, 0)
        return True

    # ---- partitions

    def create(self, topic: str, partition: int, config: LogConfig, now_ms: int) -> PartitionLog:
        """A new, empty log."""
        return self.create_all(topic, [partition], config, now_ms)[0]

    def create_all(
        self, topic: str, partitions: Iterable[int], config: LogConfig, now_ms: int, *, flush: bool = True
    ) -> list[PartitionLog]:
        """New, empty logs of one topic, with one wait for the disk; without `flush`, that is the caller's."""
        keys = [(topic, partition) for partition in partitions]
        paths = [file_names.partition_directory(self.path, *key) for key in keys]
        for key, path in zip(keys, paths, strict=True):
            if file_names.parse_partition_directory(path.name) != key or topic in {".", ".."}:
                raise ConfigError(f"{topic!r} partition {key[1]} is no name of a partition")
        self.forget_deleted(keys)
        made = []  # only these are ours to remove
        try:
            for key, path in zip(keys, paths, strict=True):
                self._file_system.make_directory(path)
                made.append(key)
            if flush:
                self.flush_names()
            for key, path in zip(keys, paths, strict=True):
                # Its directory is new: there is nothing to look for.
                opening = LogOpening(path, config, self._file_system, now_ms, clean=True, is_new=True)
                segment = Segment(path, 0, config, self._file_system, now_ms, is_new=True)
                self.logs[key] = PartitionLog(opening, [segment], RecoveryReport(is_clean=True))
                self.first_dirty_offsets[key] = 0
        except (OSError, StorageError) as error:
            self._undo_creation(made)
            raise StorageError(f"{self.path}: cannot make partitions of {topic}: {error}") from error
        return [self.logs[key] for key in keys]

    def flush_names(self) -> None:
        """Wait until partitions that were made survive a power cut. Raises StorageError."""
        try:
            self._file_system.sync_directory(self.path)
        except OSError as error:
            raise StorageError(f"{self.path}: cannot flush it: {error}") from error

    def forget_deleted(self, keys: Iterable[TopicPartition]) -> None:
        """Remove the lines of deleted partitions from the checkpoints, before new ones get their names.

        After a crash they would be taken for those of the new ones. Raises StorageError.
        """
        keys = set(keys)
        self.absent -= keys
        if not all(lines.keys().isdisjoint(keys) for lines in self._checkpointed.values()):
            self.checkpoint()

    def _undo_creation(self, keys: Iterable[TopicPartition]) -> None:
        """Remove partitions that were made before one failed; on a failing disk some may stay."""
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
                path = file_names.partition_directory(self.path, *key)
                is_lost = self.damaged.pop(key, None) is not None and not path.exists()
                self.first_dirty_offsets.pop(key, None)
                if not is_lost:
                    doomed.append(self._rename_away(path))
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

    def purge_deleted(self, doomed: Iterable[Path]) -> None:
        """Remove directories that `delete_all` returned. Any thread may call it. Raises StorageError."""
        try:
            for item in doomed:
                self._remove_tree(item)
        except OSError as error:
            raise StorageError(f"{self.path}: cannot remove a deleted partition: {error}") from error

    def _remove_tree(self, path: Path) -> None:
        for item in sorted(path.iterdir()):
            self._file_system.remove(item)
        self._file_system.remove_directory(path)

    # ---- checkpoints and end

    def checkpoint(self) -> None:
        """Write all offset checkpoints. Logs that are damaged or absent keep the lines they had."""
        lines = {
            checkpoints.RECOVERY_POINT: {name: log.recovery_point for name, log in self.logs.items()},
            # Before the start: a start is never above the high watermark that stands there.
            checkpoints.HIGH_WATERMARK: {name: log.high_watermark for name, log in self.logs.items()},
            checkpoints.LOG_START: {name: log.start_offset for name, log in self.logs.items()},
            checkpoints.CLEANER: dict(self.first_dirty_offsets),
        }
        for file_name, offsets in lines.items():
            known = self._checkpointed.get(file_name, {})
            kept = known.keys() & (self.damaged.keys() | self.absent)
            lines[file_name] = offsets | {key: known[key] for key in kept}
        try:
            checkpoints.write_all(self.path, lines, self._file_system)
            self._checkpointed |= lines
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


class DirectoryLock:
    """The `.lock` file of a data directory, held from construction to `release`: one broker at a time.

    Two locks on one descriptor. `lockf` is what Java's file locks are on Linux: it keeps a Kafka broker out,
    and a Kafka broker keeps us out. But it belongs to the process, so a second broker of this process would
    get it too; `flock` belongs to the descriptor and refuses that one. The kernel drops both locks when the
    process ends, however it ends.
    """

    def __init__(self, directory: Path) -> None:
        path = directory / LOCK
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._fd)
            self._fd = -1
            raise DirectoryInUse(
                f"{directory} is in use by another broker ({path} is locked): stop it, or give this one"
                f" another data directory"
            ) from error

    def release(self) -> None:
        """Let another broker in. May be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
