"""The tables of kafka-consumer-groups, as Kafka 4 prints them: every row begins with a line feed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from ottla.admin import (
    CommittedOffset,
    GroupDescription,
    GroupLag,
    GroupListing,
    GroupMember,
    PartitionLag,
    ShareOffset,
    TopicAndPartition,
)
from ottla.cli.kafka.java_order import java_partition_order
from ottla.model.topic_partition import by_topic

MISSING = "-"
_NARROW = 15


def rows_text(rows: Sequence[Sequence[str]], widths: Sequence[int]) -> str:
    """Rows padded to these column widths; a column of width 0 is the last one and not padded."""
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("\n" + " ".join(cells))
    return "".join(lines)


def _width(rows: Iterable[Sequence[str]], column: int, least: int = _NARROW) -> int:
    """The width of a column, without its title."""
    return max([least, *(len(row[column]) for row in rows)])


def _host(member: GroupMember) -> str:
    """A member's host as Java prints an address."""
    return f"/{member.host.removeprefix('/')}"


def _cell_text(value: object) -> str:
    return MISSING if value is None or value == "" else str(value)


# --- --list


def listing_text(groups: Sequence[GroupListing], *, has_type: bool, has_state: bool) -> str:
    """Groups with their types or states."""
    width = max([_NARROW, *(len(group.group_id) for group in groups)]) + 10

    def line(*cells: str) -> str:
        wanted = [cells[0].ljust(width)]
        wanted += [cells[1].ljust(20)] if has_type else []
        wanted += [cells[2].ljust(20)] if has_state else []
        return " ".join(wanted)

    head = line("GROUP", "TYPE", "STATE")
    return "\n".join(
        [head, *(line(group.group_id, _type(group), group.state or "Unknown") for group in groups)]
    )


def _type(group_listing: GroupListing) -> str:
    return group_listing.group_type.capitalize() or "Unknown"


# --- --describe


def offsets_text(
    lag: GroupLag, committed: Mapping[TopicAndPartition, CommittedOffset], *, is_verbose: bool
) -> str:
    """The offsets of a group: partitions with a member first, members with most partitions before others."""
    group = lag.group.group_id
    rows = [_offset_row(group, partition, committed) for partition in _in_order(lag)]
    head = ["GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
    head += ["CONSUMER-ID", "HOST", "CLIENT-ID"]
    widths = [_width(rows, 0), _width(rows, 1), 10, 15, 15, 15, 15, _width(rows, 7), _width(rows, 8), 0]
    if not is_verbose:
        head, widths, rows = (
            head[:3] + head[4:],
            widths[:3] + widths[4:],
            [row[:3] + row[4:] for row in rows],
        )
    return rows_text([head, *rows], widths) + "\n"


def _in_order(lag: GroupLag) -> list[PartitionLag]:
    sizes: dict[str, int] = defaultdict(int)
    for partition in lag.partitions:
        if partition.member is not None:
            sizes[partition.member.member_id] += 1
    positions = {member.member_id: number for number, member in enumerate(lag.group.members)}

    def rank(partition_lag: PartitionLag) -> tuple[int, int, TopicAndPartition]:
        name = partition_lag.member.member_id if partition_lag.member is not None else ""
        return (-sizes[name], positions.get(name, len(positions)), partition_lag.topic_partition)

    return sorted(lag.partitions, key=rank)


def _offset_row(
    group: str, partition_lag: PartitionLag, committed: Mapping[TopicAndPartition, CommittedOffset]
) -> list[str]:
    member = partition_lag.member
    kept = committed.get(partition_lag.topic_partition)
    # Kafka does not hide that a group is ahead of its log.
    behind = (
        None
        if partition_lag.committed is None or partition_lag.end is None
        else partition_lag.end - partition_lag.committed
    )
    return [
        group,
        partition_lag.topic_partition.topic,
        str(partition_lag.topic_partition.partition),
        _cell_text(kept.leader_epoch if kept is not None else None),
        _cell_text(partition_lag.committed),
        _cell_text(partition_lag.end),
        _cell_text(behind),
        *([member.member_id, _host(member), member.client_id] if member is not None else [MISSING] * 3),
    ]


def members_text(group: GroupDescription, *, is_verbose: bool) -> str:
    """The members of a group."""
    rows = [_member_row(group, member) for member in group.members]
    head = ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    head += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT", "UPGRADED"]
    widths = [_width(rows, 0), _width(rows, 1), _width(rows, 2, 17), _width(rows, 3), _width(rows, 4), 15]
    widths += [15, _width(rows, 7, 20), 15, _width(rows, 9, 20), 0]
    shown = [0, 1, 2, 3, 4, 5] if any(row[2] for row in rows) else [0, 1, 3, 4, 5]
    if is_verbose:
        is_on_its_way = any(row[10] == "false" for row in rows)
        shown += [6, 7, 8, 9, 10] if is_on_its_way else [6, 7, 8, 9]
    table = [[row[column] for column in shown] for row in (head, *rows)]
    text = rows_text(table, [widths[column] for column in shown])
    ending = "" if is_verbose else " "
    return text.replace("\n", f"{ending}\n").removeprefix(ending) + f"{ending}\n"


def _assignment_text(partitions: Iterable[TopicAndPartition]) -> str:
    topics = by_topic(partitions)
    return ";".join(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in topics.items())


def _member_row(group: GroupDescription, group_member: GroupMember) -> list[str]:
    counted = [str(len(group_member.assignment))]
    counted += [_cell_text(group_member.epoch), _assignment_text(group_member.assignment) or MISSING]
    counted += [_cell_text(group.assignment_epoch), _assignment_text(group_member.target or ()) or MISSING]
    is_classic = group_member.target is not None and group_member.group_type == "classic"
    counted += ["false" if is_classic else "true"]
    return [
        group.group_id,
        group_member.member_id,
        group_member.instance_id or "",
        _host(group_member),
        group_member.client_id,
        *counted,
    ]


def _coordinator_text(group: GroupDescription) -> str:
    node = group.coordinator
    return f"{node.host}:{node.port}  ({node.broker_id})" if node is not None else MISSING


def state_text(group: GroupDescription, *, is_verbose: bool) -> str:
    """The state and the coordinator of a group."""
    coordinator = _coordinator_text(group)
    row = [
        group.group_id,
        coordinator,
        _cell_text(group.assignor),
        group.state,
        _cell_text(group.epoch),
        _cell_text(group.assignment_epoch),
        str(len(group.members)),
    ]
    head = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "GROUP-EPOCH"]
    head += ["TARGET-ASSIGNMENT-EPOCH", "#MEMBERS"]
    widths = [max(_NARROW, len(row[0])), max(25, len(coordinator)), 20, 20, 15, 25, 0]
    if not is_verbose:
        head, row, widths = (cells[:4] + cells[6:] for cells in (head, row, widths))  # type: ignore[assignment]
    return rows_text([head, row], widths) + "\n"


