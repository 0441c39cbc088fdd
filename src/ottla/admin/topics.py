"""Topics: made, deleted, grown and described. For brokers that have no call for it, through ZooKeeper."""

from __future__ import annotations

import base64
import logging
from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

from ottla.admin.access import ClusterAccess
from ottla.admin.errors import Unsupported, each, told_error
from ottla.admin.topic_values import (
    CreatedTopic,
    NewPartitions,
    NewTopic,
    PartitionDescription,
    TopicDescription,
    config_text,
)
from ottla.admin.zookeeper_topics import ZooKeeperTopics
from ottla.client.clock import Deadline
from ottla.client.retry import Action, action_for
from ottla.model.cluster_view import NO_EPOCH, NO_LEADER, NO_TOPIC_ID, TopicView
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError, KafkaError, OttlaError
from ottla.model.topic_partition import INTERNAL_TOPICS
from ottla.wire.api.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.wire.api.create_topics import (
    CreatedTopic as CreatedTopicAnswer,
)
from ottla.wire.api.create_topics import (
    CreateTopic,
    CreateTopicAssignment,
    CreateTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.api.delete_topics import DeleteTopic, DeleteTopicsRequest

log = logging.getLogger(__name__)

V = TypeVar("V")
Outcomes = dict[str, V | OttlaError]

_CHECKING_SINCE = 1  # of CreateTopics
_DEFAULTS_SINCE = 4
_COUNTS_SINCE = 5
_TOPIC_LISTS_SINCE = 6  # of DeleteTopics
_DEFAULT = -1


class TopicCalls:
    """Every call returns an outcome for every name: a result or an error."""

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access

    # --- making

    def create(self, topics: Collection[NewTopic], *, validate_only: bool) -> Outcomes[CreatedTopic]:
        """Make topics, and wait until all their partitions have leaders."""
        wanted = {topic.name: topic for topic in topics}
        _check_once(wanted, topics)
        deadline = self._access.deadline()
        if self._access.has(CreateTopicsRequest.API):
            outcomes = self._access.settle(
                wanted,
                lambda names: self._asked_to_create(
                    [wanted[name] for name in names], validate_only=validate_only
                ),
                is_repeatable=False,
            )
        else:
            keeper = self._keeper("creating topics", CreateTopicsRequest)
            outcomes = each(wanted, lambda name: keeper.create(wanted[name], validate_only=validate_only))
        if validate_only:
            return outcomes
        made = {name: one for name, one in outcomes.items() if isinstance(one, CreatedTopic)}
        for name, topic in made.items():
            log.info(
                "topic %s created: %s partitions, %s replicas",
                name,
                topic.partitions,
                topic.replication_factor,
            )
        return {**outcomes, **self._when_led(made, {name: made[name].partitions for name in made}, deadline)}

    def _asked_to_create(self, topics: list[NewTopic], *, validate_only: bool) -> Outcomes[CreatedTopic]:
        connection = self._access.pool.to_controller()
        version = connection.version_for(CreateTopicsRequest.API)
        if validate_only and version < _CHECKING_SINCE:
            raise Unsupported("validate_only: brokers before 0.10.2 cannot merely check a topic")
        request = CreateTopicsRequest(
            topics=[_wire_topic(topic, version) for topic in topics],
            timeout_ms=self._access.config.client.request_timeout_ms,
        )
        if version >= _CHECKING_SINCE:
            request.validate_only = validate_only
        by_name = {topic.name: topic for topic in topics}
        answer = connection.call(request, version=version)
        return {one.name: _created(one, by_name.get(one.name), version) for one in answer.topics}

    def add_partitions(self, wanted: Collection[NewPartitions], *, validate_only: bool) -> Outcomes[int]:
        """Raise the number of partitions, and wait until all have leaders."""
        by_topic = {one.topic: one for one in wanted}
        _check_once(by_topic, wanted)
        deadline = self._access.deadline()
        outcomes: Outcomes[int]
        if self._access.has(CreatePartitionsRequest.API):
            outcomes = self._access.settle(
                by_topic,
                lambda names: self._asked_to_grow(
                    [by_topic[name] for name in names], validate_only=validate_only
                ),
                is_repeatable=False,
            )
        else:
            keeper = self._keeper("adding partitions", CreatePartitionsRequest)
            outcomes = each(
                by_topic, lambda name: keeper.add_partitions(by_topic[name], validate_only=validate_only)
            )
        if validate_only:
            return outcomes
        grown = {name: one for name, one in outcomes.items() if isinstance(one, int)}
        for name, total in grown.items():
            log.info("topic %s has %d partitions now", name, total)
        return {**outcomes, **self._when_led(grown, grown, deadline)}

    def _asked_to_grow(self, wanted: list[NewPartitions], *, validate_only: bool) -> Outcomes[int]:
        request = CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(
                    name=one.topic,
                    count=one.total,
                    assignments=None
                    if one.assignment is None
                    else [
                        CreatePartitionsAssignment(broker_ids=list(replicas)) for replicas in one.assignment
                    ],
                )
                for one in wanted
            ],
            timeout_ms=self._access.config.client.request_timeout_ms,
            validate_only=validate_only,
        )
        totals = {one.topic: one.total for one in wanted}
        return {
            one.name: told_error(one.error_code, one.error_message, f"topic {one.name!r}")
            if one.error_code
            else totals[one.name]
            for one in self._access.pool.to_controller().call(request).results
        }

    def _when_led(
        self, made: Mapping[str, V], counts: Mapping[str, int | None], deadline: Deadline
    ) -> Outcomes[V]:
        """The same when so many partitions of each topic have leaders; an error for those that get none."""
        pending = dict(made)
        outcomes: Outcomes[V] = {}
        for _ in self._access.tries(deadline) if pending else ():
            try:
                view = self._access.view_once(list(pending), "waiting for leaders")
            except OttlaError as error:
                log.info("no news of new partitions: %s", error)
                continue
            for name in list(pending):
                if _is_led(view.topics.get(name), counts[name]):
                    outcomes[name] = pending.pop(name)
            if not pending:
                break
        for name in pending:
            outcomes[name] = KafkaError(
                Code.LEADER_NOT_AVAILABLE,
                f"topic {name!r} is made, but not all partitions have leaders after {deadline.timeout_ms} ms",
            )
        return outcomes

    # --- deleting

    def delete(self, names: Iterable[str]) -> Outcomes[None]:
        """Delete topics. Through ZooKeeper they are only marked; the brokers' controller does it soon."""
        if self._access.has(DeleteTopicsRequest.API):
            outcomes = self._access.settle(names, self._asked_to_delete, is_repeatable=False)
        else:
            outcomes = each(names, self._keeper("deleting topics", DeleteTopicsRequest).delete)
        for name, outcome in outcomes.items():
            if outcome is None:
                log.info("topic %s deleted, or marked for it", name)
        return outcomes

    def _asked_to_delete(self, names: list[str]) -> Outcomes[None]:
        connection = self._access.pool.to_controller()
        version = connection.version_for(DeleteTopicsRequest.API)
        request = DeleteTopicsRequest(timeout_ms=self._access.config.client.request_timeout_ms)
        if version >= _TOPIC_LISTS_SINCE:
            request.topics = [DeleteTopic(name=name) for name in names]
        else:
            request.topic_names = names
        return {
            one.name or "": told_error(one.error_code, one.error_message, f"topic {one.name!r}")
            if one.error_code
            else None
            for one in connection.call(request, version=version).responses
        }

    # --- looking

    def names(self) -> dict[str, bool]:
        """All topics, and whether they are internal."""
        if self._access.has(CreateTopicsRequest.API) or not self._access.has_zookeeper:
            view = self._access.view(None, "listing topics")
            return {name: topic.is_internal for name, topic in view.topics.items()}
        keeper = self._keeper("listing topics", CreateTopicsRequest)
        return {name: name in INTERNAL_TOPICS for name in keeper.names()}

    def describe(self, names: Iterable[str] | None) -> Outcomes[TopicDescription]:
        """These topics, or all."""
        wanted = None if names is None else list(names)
        view = self._access.view(wanted, "describing topics")
        marked = self._marked()
        return {
            name: _described(view.topics.get(name), name, is_marked=name in marked)
            for name in (sorted(view.topics) if wanted is None else wanted)
        }

    def _marked(self) -> frozenset[str]:
        if self._access.has(DeleteTopicsRequest.API) or not self._access.has_zookeeper:
            return frozenset()
        return self._keeper("describing topics", DeleteTopicsRequest).marked_for_deletion()

    def _keeper(
        self, wish: str, call: type[CreateTopicsRequest | DeleteTopicsRequest | CreatePartitionsRequest]
    ) -> ZooKeeperTopics:
        return ZooKeeperTopics(self._access.zookeeper(wish, self._access.lack(call.API)))


