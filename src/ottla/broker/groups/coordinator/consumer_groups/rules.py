"""What decisions about a consumer group depend on besides the group itself: settings, topics, the time."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.groups.coordinator.consumer_groups.topics import TopicsView
from ottla.broker.settings.group_config import GroupConfig
from ottla.model.error_codes import Code


class RequestRefused(Exception):
    """A request is refused with a code and a text; nothing has changed."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


@dataclass(frozen=True, slots=True)
class GroupRules:
    """The settings of one group, the topics and the time of a decision."""

    config: GroupConfig
    topics: TopicsView
    now_ms: int
    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
