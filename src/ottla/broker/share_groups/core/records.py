"""The records of `__share_group_state`, byte for byte as Kafka writes its snapshots.

    key 0    group, topic id, partition      value 0: start offset, and the state of records in flight

Only snapshots are written, and the topic is compacted. Kafka also writes updates (key 1) between snapshots,
and deletes old records by their offset instead. A null value is a tombstone. Other keys are ignored.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import NamedTuple

from ottla.broker.coordination.effects import Record
from ottla.broker.share_groups.core.record_state import RecordState
from ottla.broker.share_groups.core.share_partition import StateBatch
from ottla.model.errors import RemoteProtocolError
from ottla.model.java_hashes import java_abs, java_hash
from ottla.wire.schema import array, field, int8, int16, int32, int64, string, uuid, value
from ottla.wire.versioned_struct import VersionedStructs

SNAPSHOT_KEY = 0
VALUE_VERSION = 0

_KEYS = VersionedStructs("__share_group_state", flexible_since=1)
_VALUES = VersionedStructs("__share_group_state", flexible_since=0)


class ShareKey(NamedTuple):
    """A partition of a share group."""

    group_id: str
    topic_id: bytes
    partition: int


class ShareState(NamedTuple):
    """The stored state of a partition."""

    start_offset: int
    batches: Sequence[StateBatch] = ()
    state_epoch: int = 0


@value
class StoredKey:
    group_id: str = field(string)
    topic_id: bytes = field(uuid)
    partition: int = field(int32)


@value
class ShareStateBatch:
    first_offset: int = field(int64)
    last_offset: int = field(int64)
    delivery_state: int = field(int8)
    delivery_count: int = field(int16)


@value
class SnapshotValue:
    snapshot_epoch: int = field(int32)
    state_epoch: int = field(int32)
    leader_epoch: int = field(int32)
    start_offset: int = field(int64)
    create_timestamp: int = field(int64)
    write_timestamp: int = field(int64)
    state_batches: list[ShareStateBatch] = field(array(ShareStateBatch))
    delivery_complete_count: int = field(int32, default=-1, tag=0)


def partition_for(key: ShareKey, partition_count: int) -> int:
    """Return the partition of `__share_group_state` that holds a partition of a group, as in Kafka."""
    topic_id = base64.urlsafe_b64encode(key.topic_id).decode().rstrip("=")
    text = f"{key.group_id}:{topic_id}:{key.partition}"
    return java_abs(java_hash(text)) % partition_count


def snapshot_record(key: ShareKey, state: ShareState, done_count: int, now_ms: int) -> Record:
    """Return the record that stores a partition."""
    stored = SnapshotValue(
        snapshot_epoch=0,
        state_epoch=state.state_epoch,
        leader_epoch=0,
        start_offset=state.start_offset,
        delivery_complete_count=done_count,
        create_timestamp=now_ms,
        write_timestamp=now_ms,
        state_batches=[
            ShareStateBatch(
                first_offset=batch.first,
                last_offset=batch.last,
                delivery_state=batch.state,
                delivery_count=batch.delivery_count,
            )
            for batch in state.batches
        ],
    )
    return Record(_key(key), _VALUES.encode(stored, VALUE_VERSION))


def tombstone(key: ShareKey) -> Record:
    """Return the record that deletes a partition of a group."""
    return Record(_key(key), None)


def _key(key: ShareKey) -> bytes:
    stored = StoredKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)
    return _KEYS.encode(stored, SNAPSHOT_KEY)


def read(record: Record) -> tuple[ShareKey, ShareState | None] | None:
    """Return the key and the state, which is None for a tombstone; None for keys of other kinds.

    Raises RemoteProtocolError if the bytes are damaged or the value is of an unknown version.
    """
    if _KEYS.version_of(record.key, "key") != SNAPSHOT_KEY:
        return None
    stored_key = _KEYS.decode(StoredKey, record.key, SNAPSHOT_KEY)
    key = ShareKey(stored_key.group_id, stored_key.topic_id, stored_key.partition)
    if record.value is None:
        return key, None
    snapshot = _VALUES.decode(SnapshotValue, record.value, VALUE_VERSION)
    return key, ShareState(snapshot.start_offset, _batches(snapshot.state_batches), snapshot.state_epoch)


def _batches(stored: Sequence[ShareStateBatch]) -> list[StateBatch]:
    known = {state.value: state for state in RecordState}
    for batch in stored:
        if batch.delivery_state not in known:
            raise RemoteProtocolError(f"__share_group_state: {batch.delivery_state} is not a state")
    return [
        StateBatch(batch.first_offset, batch.last_offset, known[batch.delivery_state], batch.delivery_count)
        for batch in stored
    ]