def _check_once(names: Collection[str], given: Collection[object]) -> None:
    if len(names) != len(given):
        raise ConfigError(f"{len(given)} topics are given under {len(names)} names: name each once")


def _wire_topic(topic: NewTopic, version: int) -> CreateTopic:
    is_open = topic.assignment is None and None in {topic.partitions, topic.replication_factor}
    if is_open and version < _DEFAULTS_SINCE:
        raise Unsupported(
            f"topic {topic.name!r}: brokers before 2.4 cannot be asked for their defaults; give partitions "
            "and replication_factor, or an assignment"
        )
    return CreateTopic(
        name=topic.name,
        num_partitions=topic.partitions or _DEFAULT,
        replication_factor=topic.replication_factor or _DEFAULT,
        assignments=[
            CreateTopicAssignment(partition_index=number, broker_ids=list(replicas))
            for number, replicas in sorted((topic.assignment or {}).items())
        ],
        configs=[
            CreateTopicConfig(name=name, value=config_text(value)) for name, value in topic.configs.items()
        ],
    )


def _created(told: CreatedTopicAnswer, asked: NewTopic | None, version: int) -> CreatedTopic | OttlaError:
    if told.error_code:
        return told_error(told.error_code, told.error_message, f"topic {told.name!r}")
    if version >= _COUNTS_SINCE and told.num_partitions >= 0:
        return CreatedTopic(told.name, told.num_partitions, told.replication_factor)
    if asked is None or asked.assignment is None:
        return CreatedTopic(
            told.name, asked.partitions if asked else None, asked.replication_factor if asked else None
        )
    return CreatedTopic(told.name, len(asked.assignment), len(asked.assignment[0]))


