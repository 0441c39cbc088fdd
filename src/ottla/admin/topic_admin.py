"""Creates, deletes, grows and describes topics; through ZooKeeper if the brokers have no call for it."""

from __future__ import annotations

import base64
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from ottla.admin.access import ClusterAccess
from ottla.admin.admin_errors import each, response_error
from ottla.admin.topic_values import (
    NewPartitions,
    NewTopic,
    PartitionDescription,
    TopicCreation,
    TopicDescription,
    config_text,
)
from ottla.admin.zookeeper_topics import ZooKeeperTopics
from ottla.client.clock import Deadline
from ottla.client.reactions import Action, action_for
from ottla.model.cluster_view import NO_EPOCH, NO_LEADER, NO_TOPIC_ID, TopicView
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError, KafkaError, OttlaError, Unsupported
from ottla.model.topic_partition import INTERNAL_TOPICS
from ottla.wire.api.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.wire.api.create_topics import (
    CreatedTopic,
    CreateTopic,
    CreateTopicAssignment,
    CreateTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.api.delete_topics import DeleteTopic, DeleteTopicsRequest
from ottla.wire.schema import Request

log = logging.getLogger(__name__)

V = TypeVar("V")
Outcomes = dict[str, V | OttlaError]

_CHECKING_SINCE = 1  # of CreateTopics
_DEFAULTS_SINCE = 4
_COUNTS_SINCE = 5
_TOPIC_LISTS_SINCE = 6  # of DeleteTopics
_DEFAULT = -1


class TopicCalls:
    """Each call returns an outcome for every name: a result or an error."""

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access

    # --- creating

    async def create(self, topics: Collection[NewTopic], *, validate_only: bool) -> Outcomes[TopicCreation]:
        """Create topics, and wait until all their partitions have leaders."""
        wanted = {topic.name: topic for topic in topics}
        _check_once(wanted, topics)
        deadline = self._access.deadline()
        outcomes = await self._carried_out(
            wanted,
            CreateTopicsRequest,
            "creating topics",
            lambda names: self._create_once([wanted[name] for name in names], validate_only=validate_only),
            lambda zookeeper, name: zookeeper.create(wanted[name], validate_only=validate_only),
        )
        if validate_only:
            return outcomes
        made = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, TopicCreation)}
        for name, topic in made.items():
            log.info(
                "topic %s created: %s partitions, %s replicas",
                name,
                topic.partitions,
                topic.replication_factor,
            )
        return {
            **outcomes,
            **await self._when_led(made, {name: made[name].partitions for name in made}, deadline),
        }

    async def _create_once(self, topics: list[NewTopic], *, validate_only: bool) -> Outcomes[TopicCreation]:
        connection = await self._access.controller()
        version = connection.version_for(CreateTopicsRequest.API)
        if validate_only and version < _CHECKING_SINCE:
            raise Unsupported("validate_only: brokers before 0.10.2 cannot only check a topic")
        request = CreateTopicsRequest(
            topics=[_wire_topic(topic, version) for topic in topics],
            timeout_ms=self._access.config.client.request_timeout_ms,
        )
        if version >= _CHECKING_SINCE:
            request.validate_only = validate_only
        by_name = {topic.name: topic for topic in topics}
        answer = await connection.call(request, version=version)
        return {
            created.name: _created(created, by_name.get(created.name), version) for created in answer.topics
        }

    async def add_partitions(
        self, wanted: Collection[NewPartitions], *, validate_only: bool
    ) -> Outcomes[int]:
        """Raise the number of partitions, and wait until all have leaders."""
        by_topic = {grown.topic: grown for grown in wanted}
        _check_once(by_topic, wanted)
        deadline = self._access.deadline()
        outcomes = await self._carried_out(
            by_topic,
            CreatePartitionsRequest,
            "adding partitions",
            lambda names: self._add_partitions_once(
                [by_topic[name] for name in names], validate_only=validate_only
            ),
            lambda zookeeper, name: zookeeper.add_partitions(by_topic[name], validate_only=validate_only),
        )
        if validate_only:
            return outcomes
        grown = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, int)}
        for name, total in grown.items():
            log.info("topic %s has %d partitions now", name, total)
        return {**outcomes, **await self._when_led(grown, grown, deadline)}

    async def _add_partitions_once(
        self, wanted: list[NewPartitions], *, validate_only: bool
    ) -> Outcomes[int]:
        request = CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(
                    name=grown.topic,
                    count=grown.total,
                    assignments=None
                    if grown.assignment is None
                    else [
                        CreatePartitionsAssignment(broker_ids=list(replicas)) for replicas in grown.assignment
                    ],
                )
                for grown in wanted
            ],
            timeout_ms=self._access.config.client.request_timeout_ms,
            validate_only=validate_only,
        )
        connection = await self._access.controller()
        answer = await connection.call(request)
        totals = {grown.topic: grown.total for grown in wanted}
        return {
            result.name: response_error(result.error_code, result.error_message, f"topic {result.name!r}")
            if result.error_code
            else totals[result.name]
            for result in answer.results
        }

    async def _carried_out(
        self,
        names: Iterable[str],
        kind: type[Request[Any]],
        what: str,
        once: Callable[[list[str]], Awaitable[Outcomes[V]]],
        by_zookeeper: Callable[[ZooKeeperTopics, str], V],
    ) -> Outcomes[V]:
        """Change topics with requests of a kind, or in ZooKeeper if the brokers lack the request."""
        if await self._access.has(kind.API):
            return await self._access.settle(names, once, is_repeatable=False)
        zookeeper = await self._zookeeper(what, kind)
        return await each(names, lambda name: self._access.blocking(lambda: by_zookeeper(zookeeper, name)))

    async def _when_led(
        self, made: Mapping[str, V], counts: Mapping[str, int | None], deadline: Deadline
    ) -> Outcomes[V]:
        """Return `made` when `counts` partitions of each topic have leaders; an error for topics without."""
        pending = dict(made)
        outcomes: Outcomes[V] = {}
        tries = self._access.tries(deadline)
        while pending and await tries.next():
            try:
                view = await self._access.view_once(list(pending), "waiting for leaders")
            except OttlaError as error:
                log.info("the leaders of new partitions cannot be looked up: %s", error)
                continue
            for name in list(pending):
                if _is_led(view.topics.get(name), counts[name]):
                    outcomes[name] = pending.pop(name)
        for name in pending:
            outcomes[name] = KafkaError(
                Code.LEADER_NOT_AVAILABLE,
                f"topic {name!r} is created, but not all partitions have leaders after "
                f"{deadline.timeout_ms} ms",
            )
        return outcomes

    # --- deleting

    async def delete(self, names: Iterable[str]) -> Outcomes[None]:
        """Delete topics. Through ZooKeeper they are only marked, and the controller deletes them soon
        after."""
        outcomes = await self._carried_out(
            names, DeleteTopicsRequest, "deleting topics", self._delete_once, ZooKeeperTopics.delete
        )
        for name, outcome in outcomes.items():
            if outcome is None:
                log.info("topic %s deleted, or marked for it", name)
        return outcomes

    async def _delete_once(self, names: list[str]) -> Outcomes[None]:
        connection = await self._access.controller()
        version = connection.version_for(DeleteTopicsRequest.API)
        request = DeleteTopicsRequest(timeout_ms=self._access.config.client.request_timeout_ms)
        if version >= _TOPIC_LISTS_SINCE:
            request.topics = [DeleteTopic(name=name) for name in names]
        else:
            request.topic_names = names
        answer = await connection.call(request, version=version)
        return {
            result.name or "": response_error(
                result.error_code, result.error_message, f"topic {result.name!r}"
            )
            if result.error_code
            else None
            for result in answer.responses
        }

    # --- describing

    async def names(self) -> dict[str, bool]:
        """Return all topic names, and whether each is internal."""
        if await self._access.has(CreateTopicsRequest.API) or not self._access.has_zookeeper:
            view = await self._access.view(None, "listing topics")
            return {name: topic.is_internal for name, topic in view.topics.items()}
        zookeeper = await self._zookeeper("listing topics", CreateTopicsRequest)
        return {name: name in INTERNAL_TOPICS for name in await self._access.blocking(zookeeper.names)}

    async def describe(self, names: Iterable[str] | None) -> Outcomes[TopicDescription]:
        """Describe these topics, or with None all."""
        wanted = None if names is None else list(names)
        view = await self._access.view(wanted, "describing topics")
        marked = await self._marked()
        return {
            name: _described(view.topics.get(name), name, is_marked=name in marked)
            for name in (sorted(view.topics) if wanted is None else wanted)
        }

    async def _marked(self) -> frozenset[str]:
        if await self._access.has(DeleteTopicsRequest.API) or not self._access.has_zookeeper:
            return frozenset()
        zookeeper = await self._zookeeper("describing topics", DeleteTopicsRequest)
        return await self._access.blocking(zookeeper.marked_for_deletion)

    async def _zookeeper(self, purpose: str, kind: type[Request[Any]]) -> ZooKeeperTopics:
        reason = await self._access.no_such_call(kind.API)
        return ZooKeeperTopics(await self._access.zookeeper(purpose, reason))


