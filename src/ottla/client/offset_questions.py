"""The questions to leaders that find an offset in a log, and what the answers mean. Pure.

Each question is a generator: it yields mappings of partitions to times, and is sent the offsets; it returns
the answer.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import TypeVar

from ottla.client.list_offsets import (
    TIMES_SINCE,
    LogEnds,
    OffsetAnswer,
    OffsetQuestion,
    list_offsets_request,
    offset_answers,
)
from ottla.client.reactions import Action, Call, action_about, action_for
from ottla.model.cluster_view import PartitionLeader
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError, KafkaError, NoTimestamps, OttlaError
from ottla.model.offset_spec import EARLIEST, LATEST, UNKNOWN_OFFSET, OffsetSpec, parse_offset_spec
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.api.list_offsets import ListOffsetsRequest, ListOffsetsResponse

T = TypeVar("T")

Times = Mapping[TopicAndPartition, int]
"""Milliseconds since 1970, EARLIEST or LATEST."""

Offsets = dict[TopicAndPartition, int | None]
"""UNKNOWN_OFFSET: no record is of that time or later. None: the broker cannot look up times."""

Asking = Generator[list[Times], list[Offsets], T]

LeaderAnswers = dict[TopicAndPartition, int | KafkaError | None]
"""The answers of a leader: an offset, None if it cannot look up times, or an error that another
try may cure.
"""


def ends(
    topic_partitions: Iterable[TopicAndPartition], times: Iterable[int] = ()
) -> Asking[dict[TopicAndPartition, LogEnds]]:
    """Return where each log begins and ends, and the offsets of all these times."""
    partitions, moments = list(topic_partitions), [EARLIEST, LATEST, *times]
    answers = yield [dict.fromkeys(partitions, moment) for moment in moments]
    by_time = dict(zip(moments, answers, strict=True))
    return {
        partition: LogEnds(
            earliest=max(0, by_time[EARLIEST][partition] or 0),
            latest=max(0, by_time[LATEST][partition] or 0),
            by_time={moment: offsets[partition] for moment, offsets in by_time.items()},
        )
        for partition in partitions
    }


def start(topic_partition: TopicAndPartition, spec: OffsetSpec, now_ms: int) -> Asking[int]:
    """Return where to begin: an offset, EARLIEST or LATEST. Asks the leader if `spec` is a time.

    Raises ConfigError, and NoTimestamps if the broker cannot look up times.
    """
    parsed = parse_offset_spec(spec, now_ms)
    if parsed.start is not None:
        return parsed.start
    offsets = yield from known_offsets_at({topic_partition: parsed.time})
    return LATEST if offsets[topic_partition] == UNKNOWN_OFFSET else offsets[topic_partition]


def for_times(times: Mapping[TopicAndPartition, OffsetSpec], now_ms: int) -> Asking[Offsets]:
    """Return, for each partition, the offset of the first record at that time or later; None if there is
    none.

    "earliest" and "latest" are the log's ends. Raises ConfigError for a number, NoTimestamps if a broker
    cannot look up times.
    """
    parsed: dict[TopicAndPartition, int] = {}
    for partition, spec in times.items():
        offset, moment = parse_offset_spec(spec, now_ms, name="time")
        if offset is not None:
            raise ConfigError(f"time={spec!r}: give a datetime with a time zone, or a timedelta before now")
        parsed[partition] = moment
    offsets = yield from known_offsets_at(parsed)
    return {partition: None if offset == UNKNOWN_OFFSET else offset for partition, offset in offsets.items()}


def known_offsets_at(times: Times) -> Asking[dict[TopicAndPartition, int]]:
    """Return the first offset at or after a time, for each partition. Raises NoTimestamps."""
    (answers,) = yield [times]
    offsets: dict[TopicAndPartition, int] = {}
    for partition, offset in answers.items():
        if offset is None:
            raise NoTimestamps(f"{partition}: the broker cannot look up times; it is older than 0.10.1")
        offsets[partition] = offset
    return offsets


def tail(topic_partitions: Iterable[TopicAndPartition], count: int) -> Asking[dict[TopicAndPartition, int]]:
    """Return, for each partition, the offset `count` before its end, but not before its beginning."""
    if count < 0:
        raise ConfigError(f"tail({count}): give 0 or more")
    log_ends = yield from ends(topic_partitions)
    return {partition: max(log.earliest, log.latest - count) for partition, log in log_ends.items()}


# --- one leader


class LeaderQuestions:
    """Questions to the leader of all these partitions, for one version of ListOffsets."""

    def __init__(
        self,
        questions: Sequence[OffsetQuestion],
        version: int,
        isolation_level: int,
        timeout_ms: int | None = None,
    ) -> None:
        self._questions = questions
        self._version = version
        self._isolation_level = isolation_level
        self._timeout_ms = timeout_ms

    def request(self) -> ListOffsetsRequest:
        """Return one request with all questions."""
        return list_offsets_request(
            self._questions,
            self._version,
            isolation_level=self._isolation_level,
            timeout_ms=self._timeout_ms,
        )

    def answers(self, response: ListOffsetsResponse) -> list[OffsetAnswer]:
        """Return an answer for each question, with an error if the response has none."""
        answers = {
            question.topic_partition: OffsetAnswer(
                question.topic_partition, Code.UNKNOWN_SERVER_ERROR, UNKNOWN_OFFSET
            )
            for question in self._questions
        }
        for answer in offset_answers(response, self._version):
            answers[answer.topic_partition] = answer
        return list(answers.values())


def split_by_ability(
    questions: list[OffsetQuestion], version: int
) -> tuple[LeaderAnswers, list[OffsetQuestion]]:
    """Return the answers that are known without asking, and the questions that are left."""
    if version >= TIMES_SINCE:
        return {}, questions
    unable: LeaderAnswers = {question.topic_partition: None for question in questions if question.time >= 0}
    return unable, [question for question in questions if question.time < 0]


def judged(answers: Iterable[OffsetAnswer]) -> LeaderAnswers:
    """Return offsets, and errors that another try may cure. Raises other errors."""
    judged_answers: LeaderAnswers = {}
    for answer in answers:
        if answer.error_code == Code.NONE:
            judged_answers[answer.topic_partition] = answer.offset
            continue
        error = KafkaError(answer.error_code, f"offsets of {answer.topic_partition}")
        if action_for(answer.error_code, Call.LIST_OFFSETS) is Action.FAIL:
            raise error
        judged_answers[answer.topic_partition] = error
    return judged_answers


class LookupRounds:
    """Asks the leaders for one time in each partition, until all have answered."""

    def __init__(self, times: Times) -> None:
        self.left = dict(times)
        self.offsets: Offsets = {}
        self._failure: OttlaError | None = None

    def by_leader(self, leaders: Iterable[PartitionLeader]) -> dict[int, list[OffsetQuestion]]:
        """Return the questions that are left, by broker. `leaders` are in the order of `left`."""
        questions: dict[int, list[OffsetQuestion]] = {}
        for (partition, moment), leader in zip(self.left.items(), leaders, strict=True):
            question = OffsetQuestion(partition, moment, leader.epoch)
            questions.setdefault(leader.node.broker_id, []).append(question)
        return questions

    def failed(self, error: OttlaError) -> None:
        """Note that a broker gave no answer. Raises the error if another try cannot help."""
        if action_about(error, Call.LIST_OFFSETS) is Action.FAIL:
            raise error
        self._failure = error

    def take(self, answers: LeaderAnswers) -> None:
        """Process the answers of one broker."""
        for partition, answer in answers.items():
            if isinstance(answer, KafkaError):
                self._failure = answer
            else:
                self.offsets[partition] = answer
                self.left.pop(partition, None)

    @property
    def failure(self) -> OttlaError:
        """Return why some questions are not answered."""
        first = next(iter(self.left))
        return self._failure or KafkaError(Code.LEADER_NOT_AVAILABLE, f"offsets of {first}")