def _is_led(topic: TopicView | None, count: int | None) -> bool:
    if topic is not None and action_for(topic.error) is Action.FAIL:
        return True  # it is there, and who may make topics need not be allowed to see them
    return (
        topic is not None
        and not topic.error
        and len(topic.partitions) >= (count or 1)
        and all(one.leader != NO_LEADER for one in topic.partitions)
    )


def _described(topic: TopicView | None, name: str, *, is_marked: bool) -> TopicDescription | OttlaError:
    if topic is None or topic.error:
        code = topic.error if topic is not None else Code.UNKNOWN_TOPIC_OR_PARTITION
        return KafkaError(code, f"topic {name!r}")
    return TopicDescription(
        name=name,
        partitions=tuple(
            PartitionDescription(
                partition=one.index,
                leader=one.leader if one.leader != NO_LEADER else None,
                leader_epoch=one.leader_epoch if one.leader_epoch != NO_EPOCH else None,
                replicas=one.replicas,
                isr=one.isr,
            )
            for one in topic.partitions
        ),
        topic_id=None if topic.topic_id == NO_TOPIC_ID else _id_text(topic.topic_id),
        is_internal=topic.is_internal,
        is_marked_for_deletion=is_marked,
    )


def _id_text(topic_id: bytes) -> str:
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