# --- --reset-offsets and --delete-offsets


def resets_text(plans: Mapping[str, Mapping[TopicAndPartition, int]]) -> str:
    """The new offsets of all groups."""
    rows = [
        [group, topic_partition.topic, str(topic_partition.partition), str(plan[topic_partition])]
        for group, plan in plans.items()
        for topic_partition in java_partition_order(plan)
    ]
    head = ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"]
    width = _width([(group,) for group in plans], 0)
    return rows_text([head, *rows], [width, _width(rows, 1), 10, 0]) + "\n"


def deletions_text(outcomes: Mapping[TopicAndPartition, str]) -> str:
    """The result for each partition's offset; a partition below 0 stands for a topic that does not exist."""
    rows = [
        [
            topic_partition.topic,
            "-" if topic_partition.partition < 0 else str(topic_partition.partition),
            status,
        ]
        for topic_partition, status in sorted(outcomes.items())
    ]
    return rows_text([["TOPIC", "PARTITION", "STATUS"], *rows], [_width(rows, 0), 10, 15]) + "\n"


# --- share groups


def share_listing_text(groups: Sequence[GroupListing]) -> str:
    """Share groups with their states."""
    width = max([_NARROW, *(len(group.group_id) for group in groups)])
    rows = [("GROUP", "STATE"), *((group.group_id, group.state or "Unknown") for group in groups)]
    return "\n".join(f"{name.ljust(width)} {state}" for name, state in rows)


def share_offsets_text(
    group: str, offsets: Mapping[TopicAndPartition, ShareOffset], *, is_verbose: bool
) -> str:
    """Where a share group begins in its partitions."""
    rows = [
        [
            *(group, topic_partition.topic, str(topic_partition.partition)),
            *(_cell_text(offset.leader_epoch), _cell_text(offset.start), _cell_text(offset.lag)),
        ]
        for topic_partition, offset in sorted(offsets.items())
    ]
    head = ["GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "START-OFFSET", "LAG"]
    widths = [_width(rows, 0), _width(rows, 1), 10, 13, 13, 0]
    return _chosen_columns([head, *rows], widths, [0, 1, 2, 3, 4, 5] if is_verbose else [0, 1, 2, 4, 5])


def share_members_text(group: GroupDescription, *, is_verbose: bool) -> str:
    """The members of a share group."""
    rows = [
        [
            *(group.group_id, member.member_id, _host(member), member.client_id),
            *(str(len(member.assignment)), _cell_text(member.epoch), _assignment_text(member.assignment)),
        ]
        for member in sorted(group.members, key=lambda member: member.member_id)
    ]
    head = ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "MEMBER-EPOCH", "ASSIGNMENT"]
    widths = [*(_width(rows, column) for column in range(4)), 12, 13, 0]
    shown = [0, 1, 2, 3, 4, 5, 6] if is_verbose else [0, 1, 2, 3, 4, 6]
    return _chosen_columns([head, *rows], widths, shown)


def share_state_text(group: GroupDescription, *, is_verbose: bool) -> str:
    """The state and the coordinator of a share group."""
    coordinator = _coordinator_text(group)
    epochs = [_cell_text(group.epoch), _cell_text(group.assignment_epoch)]
    row = [group.group_id, coordinator, group.state, *epochs, str(len(group.members))]
    head = ["GROUP", "COORDINATOR (ID)", "STATE", "GROUP-EPOCH", "ASSIGNMENT-EPOCH", "#MEMBERS"]
    widths = [max(_NARROW, len(row[0])), max(25, len(coordinator)), 15, 12, 17, 0]
    return _chosen_columns([head, row], widths, [0, 1, 2, 3, 4, 5] if is_verbose else [0, 1, 2, 5])


def _chosen_columns(table: Sequence[Sequence[str]], widths: Sequence[int], shown: Sequence[int]) -> str:
    rows = [[row[column] for column in shown] for row in table]
    return rows_text(rows, [widths[column] for column in shown]) + "\n"


def share_deletions_text(outcomes: Mapping[str, str]) -> str:
    """The result for each topic."""
    rows = [["TOPIC", "STATUS"], *(list(row) for row in outcomes.items())]
    return rows_text(rows, [_width(rows, 0), 0]) if outcomes else ""
