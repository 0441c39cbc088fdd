"""The check of a whole data directory, and its repair: what `ottla log check` and `ottla log repair` do.

    DIR/ottla.json  meta.properties  …-offset-checkpoint  ottla-checksums     here
    DIR/TOPIC-PARTITION/…                                                     log.inspection

Both hold the directory's lock, so no broker runs meanwhile. A check reads every byte and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ottla.broker.storage.catalog import FILE_NAME as CATALOG
from ottla.broker.storage.catalog import JOURNAL_NAME, Catalog
from ottla.broker.storage.journal import damaged_lines
from ottla.log import checkpoints, file_names
from ottla.log.checkpoints import TopicPartition
from ottla.log.file_system import REAL
from ottla.log.inspection import NEXT_START, Finding, Known, inspected
from ottla.log.log_directory import CONTROLLERS_LOG, DirectoryLock
from ottla.log.repair import Continuation, Excision, Removal, Workshop, carry_out, room_for
from ottla.model.errors import StorageError


@dataclass(slots=True)
class DataCheck:
    """The findings. `partitions` and `size`: how much was checked."""

    findings: list[Finding] = field(default_factory=list)
    partitions: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class Repaired:
    """A finding, the copies of what was taken away, and the error if it could not be repaired."""

    finding: Finding
    copies: tuple[Path, ...] = ()
    error: str | None = None


def check(root: Path) -> DataCheck:
    """Check a data directory. Raises DirectoryInUse if a broker runs on it, StorageError if it is none."""
    lock = _locked(root)
    try:
        return _checked(root)
    finally:
        lock.release()


def repair(root: Path, copies: Path) -> tuple[DataCheck, list[Repaired]]:
    """Check a data directory and repair what was found, with copies of what goes. Raises as `check` does."""
    lock = _locked(root)
    try:
        checked = _checked(root)
        room_for(copies, sum(_copied_bytes(item) for item in checked.findings))
        workshop = Workshop(root, copies, REAL)
        return checked, [_repaired(finding, workshop) for finding in checked.findings]
    finally:
        lock.release()


def _locked(root: Path) -> DirectoryLock:
    if not root.is_dir():
        raise StorageError(f"{root} is no directory")
    is_data = (root / checkpoints.META).exists() or (root / CATALOG).exists()
    if not is_data and not any(file_names.parse_partition_directory(path.name) for path in root.iterdir()):
        raise StorageError(
            f"{root} is no data directory of a broker: it has neither partitions nor a catalog"
        )
    try:
        return DirectoryLock(root)
    except OSError as error:
        raise StorageError(f"{root}: cannot lock it: {error}") from error


def _copied_bytes(finding: Finding) -> int:
    removed = (action.path for action in finding.actions if isinstance(action, Removal))
    return finding.bytes_cut + sum(path.stat().st_size for path in removed if path.exists())


def _repaired(finding: Finding, workshop: Workshop) -> Repaired:
    copies: list[Path] = []
    try:
        for action in finding.actions:
            copies += carry_out(action, workshop)
    except StorageError as error:
        return Repaired(finding, tuple(copies), str(error))
    return Repaired(finding, tuple(copies))


# --- the whole directory


def _checked(root: Path) -> DataCheck:
    checked = DataCheck()
    catalog = _catalog(root, checked)
    checked.findings += _meta_findings(root, catalog)
    lines = {name: _lines(root / name, checked) for name in checkpoints.ALL}
    unreadable = {item.path for item in checked.findings}
    checked.findings += [item for item in _checksum_findings(root) if item.path not in unreadable]
    was_clean = (root / checkpoints.CLEAN_SHUTDOWN).exists()
    seen = set()
    for path in sorted(root.iterdir()):
        partition = file_names.parse_partition_directory(path.name)
        if partition is None or not path.is_dir() or partition[0] == CONTROLLERS_LOG:
            continue
        seen.add(partition)
        checked.partitions += 1
        checked.size += sum(item.stat().st_size for item in path.iterdir())
        checked.findings += inspected(path, _known(partition, lines, catalog, was_clean))
    checked.findings += _missing(root, catalog, seen, lines)
    return checked


def _catalog(root: Path, checked: DataCheck) -> Catalog | None:
    path = root / JOURNAL_NAME
    try:
        catalog = Catalog(root)
        lost = path if (root / CATALOG).exists() else root / CATALOG
        checked.findings += [Finding(lost, "catalog", loss, NEXT_START) for loss in catalog.losses]
        return catalog
    except StorageError as error:
        bad = damaged_lines(path.read_bytes()) if path.exists() else []
        if bad:
            size = sum(end - start for start, end in bad)
            damage = f"{len(bad)} changes of topics or settings do not match their checksums"
            remedy = "they are lost; all others stay"
            actions = (Excision(path, tuple(bad)),)
            checked.findings.append(Finding(path, "catalog", damage, remedy, actions, bytes_cut=size))
            return None
        remedy = "it is removed: topics are made from their directories, and their configs are lost"
        action = Removal(root / CATALOG)
        checked.findings.append(Finding(root / CATALOG, "catalog", _cause(error), remedy, (action,)))
        return None


def _cause(error: StorageError) -> str:
    cause = error.__cause__
    return f"it is damaged: {cause}" if cause is not None else str(error)


def _meta_findings(root: Path, catalog: Catalog | None) -> Iterator[Finding]:
    path = root / checkpoints.META
    remedy = "it is removed, and the next start writes it anew"
    damage = None
    try:
        known = checkpoints.read_properties(path)
        if path.exists() and not checkpoints.names_owner(known):
            damage = "it does not say whose data these are"
        elif (
            catalog
            and catalog.topics
            and catalog.cluster_id
            and known.get("cluster.id", "") not in ("", catalog.cluster_id)
        ):
            damage = f"it says cluster.id={known['cluster.id']}, and the catalog {catalog.cluster_id}"
    except StorageError:
        damage = "it is not text"
    if damage is not None:
        yield Finding(path, "owner", damage, remedy, (Removal(path),))


def _lines(path: Path, checked: DataCheck) -> dict[TopicPartition, int]:
    try:
        return checkpoints.read_offsets(path)
    except StorageError:
        damage = "it is no checkpoint file of version 0"
        remedy = "it is removed, and the next start looks at every log from its start"
        checked.findings.append(Finding(path, "checkpoint", damage, remedy, (Removal(path),)))
        return {}


def _checksum_findings(root: Path) -> Iterator[Finding]:
    sums = checkpoints.read_checksums(root)
    for name in checkpoints.ALL:
        path = root / name
        if name in sums and path.exists() and checkpoints.checksum(path.read_bytes()) not in sums[name]:
            damage = "it is not as this broker wrote it: changed by another one, or damaged"
            remedy = "it is taken as it is: look at what it says"
            yield Finding(path, "checkpoint", damage, remedy, (Removal(root / checkpoints.CHECKSUMS),))


def _known(
    partition: TopicPartition,
    lines: dict[str, dict[TopicPartition, int]],
    catalog: Catalog | None,
    was_clean: bool,  # noqa: FBT001 - passed on to a field of this name
) -> Known:
    topic = catalog.topics.get(partition[0]) if catalog else None
    is_compacted = topic is not None and "compact" in topic.overrides.get("cleanup.policy", "")
    return Known(
        lines[checkpoints.RECOVERY_POINT].get(partition, 0),
        lines[checkpoints.LOG_START].get(partition),
        lines[checkpoints.HIGH_WATERMARK].get(partition),
        is_compacted or lines[checkpoints.CLEANER].get(partition, 0) > 0,
        was_clean,
    )


def _missing(
    root: Path,
    catalog: Catalog | None,
    seen: set[TopicPartition],
    lines: dict[str, dict[TopicPartition, int]],
) -> Iterator[Finding]:
    """Yield a finding for each partition that had records and has no directory."""
    for topic in catalog.topics.values() if catalog else ():
        for key in ((topic.name, index) for index in range(topic.partition_count)):
            end = max(of_file.get(key, 0) for of_file in lines.values())
            if key in seen or not end or topic.is_deleting:
                continue
            path = file_names.partition_directory(root, *key)
            start = lines[checkpoints.LOG_START].get(key, 0)
            damage = f"the directory is missing, and had records up to offset {end}"
            remedy = "they are lost; an empty batch keeps their offsets from being given twice"
            actions = (Continuation(path, start, max(end, start + 1)),)
            yield Finding(path, "log", damage, remedy, actions, end - start)
