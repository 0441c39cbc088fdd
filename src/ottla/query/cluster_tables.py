"""Topics, offsets, groups and lag as Arrow tables, for SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from ottla.admin import Admin

TOPICS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("leader", pa.int32()),
        ("replicas", pa.list_(pa.int32())),
        ("in_sync", pa.list_(pa.int32())),
        ("is_internal", pa.bool_()),
    ]
)
OFFSETS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("first_offset", pa.int64()),
        ("end_offset", pa.int64()),
    ]
)
GROUPS = pa.schema(
    [("group", pa.string()), ("kind", pa.string()), ("type", pa.string()), ("state", pa.string())]
)
LAG = pa.schema(
    [
        ("group", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("committed", pa.int64()),
        ("end_offset", pa.int64()),
        ("lag", pa.int64()),
        ("member", pa.string()),
        ("store", pa.string()),
    ]
)


def _topics(admin: Admin) -> list[tuple[object, ...]]:
    return [
        (name, part.partition, part.leader, list(part.replicas), list(part.isr), topic.is_internal)
        for name, topic in admin.describe_topics().items()
        for part in topic.partitions
    ]


def _offsets(admin: Admin) -> list[tuple[object, ...]]:
    topics = admin.list_topics()
    first, end = (admin.list_offsets(topics, at) for at in ("earliest", "latest"))
    return [(*part, first[part].offset, end[part].offset) for part in sorted(end)]


def _groups(admin: Admin) -> list[tuple[object, ...]]:
    return [
        (group.group_id, group.kind.value, group.group_type, group.state) for group in admin.list_groups()
    ]


def _lag(admin: Admin) -> list[tuple[object, ...]]:
    names = sorted({group.group_id for group in admin.list_groups()})
    return [
        (
            *(name, *row.topic_partition, row.committed, row.end, row.lag),
            *(
                row.member.member_id if row.member else row.owner,
                row.stored_in.value if row.stored_in else None,
            ),
        )
        for name, lag in admin.group_lag(names).items()
        for row in lag.partitions
    ]


_TABLES: Mapping[str, tuple[pa.Schema, Callable[[Admin], list[tuple[object, ...]]]]] = {
    "topics": (TOPICS, _topics),
    "offsets": (OFFSETS, _offsets),
    "groups": (GROUPS, _groups),
    "lag": (LAG, _lag),
}
NAMES = frozenset(_TABLES)


def cluster_table(name: str, admin: Admin) -> pa.Table:
    """The table of one of `NAMES` as it is now. Raises OttlaError."""
    schema, rows_of = _TABLES[name]
    rows = rows_of(admin)
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [pa.array(list(column), kind) for column, kind in zip(columns, schema.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
