"""kafka-groups: lists groups of all types."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.admin import Admin, GroupKind, GroupListing
from ottla.cli.kafka.flags import Options, WrongFlags
from ottla.cli.kafka.settings import admin_properties
from ottla.cli.kafka.tool import one_action, require, run_tool, show, tool_of
from ottla.cli.kafka.usage.groups import USAGE

COLUMN_WIDTH_MIN = 20
TYPES = ("classic", "consumer", "share", "streams")
FILTERS = ("consumer", "group-type", "share", "streams")


def run(arguments: Sequence[str]) -> int:
    """Run the command."""
    return run_tool(TOOL, arguments)


def _act(options: Options) -> int:
    require(options, "bootstrap-server")
    one_action(options, ["list"], "Command must include exactly one action: --list.")
    given = options.any_of(*FILTERS)
    if len(given) > 1:
        raise WrongFlags(f'Option "[{given[0]}]" can\'t be used with option "[{given[1]}]"')
    wanted = options.text("group-type").lower()
    if options.has("group-type") and wanted not in TYPES:
        raise WrongFlags("--group-type must be a valid group type.")
    with Admin(admin_properties(options)) as admin:
        listed = [group for group in admin.list_groups() if group.kind is GroupKind.KAFKA]
    _table([group for group in listed if _is_wanted(group, options, wanted)])
    return 0


def _is_wanted(group: GroupListing, options: Options, wanted_type: str) -> bool:
    if options.has("protocol") and group.protocol_type != options.text("protocol"):
        return False
    if options.has("consumer"):
        is_classic = group.group_type == "classic" and group.protocol_type in ("", "consumer")
        return group.group_type == "consumer" or is_classic
    for name in ("share", "streams"):
        if options.has(name):
            return group.group_type == name
    return not wanted_type or group.group_type == wanted_type


def _table(groups: Sequence[GroupListing]) -> None:
    """All columns are as wide as the longest name; rows end with one space more, as Kafka's do."""
    width = max(COLUMN_WIDTH_MIN, *(len(group.group_id) for group in groups), 0)
    show(" ".join(title.ljust(width) for title in ("GROUP", "TYPE", "PROTOCOL")))
    for group in groups:
        cells = (group.group_id, group.group_type.capitalize(), group.protocol_type)
        show("".join(f"{cell.ljust(width)} " for cell in cells))


TOOL = tool_of(USAGE, _act)
