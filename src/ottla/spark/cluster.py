"""What the driver asks brokers: which partitions there are, and where their logs begin and end."""

from __future__ import annotations

import logging
import random
from collections.abc import Collection, Iterable, Mapping

from ottla.client.clock import MONOTONIC, Deadline
from ottla.client.config import ClientConfig
from ottla.client.metadata import ClusterMetadata
from ottla.client.pool import ConnectionPool
from ottla.client.retry import Action, Backoff, action_about, action_for, attempts
from ottla.fetching.feed import EARLIEST, LATEST
from ottla.fetching.offset_lookup import OffsetAnswer, OffsetQuestion, list_offsets_request, offset_answers
from ottla.fetching.places import UNKNOWN_OFFSET
from ottla.model.cluster_view import TopicView
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError, KafkaError, OttlaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.spark.data_loss import Bounds
from ottla.spark.log_sizes import log_sizes, log_sizes_request
from ottla.spark.offset_json import Offsets, shown
from ottla.spark.positions import (
    AtOffsets,
    AtTime,
    AtTimes,
    Edge,
    Partitions,
    Position,
    Subscription,
    Topics,
    WithoutMatch,
    check_complete,
)

log = logging.getLogger(__name__)

UNKNOWN_TOPIC_TRIES = 3
_UNKNOWN = Code.UNKNOWN_TOPIC_OR_PARTITION