def _check_once(names: Collection[str], given: Collection[object]) -> None:
    if len(names) != len(given):
        raise ConfigError(f"{len(given)} topics are given under {len(names)} names: give each name once")


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


def _created(response: CreatedTopic, requested: NewTopic | None, version: int) -> TopicCreation | OttlaError:
    if response.error_code:
        return response_error(response.error_code, response.error_message, f"topic {response.name!r}")
    if version >= _COUNTS_SINCE and response.num_partitions >= 0:
        return TopicCreation(response.name, response.num_partitions, response.replication_factor)
    if requested is None or requested.assignment is None:
        return TopicCreation(
            response.name,
            requested.partitions if requested else None,
            requested.replication_factor if requested else None,
        )
    return TopicCreation(response.name, len(requested.assignment), len(requested.assignment[0]))


def _is_led(topic: TopicView | None, count: int | None) -> bool:
    if topic is not None and action_for(topic.error) is Action.FAIL:
        return True  # the topic exists: a user that may create topics need not be allowed to describe them
    return (
        topic is not None
        and not topic.error
        and len(topic.partitions) >= (count or 1)
        and all(partition.leader != NO_LEADER for partition in topic.partitions)
    )


def _described(topic: TopicView | None, name: str, *, is_marked: bool) -> TopicDescription | OttlaError:
    if topic is None or topic.error:
        code = topic.error if topic is not None else Code.UNKNOWN_TOPIC_OR_PARTITION
        return KafkaError(code, f"topic {name!r}")
    return TopicDescription(
        name=name,
        partitions=tuple(
            PartitionDescription(
                partition=partition.index,
                leader=partition.leader if partition.leader != NO_LEADER else None,
                leader_epoch=partition.leader_epoch if partition.leader_epoch != NO_EPOCH else None,
                replicas=partition.replicas,
                isr=partition.isr,
            )
            for partition in topic.partitions
        ),
        topic_id=None if topic.topic_id == NO_TOPIC_ID else _id_text(topic.topic_id),
        is_internal=topic.is_internal,
        is_marked_for_deletion=is_marked,
    )


def _id_text(topic_id: bytes) -> str:
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
