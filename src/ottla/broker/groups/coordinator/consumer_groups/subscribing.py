"""The effects of a changed member on its group: a new epoch, target assignment, and member's assignment.

All three happen in the decision of the request that brought the change; the other members learn of it with
their next heartbeats. Two things come later, as in Kafka:

- A target assignment that would follow the last one within `group.consumer.assignment.interval.ms` is made by
  the first request after that. Members that join together share it, and move once.
- A member that subscribes to names and to an expression that is new in the group gets the topics of the names
  first, and those of the expression with its next heartbeat.
"""

from __future__ import annotations

from collections.abc import Set

from ottla.broker.groups.coordinator.consumer_groups import records
from ottla.broker.groups.coordinator.consumer_groups.assignors import ASSIGNORS, AssignedMember
from ottla.broker.groups.coordinator.consumer_groups.group import ConsumerGroup, GroupDraft
from ottla.broker.groups.coordinator.consumer_groups.member import ConsumerMember
from ottla.broker.groups.coordinator.consumer_groups.reconciliation import reconciled
from ottla.broker.groups.coordinator.consumer_groups.records import TopicIdPartition
from ottla.broker.groups.coordinator.consumer_groups.rules import GroupRules, RequestRefused
from ottla.broker.groups.coordinator.consumer_groups.topics import (
    RegexError,
    TopicsView,
    counts,
    matching,
    metadata_hash,
)
from ottla.model.error_codes import Code


def subscribe(draft: GroupDraft, member: ConsumerMember, rules: GroupRules) -> None:
    """Store a member's subscription. If it, the topics, or the assignor that most members ask for have
    changed, the group gets a new epoch and target.

    Raises RequestRefused if its regular expression is invalid.
    """
    before = draft.group.members.get(member.member_id)
    default = rules.config.consumer_assignors[0]
    has_other_wish = before is not None and before.assignor != member.assignor
    assignor = draft.group.assignor(default) if has_other_wish else ""
    if before is None or before.metadata_value() != member.metadata_value():
        draft.put_member(member)
    wants_else = before is None or (before.topics, before.regex) != (member.topics, member.regex)
    has_both = bool(member.topics and member.regex)
    is_later = wants_else and has_both and member.regex not in draft.group.resolved
    must_bump = wants_else or (has_other_wish and draft.group.assignor(default) != assignor)
    refresh(draft, rules, must_bump=must_bump, later=member.regex if is_later else None)
    if draft.group.epoch > draft.group.assignment_epoch and not assignment_wait_ms(draft.group, rules):
        assign(draft, rules)


def assignment_wait_ms(group: ConsumerGroup, rules: GroupRules) -> int:
    """Return how long the group has to wait before it may get another target assignment."""
    age_ms = rules.now_ms - group.assignment_ms
    return max(rules.assignment_interval_ms - age_ms, 0) if age_ms >= 0 else 0


def refresh(draft: GroupDraft, rules: GroupRules, *, must_bump: bool, later: str | None = None) -> None:
    """Look up the topics again if members or topics have changed.

    The topics of the expression `later` are looked up with the next heartbeat of any member.
    """
    group = draft.group
    if not must_bump and group.seen_topics == rules.topics.version:
        return
    resolve(draft, rules, later)
    now = metadata_hash(group.known_topics(rules.topics), rules.topics)
    if must_bump or now != group.metadata_hash:
        draft.put_epoch(group.epoch + 1, now)
    group.seen_topics = rules.topics.version if later is None else None


def resolve(draft: GroupDraft, rules: GroupRules, later: str | None) -> None:
    """Find the topics of all regular expressions; `later` is only checked. Raises RequestRefused."""
    group = draft.group
    draft.remove_unused_regexes()
    for pattern in sorted({member.regex for member in group.members.values()} - {""}):
        try:
            topic_names = matching(pattern, () if pattern == later else rules.topics.names())
        except RegexError as error:
            text = f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}."
            raise RequestRefused(Code.INVALID_REGULAR_EXPRESSION, text) from error
        if pattern != later and group.resolved.get(pattern) != topic_names:
            stored = records.RegexValue(
                topics=sorted(topic_names), version=rules.topics.version, timestamp=rules.now_ms
            )
            draft.write(records.REGEX, pattern, stored)


def assign(draft: GroupDraft, rules: GroupRules) -> None:
    """Make a target assignment for the group's epoch."""
    group = draft.group
    wanted = {(member.topics, member.regex): member for member in group.members.values()}
    topic_ids = {wish: _topic_ids(group, member, rules.topics) for wish, member in wanted.items()}
    members = [
        AssignedMember(
            member.member_id,
            member.instance_id,
            topic_ids[member.topics, member.regex],
            group.target(member.member_id),
        )
        for member in group.members.values()
    ]
    assignor = ASSIGNORS[group.assignor(rules.config.consumer_assignors[0])]
    targets = assignor(members, counts(group.known_topics(rules.topics)))
    draft.put_targets(targets, group.epoch, rules.now_ms)


def reconcile(
    draft: GroupDraft, member_id: str, owned: Set[TopicIdPartition] | None, rules: GroupRules
) -> ConsumerMember:
    """Move a member towards its target assignment, and return it."""
    group = draft.group
    member = group.members[member_id]
    topic_ids = _topic_ids(group, member, rules.topics)
    is_target_old = group.epoch > group.assignment_epoch
    has_unwanted = is_target_old and any(topic_id not in topic_ids for topic_id, _ in member.assigned)
    if member.is_reconciled(group.assignment_epoch) and not has_unwanted:
        return member
    target = frozenset(partition for partition in group.target(member_id) if partition[0] in topic_ids)
    taken = group.taken(target - member.assigned.keys(), member_id)
    moved = reconciled(member, target, group.assignment_epoch, taken, owned)
    if moved.current_value() != member.current_value():
        draft.put_current(moved)
    return group.members[member_id]


def _topic_ids(group: ConsumerGroup, member: ConsumerMember, topics: TopicsView) -> frozenset[bytes]:
    subscribed = [topics.by_name(name) for name in group.topics_of(member)]
    return frozenset(topic.topic_id for topic in subscribed if topic is not None)
