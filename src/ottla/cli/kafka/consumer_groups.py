"""kafka-consumer-groups: lists, describes, resets and deletes groups; with --zookeeper classic groups."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ottla.admin import Admin, GroupDescription, GroupKind, TopicAndPartition
from ottla.cli.kafka import group_tables, zookeeper_groups
from ottla.cli.kafka.answers import broker_message, java_error
from ottla.cli.kafka.flags import Options, WrongFlags
from ottla.cli.kafka.group_resets import SCENARIOS, Plan, Resets, partitions_of, plan_from_file
from ottla.cli.kafka.java_order import java_order, java_partition_order
from ottla.cli.kafka.settings import admin_properties
from ottla.cli.kafka.tool import one_action, require, run_tool, show, tool_of
from ottla.cli.kafka.usage.consumer_groups import USAGE
from ottla.consumer.classic.java_regex import compile_java
from ottla.model.error_codes import Code
from ottla.model.errors import AdminErrors, KafkaError, OttlaError

ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
_STATES = ("Empty", "Stable", "Assigning", "PreparingRebalance", "CompletingRebalance", "Reconciling", "Dead")
_TYPES = ("Consumer", "Classic")
_REBALANCING = {"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"}
_NEITHER = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command "
    "will require either --dry-run or --execute to be specified. You should add the --dry-run option "
    "explicitly if you are scripting this command and want to keep the current default behavior without "
    "prompting."
)
_PARTITION_LEVEL = {
    Code.GROUP_SUBSCRIBED_TO_TOPIC,
    Code.TOPIC_AUTHORIZATION_FAILED,
    Code.UNKNOWN_TOPIC_OR_PARTITION,
}


def run(arguments: Sequence[str]) -> int:
    """Run the action."""
    return run_tool(TOOL, arguments)


def _act(options: Options) -> int:
    if options.has("zookeeper"):
        return zookeeper_groups.act(options)
    message = f"Command must include exactly one action: {', '.join(f'--{action}' for action in ACTIONS)}"
    action = one_action(options, ACTIONS, message)
    if action == "validate-regex":
        return _validate(options.text("validate-regex"))
    require(options, "bootstrap-server")
    _check(action, options)
    properties = admin_properties(options)
    if options.has("timeout"):
        properties["default.api.timeout.ms"] = options.text("timeout")
    try:
        with Admin(properties) as admin:
            _ACTS[action](admin, options)
    except OttlaError as error:
        _fail(f"Executing consumer group command failed due to {_cause(error)}")
    return 0


def _check(action: str, options: Options) -> None:
    if action == "list":
        for name in options.any_of("group", "topic", "all-groups", "all-topics"):
            raise WrongFlags(f'Option "[{name}]" can\'t be used with option "[list]"')
    elif not options.any_of("group", "all-groups"):
        raise WrongFlags(f"Option [{action}] takes one of these options: [all-groups], [group]")
    if action == "reset-offsets":
        if not options.any_of("dry-run", "execute"):
            show(_NEITHER, is_error=True)
        given = options.any_of(*SCENARIOS)
        if len(given) > 1:
            raise WrongFlags(f'Option "[{given[0]}]" can\'t be used with option "[{given[1]}]"')
        if not given:
            raise WrongFlags(
                "Option '[reset-offsets]' requires one of the following scenarios: "
                f"[{', '.join(f'[{scenario}]' for scenario in SCENARIOS)}]"
            )
        if "from-file" not in given and not options.any_of("topic", "all-topics"):
            raise WrongFlags("One of the reset scopes should be defined: --all-topics, --topic.")
    if action == "delete-offsets":
        require(options, "group", "topic")


def _fail(text: str) -> None:
    show(f"\nError: {text}")


def _cause(error: OttlaError) -> str:
    failed = next(iter(error.errors.values())) if isinstance(error, AdminErrors) else error
    return java_error(failed)


def _groups(admin: Admin, options: Options) -> list[str]:
    if options.has("all-groups"):
        return [group.group_id for group in admin.list_groups() if group.kind is GroupKind.KAFKA]
    return list(dict.fromkeys(options.values("group")))


def _validate(text: str) -> int:
    try:
        compile_java(text)
    except OttlaError as error:
        show(f"The regular expression `{text}` is invalid: {error}.")
    except re.error as error:
        show(f"The regular expression `{text}` is invalid: {error}.")
    else:
        show(f"The regular expression `{text}` is valid.")
    return 0


# --- listing and describing


def _list(admin: Admin, options: Options) -> None:
    by_id = {group.group_id: group for group in admin.list_groups() if group.kind is GroupKind.KAFKA}
    listed = [by_id[name] for name in java_order(by_id)]
    if not options.any_of("state", "type"):
        for group in listed:
            show(group.group_id)
        return
    states = _chosen("state", options.value("state"), _STATES)
    types = _chosen("types", options.value("type"), _TYPES)
    listed = [group for group in listed if not states or group.state.lower() in states]
    listed = [group for group in listed if not types or group.group_type.lower() in types]
    show(group_tables.listing_text(listed, has_type=options.has("type"), has_state=options.has("state")))


def _chosen(what: str, text: str | None, valid: Sequence[str]) -> set[str]:
    wanted = {part.strip().lower() for part in (text or "").split(",") if part.strip()}
    if not wanted <= {name.lower() for name in valid}:
        title = "states" if what == "state" else what
        raise WrongFlags(f"Invalid {what} list '{text}'. Valid {title} are: {', '.join(valid)}")
    return wanted


def _describe(admin: Admin, options: Options) -> None:
    is_verbose = options.has("verbose")
    for group in sorted(_groups(admin, options)):
        if options.has("members"):
            description = _described(admin, group)
            _warn_about_state(description)
            show(group_tables.members_text(description, is_verbose=is_verbose), ends_line=False)
        elif options.has("state"):
            description = _described(admin, group)
            _warn_about_state(description)
            show(group_tables.state_text(description, is_verbose=is_verbose), ends_line=False)
        else:
            _describe_offsets(admin, group, is_verbose=is_verbose)


def _described(admin: Admin, group: str) -> GroupDescription:
    try:
        return admin.describe_groups(group, kind=GroupKind.KAFKA)
    except KafkaError as error:
        if error.code == Code.GROUP_ID_NOT_FOUND:
            raise _NoSuchGroup(group) from error
        raise


class _NoSuchGroup(OttlaError):
    """The message of Kafka 4's brokers; older brokers have none."""

    def __init__(self, group: str) -> None:
        name = "org.apache.kafka.common.errors.GroupIdNotFoundException"
        super().__init__(f"{name}: Group {group} not found.")


