"""kafka-consumer-groups --zookeeper: classic groups, in the text of Kafka 0.9."""

from __future__ import annotations

from ottla.admin import Admin
from ottla.admin.zookeeper_groups import ZooKeeperGroups
from ottla.cli.kafka.classic_offsets import ClassicOffsets
from ottla.cli.kafka.flags import Options, WrongFlags
from ottla.cli.kafka.settings import admin_properties
from ottla.cli.kafka.tool import one_action, require, show
from ottla.cli.kafka.zookeeper_session import zookeeper_session
from ottla.zookeeper import paths
from ottla.zookeeper.recipes import children_if_present, delete_tree
from ottla.zookeeper.session import ZooKeeperSession

_HEAD = "GROUP, TOPIC, PARTITION, CURRENT OFFSET, LOG END OFFSET, LAG, OWNER"
_ACTIONS = ("list", "describe", "delete")


def act(options: Options) -> int:
    """Run the action and return the exit code."""
    message = "Command must include exactly one action: --list, --describe, --delete"
    action = one_action(options, _ACTIONS, message)
    if action == "describe":
        require(options, "group")
    if action == "delete" and not options.any_of("group", "topic"):
        raise WrongFlags("Option [delete] either takes [group], [topic], or both")
    with zookeeper_session(options.text("zookeeper")) as session:
        if action == "list":
            for name in children_if_present(session, paths.CONSUMERS):
                show(name)
        elif action == "describe":
            _describe(session, options)
        else:
            _delete(session, options)
    return 0


def _describe(session: ZooKeeperSession, options: Options) -> None:
    group = options.text("group")
    with Admin(admin_properties(options)) as admin:
        offsets = ClassicOffsets(session, admin)
        topics = offsets.owned_topics(group)
        if not topics:
            show("No topic available for consumer group provided")
        rows = offsets.of_topics(group, topics)
    show(_HEAD)
    for row in rows:
        if row.offset is None:
            show(
                f"Could not fetch offset from zookeeper for group {group} partition "
                f"[{row.topic_partition.topic},{row.topic_partition.partition}] "
                "due to missing offset data in zookeeper."
            )
    for row in rows:
        cells = [*("unknown" if value is None else value for value in (row.offset, row.end, row.lag))]
        show(", ".join(map(str, [group, *row.topic_partition, *cells, row.owner or "none"])))


def _delete(session: ZooKeeperSession, options: Options) -> None:
    groups = ZooKeeperGroups(session)
    topic = options.value("topic")
    if not options.has("group"):
        for name in children_if_present(session, paths.CONSUMERS):
            if topic in groups.topics(name):
                _delete_one(session, groups, name, topic)
        show(
            "Deleted consumer group information for all inactive consumer groups for topic "
            f"{topic} in zookeeper."
        )
        return
    for name in options.values("group"):
        what = f"group {name}" if topic is None else f"group {name} topic {topic}"
        if not groups.exists(name):
            show(f"Delete for {what} failed because group does not exist.")
        elif not _delete_one(session, groups, name, topic):
            show(f"Delete for {what} failed because its consumers are still active.")
        elif topic is None:
            show(f"Deleted all consumer group information for {what} in zookeeper.")
        else:
            show(f"Deleted consumer group information for {what} in zookeeper.")


def _delete_one(session: ZooKeeperSession, groups: ZooKeeperGroups, group: str, topic: str | None) -> bool:
    """Delete the group, or its part of one topic, unless it has members. Returns whether it is gone."""
    if groups.member_ids(group):
        return False
    owned = children_if_present(session, paths.owners(group))
    if topic is None or list(owned) == [topic]:
        delete_tree(session, paths.group(group))
    else:
        delete_tree(session, paths.topic_owners(group, topic))
        delete_tree(session, paths.topic_offsets(group, topic))
    return True