class SparkCluster:
    """Belongs to one thread. Opens its connections at the first question."""

    def __init__(self, config: ClientConfig, *, isolation_level: int = 0) -> None:
        self._config = config
        self._isolation_level = isolation_level
        self._metadata = ClusterMetadata(config)
        self._pool = ConnectionPool(config, self._metadata)
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._chance = random.Random()

    # --- partitions

    def partitions(self, subscription: Subscription) -> set[TopicAndPartition]:
        """What the subscription means now; topics that do not exist have no partitions."""
        if isinstance(subscription, Partitions):
            wanted = set(subscription.partitions)
            return wanted & self._of_topics({place.topic for place in wanted})
        if isinstance(subscription, Topics):
            return self._of_topics(set(subscription.names))
        view = self._metadata.refresh_all(reason="subscribePattern")
        return self._of_topics({name for name in view.topics if subscription.matches(name)})

    def check_all_exist(self, subscription: Subscription, found: Collection[TopicAndPartition]) -> None:
        """Raise for topics and partitions that are named and do not exist."""
        missing: set[str] = set()
        if isinstance(subscription, Partitions):
            missing = {str(place) for place in subscription.partitions if place not in found}
        elif isinstance(subscription, Topics):
            missing = set(subscription.names) - {place.topic for place in found}
        if missing:
            raise KafkaError(_UNKNOWN, f"{', '.join(sorted(missing))}: make it first, or correct the name")

    def _of_topics(self, names: set[str]) -> set[TopicAndPartition]:
        if not names:
            return set()
        deadline = Deadline(MONOTONIC, self._config.request_timeout_ms)
        views: list[TopicView] = []
        for attempt in attempts(self._backoff, deadline, self._chance):
            known = self._metadata.refresh(sorted(names), reason="partitions of a query").topics
            views = [known[name] for name in sorted(names) if name in known]
            errors = {view.error for view in views if view.error}
            if errors <= {_UNKNOWN} and (not errors or attempt + 1 >= UNKNOWN_TOPIC_TRIES):
                break
        bad = next((view for view in views if view.error not in {Code.NONE, _UNKNOWN}), None)
        if bad is not None:
            raise KafkaError(bad.error, f"topic {bad.name!r}")
        return {
            TopicAndPartition(view.name, one.index)
            for view in views
            if view.error == Code.NONE
            for one in view.partitions
        }

    # --- offsets

    def earliest(self, places: Iterable[TopicAndPartition]) -> Offsets:
        """Where the logs begin."""
        return self.offsets_at(dict.fromkeys(places, EARLIEST))

    def latest(self, places: Iterable[TopicAndPartition]) -> Offsets:
        """Where the logs end: behind the last record that a reader of this isolation level gets."""
        return self.offsets_at(dict.fromkeys(places, LATEST))

    def bounds(self, places: Collection[TopicAndPartition]) -> Bounds:
        """Both, of the partitions that there are."""
        there = self._of_topics({place.topic for place in places}).intersection(places)
        return Bounds(self.earliest(there), self.latest(there))

    def offsets_at(self, times: Mapping[TopicAndPartition, int]) -> Offsets:
        """The first offset from a time on, LATEST or EARLIEST; -1 where no record is so young.

        Goes on through leader changes until request.timeout.ms. Raises OttlaError.
        """
        found: Offsets = {}
        left = dict(times)
        failure: OttlaError | None = None
        deadline = Deadline(MONOTONIC, self._config.request_timeout_ms)
        for _ in attempts(self._backoff, deadline, self._chance):
            for answer in self._ask(left):
                if answer.error_code == Code.NONE:
                    found[answer.topic_partition] = answer.offset
                else:
                    failure = KafkaError(answer.error_code, f"offsets of {answer.topic_partition}")
                    if action_for(answer.error_code) is Action.FAIL:
                        raise failure
                    self._metadata.invalidate(*answer.topic_partition)
            left = {place: time for place, time in left.items() if place not in found}
            if not left:
                return found
        raise failure or KafkaError(Code.LEADER_NOT_AVAILABLE, f"offsets of {shown(left)}")

    def _ask(self, times: Mapping[TopicAndPartition, int]) -> list[OffsetAnswer]:
        """One question to each leader; what cannot be asked now has no answer."""
        by_leader: dict[int, list[OffsetQuestion]] = {}
        for place, time in times.items():
            leader = self._metadata.leader(*place)
            question = OffsetQuestion(place, time, leader.epoch)
            by_leader.setdefault(leader.node.broker_id, []).append(question)
        answers: list[OffsetAnswer] = []
        for broker_id, questions in by_leader.items():
            request = list_offsets_request(questions, self._isolation_level)
            try:
                answers += offset_answers(self._pool.to(broker_id).call(request))
            except OttlaError as error:
                if action_about(error) is Action.FAIL:
                    raise
                for question in questions:
                    self._metadata.invalidate(*question.topic_partition)
        return answers

    # --- sizes

    def bytes_per_offset(self, bounds: Bounds) -> dict[TopicAndPartition, float]:
        """How large records are on average; nothing of partitions whose brokers do not tell (before 1.0)."""
        by_leader: dict[int, list[TopicAndPartition]] = {}
        for place in bounds.earliest:
            by_leader.setdefault(self._metadata.leader(*place).node.broker_id, []).append(place)
        found: dict[TopicAndPartition, float] = {}
        for broker_id, places in by_leader.items():
            try:
                sizes = log_sizes(self._pool.to(broker_id).call(log_sizes_request(places)))
            except OttlaError as error:
                log.warning(
                    "tasks are not sized by bytes: broker %d does not tell sizes: %s", broker_id, error
                )
                continue
            for place in places:
                offsets = bounds.latest[place] - bounds.earliest[place]
                if place in sizes and offsets > 0:
                    found[place] = sizes[place] / offsets
        return found

    # --- positions

    def resolve(
        self,
        what: str,
        position: Position,
        places: set[TopicAndPartition],
        without_match: WithoutMatch = WithoutMatch.LATEST,
    ) -> Offsets:
        """A position as offsets of all partitions. Not Edge.GROUP, which no log knows."""
        if isinstance(position, AtOffsets):
            check_complete(what, position.offsets, places)
            edges = {place: offset for place, offset in position.offsets.items() if offset < 0}
            return {**position.offsets, **self.offsets_at(edges)}
        if isinstance(position, AtTime):
            times = dict.fromkeys(places, position.time_ms)
        elif isinstance(position, AtTimes):
            check_complete(what, position.times_ms, places)
            times = position.times_ms
        else:
            return self.earliest(places) if position is Edge.EARLIEST else self.latest(places)
        found = self.offsets_at(times)
        unmatched = {place for place, offset in found.items() if offset == UNKNOWN_OFFSET}
        if unmatched and without_match is WithoutMatch.ERROR:
            raise ConfigError(
                f"{what}: no record from that time on in {shown(unmatched)}; choose an earlier time, or set"
                " startingOffsetsByTimestampStrategy to latest"
            )
        return {**found, **self.latest(unmatched)}

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()
        self._metadata.close()
