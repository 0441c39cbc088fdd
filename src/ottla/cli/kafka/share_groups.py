"""kafka-share-groups: lists, describes, resets and deletes share groups, with the text of Kafka 4."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.admin import Admin, GroupDescription, GroupKind, GroupListing
from ottla.cli.kafka import group_tables
from ottla.cli.kafka.answers import broker_message, java_error
from ottla.cli.kafka.flags import Options, WrongFlags
from ottla.cli.kafka.group_resets import SCENARIOS, Resets, partitions_of
from ottla.cli.kafka.java_order import java_order
from ottla.cli.kafka.settings import admin_properties
from ottla.cli.kafka.tool import ToolRefused, one_action, require, run_tool, show, tool_of
from ottla.cli.kafka.usage.share_groups import USAGE
from ottla.model.error_codes import Code
from ottla.model.errors import AdminErrors, KafkaError, OttlaError

ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
_SHARE = "share"
_EMPTY, _DEAD = "Empty", "Dead"
_STATES = ("Stable", _EMPTY, _DEAD)
_SCENARIOS = tuple(name for name in SCENARIOS if name in ("to-datetime", "to-earliest", "to-latest"))
_TOPIC_LEVEL = {Code.TOPIC_AUTHORIZATION_FAILED, Code.UNKNOWN_TOPIC_OR_PARTITION}
_ERRORS_BEGIN = "org.apache.kafka.common.errors."


def run(arguments: Sequence[str]) -> int:
    """Run the action."""
    return run_tool(TOOL, arguments)


def _act(options: Options) -> int:
    require(options, "bootstrap-server")
    _check(options)
    message = f"Command must include exactly one action: {', '.join(f'--{action}' for action in ACTIONS)}."
    action = one_action(options, ACTIONS, message)
    properties = admin_properties(options)
    if options.has("timeout"):
        properties["default.api.timeout.ms"] = options.text("timeout")
    try:
        with Admin(properties) as admin:
            _ACTS[action](admin, options)
    except ToolRefused:
        raise
    except OttlaError as error:
        failed = next(iter(error.errors.values())) if isinstance(error, AdminErrors) else error
        _fail(f"Executing share group command failed due to {broker_message(failed)}")
    return 0


def _check(options: Options) -> None:
    for action, check in _CHECKS.items():
        if options.has(action):
            check(options)
    for name, others in (("group", ("all-groups", "list")), ("topic", ("list", "describe"))):
        for other in options.any_of(*others) if options.has(name) else ():
            raise WrongFlags(f'Option "[{name}]" can\'t be used with option "[{other}]"')


def _check_describe(options: Options) -> None:
    if not options.any_of("group", "all-groups"):
        raise WrongFlags("Option [describe] takes one of these options: [group], [all-groups]")
    kinds = ("members", "offsets", "state")
    if len(options.any_of(*kinds)) > 1:
        listed = ", ".join(f"[{kind}]" for kind in kinds)
        raise WrongFlags(f"Option [describe] takes at most one of these options: {listed}")
    if options.value("state") is not None:
        raise WrongFlags("Option [describe] does not take a value for [state]")


def _check_delete(options: Options) -> None:
    scope = options.any_of("group", "all-groups")
    if not scope:
        raise WrongFlags("Option [delete] takes the options [group] or [all-groups]")
    if len(scope) > 1:
        raise WrongFlags("Option [delete] takes either [group] or [all-groups], not both.")
    if options.has("topic"):
        raise WrongFlags("Option [delete] does not take the option: [topic]")


def _check_delete_offsets(options: Options) -> None:
    if len(options.any_of("group", "topic")) < 2:
        raise WrongFlags("Option [delete-offsets] takes the following options: [topic], [group]")


def _check_reset(options: Options) -> None:
    if len(options.any_of("dry-run", "execute")) > 1:
        raise WrongFlags("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if not options.any_of("dry-run", "execute"):
        raise WrongFlags("Option [reset-offsets] takes the option: [execute] or [dry-run]")
    if not options.has("group"):
        raise WrongFlags("Option [reset-offsets] takes the option: [group]")
    for names in (("all-topics", "topic"), _SCENARIOS):
        if not options.any_of(*names):
            listed = ", ".join(f"[{name}]" for name in names)
            raise WrongFlags(f"Option [reset-offsets] takes one of these options: {listed}")
    given = options.any_of(*_SCENARIOS)
    if len(given) > 1:
        raise WrongFlags(f'Option "[{given[0]}]" can\'t be used with option "[{given[1]}]"')


_CHECKS = {
    "describe": _check_describe,
    "delete": _check_delete,
    "delete-offsets": _check_delete_offsets,
    "reset-offsets": _check_reset,
}


def _fail(text: str) -> None:
    show(f"\nError: {text}")


def _listed(admin: Admin) -> list[GroupListing]:
    by_id = {
        group.group_id: group
        for group in admin.list_groups()
        if group.kind is GroupKind.KAFKA and group.group_type == _SHARE
    }
    return [by_id[name] for name in java_order(by_id)]


def _groups(admin: Admin, options: Options) -> list[str]:
    if options.has("all-groups"):
        return [group.group_id for group in _listed(admin)]
    return list(dict.fromkeys(options.values("group")))


# --- listing and describing


def _list(admin: Admin, options: Options) -> None:
    listed = _listed(admin)
    if not options.has("state"):
        for group in listed:
            show(group.group_id)
        return
    text = options.value("state")
    wanted = {part.strip().lower() for part in (text or "").split(",") if part.strip()}
    if not wanted <= {name.lower() for name in _STATES}:
        raise WrongFlags(f"Invalid state list '{text}'. Valid states are: {', '.join(_STATES)}")
    listed = [group for group in listed if not wanted or group.state.lower() in wanted]
    show(group_tables.share_listing_text(listed))


def _described(admin: Admin, group: str) -> GroupDescription:
    try:
        description = admin.describe_groups(group, kind=GroupKind.KAFKA)
    except KafkaError as error:
        if error.code == Code.GROUP_ID_NOT_FOUND:
            raise OttlaError(f"{_ERRORS_BEGIN}GroupIdNotFoundException: Group {group} not found.") from error
        raise
    if description.group_type != _SHARE:
        raise OttlaError(f"{_ERRORS_BEGIN}GroupIdNotFoundException: Group {group} is not a share group.")
    return description


def _describe(admin: Admin, options: Options) -> None:
    is_verbose = options.has("verbose")
    described = [_described(admin, group) for group in sorted(_groups(admin, options))]
    for group in described:
        name = group.group_id
        if not options.any_of("members", "state"):
            offsets = admin.share_group_offsets(name)
            if not offsets:
                show(f"\nShare group '{name}' has no offset information.")
            else:
                show(group_tables.share_offsets_text(name, offsets, is_verbose=is_verbose), ends_line=False)
            continue
        if not group.members:
            show(f"\nShare group '{name}' has no active members.", is_error=True)
        if options.has("state"):
            show(group_tables.share_state_text(group, is_verbose=is_verbose), ends_line=False)
        elif group.members:
            show(group_tables.share_members_text(group, is_verbose=is_verbose), ends_line=False)


# --- changing


def _reset(admin: Admin, options: Options) -> None:
    group = options.text("group")
    listed = admin.groups_named(group).get(GroupKind.KAFKA)
    if listed is not None and listed.state not in (_EMPTY, _DEAD):
        raise ToolRefused(f"Share group '{group}' is not empty.")
    if options.has("topic"):
        partitions = partitions_of(admin, options.values("topic"))
    else:
        partitions = sorted(admin.share_group_offsets(group))
    plan = Resets(admin, options, _SCENARIOS).plan(group, partitions)
    if options.has("execute"):
        admin.alter_share_group_offsets(group, plan)
    show(group_tables.resets_text({group: plan}), ends_line=False)


def _delete(admin: Admin, options: Options) -> None:
    states = {group.group_id: group.state for group in _listed(admin)}
    groups = _groups(admin, options)
    failed: dict[str, str] = {}
    for group in groups:
        if group not in states:
            failed[group] = f"java.lang.IllegalArgumentException: Group '{group}' is not a share group."
        elif states[group] != _EMPTY:
            failed[group] = f"{_ERRORS_BEGIN}GroupNotEmptyException: Share group '{group}' is not EMPTY."
    try:
        admin.delete_groups([group for group in groups if group not in failed], kind=GroupKind.KAFKA)
    except AdminErrors as error:
        failed |= {group: java_error(cause) for group, cause in error.errors.items()}
    done = ", ".join(f"'{group}'" for group in java_order(groups) if group not in failed)
    if not failed:
        show(f"Deletion of requested share groups ({done}) was successful.")
        return
    _fail("Deletion of some share groups failed:")
    for group in java_order(failed, smallest_table=4):  # the order of a HashMap that was made from another
        show(f"* Group '{group}' could not be deleted due to: {failed[group]}")
    if done:
        show(f"\nThese share groups were deleted successfully: {done}")


def _delete_offsets(admin: Admin, options: Options) -> None:
    topics = list(dict.fromkeys(options.values("topic")))
    failed: dict[str, OttlaError] = {}
    try:
        admin.delete_share_group_offsets(options.text("group"), topics)
    except AdminErrors as error:
        failed = dict(error.errors)
    whole = [error for error in failed.values() if not _is_of_topic(error)]
    if whole:
        _fail(broker_message(whole[0]))
    outcomes = {
        topic: f"Error: {broker_message(failed[topic])}" if topic in failed else "Successful"
        for topic in sorted(topics)
    }
    show(group_tables.share_deletions_text(outcomes))


def _is_of_topic(error: OttlaError) -> bool:
    return isinstance(error, KafkaError) and error.code in _TOPIC_LEVEL


_ACTS = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset-offsets": _reset,
    "delete-offsets": _delete_offsets,
}


TOOL = tool_of(USAGE, _act)