def _describe_offsets(admin: Admin, group: str, *, is_verbose: bool) -> None:
    _warn_about_state(_described(admin, group))
    lag = admin.group_lag(group, kind=GroupKind.KAFKA)
    if lag.partitions:
        committed = admin.group_offsets(group, kind=GroupKind.KAFKA)
        show(group_tables.offsets_text(lag, committed, is_verbose=is_verbose), ends_line=False)


def _warn_about_state(group: GroupDescription) -> None:
    if group.state in _REBALANCING:
        show(f"\nWarning: Consumer group '{group.group_id}' is rebalancing.", is_error=True)
    elif not group.members:
        show(f"\nConsumer group '{group.group_id}' has no active members.", is_error=True)


# --- changing


def _reset(admin: Admin, options: Options) -> None:
    groups = _groups(admin, options)
    files = plan_from_file(options.text("from-file"), groups) if options.has("from-file") else {}
    plans: dict[str, Plan] = {}
    for group in groups:
        state = _state_of(admin, group)
        if state not in ("Empty", "Dead"):
            _fail(
                f"Assignments can only be reset if the group '{group}' is inactive, but the current state is "
                f"{state}."
            )
            plans[group] = {}
            continue
        plans[group] = _plan(admin, options, group, files)
        if options.has("execute") and not options.has("dry-run") and plans[group]:
            admin.alter_group_offsets(group, plans[group], kind=GroupKind.KAFKA)
    if options.has("export"):
        is_only = len(options.values("group")) == 1
        lines = [
            f"{'' if is_only else f'{group},'}{topic_partition.topic},{topic_partition.partition},{offset}\n"
            for group, plan in plans.items()
            for topic_partition, offset in (
                (partition, plan[partition]) for partition in java_partition_order(plan)
            )
        ]
        show("".join(lines))
    elif plans:
        show(group_tables.resets_text(plans), ends_line=False)


