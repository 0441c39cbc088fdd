"""Asks the leaders where logs begin and end, and where times are in them; through elections and restarts."""

from __future__ import annotations

import random
from collections.abc import Iterable

from ottla.client.clock import MONOTONIC, Deadline
from ottla.client.config import ClientConfig
from ottla.client.connection import Connection
from ottla.client.interruption import Interruption
from ottla.client.metadata import ClusterMetadata
from ottla.client.pool import ConnectionPool
from ottla.client.retry import Action, Backoff, action_about, action_for, attempts
from ottla.fetching import EARLIEST, LATEST, IsolationLevel, TopicAndPartition
from ottla.fetching.offset_lookup import OffsetQuestion, list_offsets_request, offset_answers
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, OttlaError
from ottla.partition.bounds import LogEnds
from ottla.wire.api.list_offsets import ListOffsetsRequest

TIMES_SINCE, ISOLATION_SINCE = 1, 2  # of ListOffsets

Answers = dict[TopicAndPartition, int | None]


class OffsetLookup:
    """Belongs to one thread; `interruption` ends what it waits for."""

    def __init__(
        self,
        config: ClientConfig,
        metadata: ClusterMetadata,
        isolation: IsolationLevel,
        interruption: Interruption,
    ) -> None:
        self._config = config
        self._metadata = metadata
        self._isolation = isolation
        self._interruption = interruption
        self._chance = random.Random()
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)

    def ends(
        self, places: Iterable[TopicAndPartition], times: Iterable[int]
    ) -> dict[TopicAndPartition, LogEnds]:
        """Of each partition. Raises what request.timeout.ms of trying could not cure."""
        wanted = list(places)
        with ConnectionPool(self._config, self._metadata, interruption=self._interruption) as pool:
            found = {time: self._ask(pool, wanted, time) for time in (EARLIEST, LATEST, *times)}
        return {
            place: LogEnds(
                earliest=_offset(found[EARLIEST][place]),
                latest=_offset(found[LATEST][place]),
                by_time={time: answers[place] for time, answers in found.items()},
            )
            for place in wanted
        }

    def _ask(self, pool: ConnectionPool, places: Iterable[TopicAndPartition], time: int) -> Answers:
        """One time for all partitions; a request may name a partition once only."""
        found: Answers = {}
        left = list(places)
        failure: OttlaError | None = None
        deadline = Deadline(MONOTONIC, self._config.request_timeout_ms)
        for _ in attempts(self._backoff, deadline, self._chance, self._interruption):
            for leader, asked in self._by_leader(left, deadline).items():
                try:
                    found |= self._told(pool.to(leader), asked, time)
                except OttlaError as error:
                    self._interruption.check()
                    if action_about(error) is Action.FAIL:
                        raise
                    failure = error
                    pool.drop(leader)
            left = [place for place in left if place not in found]
            if not left:
                return found
            for place in left:
                self._metadata.invalidate(*place)
        raise failure or KafkaError(Code.LEADER_NOT_AVAILABLE, f"{left[0]}: its offsets cannot be looked up")

    def _by_leader(
        self, places: Iterable[TopicAndPartition], deadline: Deadline
    ) -> dict[int, list[TopicAndPartition]]:
        groups: dict[int, list[TopicAndPartition]] = {}
        for place in places:
            leader = self._metadata.leader(*place, deadline)
            groups.setdefault(leader.node.broker_id, []).append(place)
        return groups

    def _told(self, connection: Connection, places: list[TopicAndPartition], time: int) -> Answers:
        """What one broker answers; partitions that are to be asked for again are left out."""
        version = connection.version_for(ListOffsetsRequest.API)
        if version < TIMES_SINCE and time >= 0:
            return dict.fromkeys(places, None)
        isolation = int(self._isolation) if version >= ISOLATION_SINCE else 0
        request = list_offsets_request([OffsetQuestion(place, time) for place in places], isolation)
        answers: Answers = {}
        for place, code, offset in offset_answers(connection.call(request, version=version)):
            if code == Code.NONE:
                answers[place] = offset
            elif action_for(code) is Action.FAIL:
                raise KafkaError(code, f"{place}: offset of time {time}")
        return answers


def _offset(told: int | None) -> int:
    """Every log has ends."""
    assert told is not None
    return max(0, told)
