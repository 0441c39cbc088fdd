"""The records of `__consumer_offsets`, byte for byte as Kafka writes them (spec §8.2).

Key and value each begin with an int16 version; what follows is a versioned struct, so the wire's own
notation declares it:

    key 0, 1   group, topic, partition          value 0 to 4: a committed offset
    key 2      group                            value 0 to 4: generation, protocol and members of a group

A null value is a tombstone. Keys of other versions belong to newer kinds of groups (KIP-848 and later) and
are ignored. Values of other versions are refused: to ignore one would lose an offset silently.

Records are written as by Kafka 3.9 and 4.1: offsets as v3, or v1 when the commit carries its own
retention, because only v1 has a field for it (and none for the leader epoch); groups as v3.
"""

from __future__ import annotations

from typing import TypeAlias

from ottla.broker.coordination.effects import Record
from ottla.wire.schema import array, blob, field, int32, int64, string, value
from ottla.wire.versioned_struct import VersionedStructs

NO_TIMESTAMP = -1
NO_LEADER_EPOCH = -1
OFFSET_KEY_VERSION = 1
GROUP_KEY_VERSION = 2
VALUE_VERSION = 3
VALUE_VERSION_WITH_EXPIRY = 1
_VALUE_VERSION_NEWEST = 4

# Keys never became flexible: the version of a key is its kind.
_CODEC = VersionedStructs("__consumer_offsets", flexible_since=4)


@value
class OffsetKey:
    group: str = field(string)
    topic: str = field(string)
    partition: int = field(int32)


@value
class OffsetValue:
    """A committed offset; `expire_timestamp` is set where the commit named its own retention."""

    offset: int = field(int64)
    leader_epoch: int = field(int32, since=3, default=NO_LEADER_EPOCH, ignorable=True)
    metadata: str = field(string)
    commit_timestamp: int = field(int64)
    expire_timestamp: int = field(int64, since=1, until=1, default=NO_TIMESTAMP, ignorable=True)


@value
class GroupKey:
    group: str = field(string)


@value
class MemberValue:
    member_id: str = field(string)
    group_instance_id: str | None = field(string, since=3, nullable_since=3, default=None, ignorable=True)
    client_id: str = field(string)
    client_host: str = field(string)
    rebalance_timeout: int = field(int32, since=1, default=-1, ignorable=True)
    session_timeout: int = field(int32)
    subscription: bytes = field(blob)
    assignment: bytes = field(blob)


@value
class GroupValue:
    """A generation of a group as it was stored; without members, the group is empty."""

    protocol_type: str = field(string)
    generation: int = field(int32)
    protocol: str | None = field(string, nullable_since=0)
    leader: str | None = field(string, nullable_since=0)
    current_state_timestamp: int = field(int64, since=2, default=NO_TIMESTAMP, ignorable=True)
    members: list[MemberValue] = field(array(MemberValue))


Key: TypeAlias = OffsetKey | GroupKey
Entry: TypeAlias = tuple[OffsetKey, OffsetValue | None] | tuple[GroupKey, GroupValue | None]


# --- writing --------------------------------------------------------------------------------------------


def offset_record(key: OffsetKey, committed: OffsetValue) -> Record:
    """Return the record of a committed offset, in the version that can hold it."""
    expires = committed.expire_timestamp != NO_TIMESTAMP
    version = VALUE_VERSION_WITH_EXPIRY if expires else VALUE_VERSION
    return Record(_CODEC.encode(key, OFFSET_KEY_VERSION), _CODEC.encode(committed, version))


def offset_tombstone(key: OffsetKey) -> Record:
    """Return the record that deletes a committed offset."""
    return Record(_CODEC.encode(key, OFFSET_KEY_VERSION), None)


def group_record(group_id: str, stored: GroupValue) -> Record:
    """Return the record of a generation of a group."""
    return Record(
        _CODEC.encode(GroupKey(group=group_id), GROUP_KEY_VERSION), _CODEC.encode(stored, VALUE_VERSION)
    )


def group_tombstone(group_id: str) -> Record:
    """Return the record that deletes a group."""
    return Record(_CODEC.encode(GroupKey(group=group_id), GROUP_KEY_VERSION), None)


# --- reading --------------------------------------------------------------------------------------------


def read(record: Record) -> Entry | None:
    """Return the key and value of a record; None for kinds that this broker does not have.

    Raises RemoteProtocolError if the bytes are damaged or the value is of an unknown version.
    """
    key = read_key(record.key)
    if isinstance(key, OffsetKey):
        return key, None if record.value is None else _CODEC.decode(
            OffsetValue, record.value, _VALUE_VERSION_NEWEST
        )
    if isinstance(key, GroupKey):
        return key, None if record.value is None else _CODEC.decode(
            GroupValue, record.value, _VALUE_VERSION_NEWEST
        )
    return None


def read_key(data: bytes) -> Key | None:
    """Return the key alone; None for unknown versions."""
    version = _CODEC.version_of(data, "key")
    if version in (0, OFFSET_KEY_VERSION):
        return _CODEC.decode(OffsetKey, data, GROUP_KEY_VERSION)
    if version == GROUP_KEY_VERSION:
        return _CODEC.decode(GroupKey, data, GROUP_KEY_VERSION)
    return None