def _state_of(admin: Admin, group: str) -> str:
    try:
        return admin.describe_groups(group, kind=GroupKind.KAFKA).state
    except KafkaError as error:
        if error.code == Code.GROUP_ID_NOT_FOUND:
            return "Dead"
        raise


def _plan(admin: Admin, options: Options, group: str, files: dict[str, Plan]) -> Plan:
    resets = Resets(admin, options)
    if options.has("from-file"):
        if group not in files:
            _fail(f"No reset plan for group {group} found")
            return {}
        return resets.from_file(files[group])
    if options.has("all-topics"):
        partitions = sorted(admin.group_offsets(group, kind=GroupKind.KAFKA))
    else:
        partitions = partitions_of(admin, options.values("topic"))
    return resets.plan(group, partitions)


def _delete(admin: Admin, options: Options) -> None:
    groups = _groups(admin, options)
    failed: dict[str, OttlaError] = {}
    try:
        admin.delete_groups(groups, kind=GroupKind.KAFKA)
    except AdminErrors as error:
        failed = dict(error.errors)
    done = [group for group in groups if group not in failed]
    if not failed:
        show(f"Deletion of requested consumer groups ('{', '.join(done)}') was successful.")
        return
    _fail("Deletion of some consumer groups failed:")
    for group, cause in failed.items():
        show(f"* Group '{group}' could not be deleted due to: {java_error(cause)}")
    if done:
        joined = "', '".join(done)
        show(f"\nThese consumer groups were deleted successfully: '{joined}'")


def _delete_offsets(admin: Admin, options: Options) -> None:
    group = options.text("group")
    partitions, unknown = _partitions_or_errors(admin, options.values("topic"))
    outcomes: dict[TopicAndPartition, str] = dict.fromkeys(partitions, "Successful")
    first: OttlaError | None = None
    try:
        admin.delete_group_offsets(group, partitions, kind=GroupKind.KAFKA)
    except AdminErrors as error:
        first = next(iter(error.errors.values()))
        outcomes |= {
            topic_partition: f"Error: {java_error(failure)}"
            for topic_partition, failure in error.errors.items()
        }
    except KafkaError as error:
        first = error
        outcomes = dict.fromkeys(partitions, f"Error: {java_error(error)}")
    if first is None:
        show(f"Request succeeded for deleting offsets from group {group}.")
    elif isinstance(first, KafkaError) and first.code in _PARTITION_LEVEL:
        _fail("Encountered some partition-level error, see the follow-up details.")
    else:
        _fail(broker_message(first))
    show(group_tables.deletions_text(outcomes | unknown), ends_line=False)


def _partitions_or_errors(
    admin: Admin, texts: Iterable[str]
) -> tuple[list[TopicAndPartition], dict[TopicAndPartition, str]]:
    """The partitions of the topics, and an error for each missing topic, under partition -1."""
    partitions: list[TopicAndPartition] = []
    unknown: dict[TopicAndPartition, str] = {}
    for text in texts:
        try:
            partitions += partitions_of(admin, [text])
        except KafkaError as error:
            unknown[TopicAndPartition(text.partition(":")[0], -1)] = f"Error: {java_error(error)}"
    return partitions, unknown


_ACTS = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset-offsets": _reset,
    "delete-offsets": _delete_offsets,
}


TOOL = tool_of(USAGE, _act)
