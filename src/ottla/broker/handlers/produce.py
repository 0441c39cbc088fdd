"""Produce, key 0: append record sets.

Versions: 0 to 13. 0 to 2 carry formats 0 and 1 as well as 2, which become format 2; from 3 on exactly one
batch of format 2 a partition. zstd needs 7. 13 names topics by id.
Behaviour: acks=0 has no answer, and an error closes the connection; 1 and -1 are the same here, since nobody
replicates: the answer leaves when the records are in the log, and on disk where the policy says so. A batch
that an idempotent producer sends again is acknowledged with the offsets it got first. Where the records
themselves are checked (compacted topics, limits on time, old formats) and are many, a thread does it, and the
next requests of the connection wait. They also wait while the coordinator of a transaction is asked, before
its first batch in a partition; from 12 on that makes the partition part of the transaction. Records that are
refused are named, and the rest of the batch with them.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, NamedTuple

from ottla.broker.serving.express_lane import TOPIC_IDS_SINCE
from ottla.broker.serving.handler import DropConnection, Handler, Inquiry
from ottla.broker.storage.appending import ACKS_ALL
from ottla.broker.storage.leaders import leader_and_epoch
from ottla.broker.storage.open_transactions import IMPLICIT_SINCE, NotAdmitted, Refusals, TransactionClaim
from ottla.broker.storage.partition import Partition
from ottla.broker.storage.topic_store import exhausted
from ottla.broker.storage.turn import Failures
from ottla.log.batch_header import is_transactional
from ottla.log.record_checks import LongCheck
from ottla.log.validation import CheckedSet
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, StorageError
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.api.produce import (
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicResponse,
    RecordError,
)

ACKS = (ACKS_ALL, 0, 1)
INVALID_PRODUCER = Code.INVALID_PRODUCER_ID_MAPPING
PARTITIONS_AT_ONCE = 50
"""Partitions that are written in one turn: the first record of each makes its files."""
LEADERS_SINCE = 10

Outcome = Callable[[], CheckedSet]
"""Returns the checked record set, or raises its error; the check is made by the call, or was made by a
thread.
"""


class PartitionAnswer(NamedTuple):
    """An answer that is not complete yet, and its partition."""

    partition: Partition
    answer: ProducePartitionResponse


class CheckedLater(NamedTuple):
    """A record set whose check takes long. A thread makes the check; then it is appended."""

    topic: str
    item: ProducePartition
    answer: ProducePartitionResponse
    check: Outcome


class AdmittedLater(NamedTuple):
    """The first record set of a transaction in a partition. It is appended when the coordinator agrees."""

    topic: str
    item: ProducePartition
    answer: ProducePartitionResponse
    check: Outcome | None
    producer: tuple[int, int]  # id and epoch

    @property
    def partition(self) -> TopicAndPartition:
        """The partition that the coordinator is asked about."""
        return TopicAndPartition(self.topic, self.item.index)


class ProduceAttempt:
    """One produce request: what is staged, what a thread has to check, and what a coordinator has
    to admit.
    """

    def __init__(self, inquiry: Inquiry, request: ProduceRequest) -> None:
        self._inquiry = inquiry
        self._reply: Callable[[ProduceResponse], None] = inquiry.reply
        self._acks = request.acks
        self._appender = inquiry.broker.appender
        self._turn = inquiry.broker.runtime.turn
        self._topics = request.topic_data
        self._transactional_id = request.transactional_id
        self._open = 0  # parts of the request that are being written
        self._is_complete = False
        self._misdirected: list[PartitionAnswer] = []  # refused, since another broker leads the partition
        self.staged: list[PartitionAnswer] = []
        self.checks: list[CheckedLater] = []
        self.claims: list[AdmittedLater] = []
        self.response = ProduceResponse(responses=[])

    def append_all(self) -> Generator[None, None, None]:
        """Stage every record set. Yields after each PARTITIONS_AT_ONCE of them."""
        count = 0
        for topic in self._topics:
            name: str | None = topic.name
            if self._inquiry.version >= TOPIC_IDS_SINCE:
                name = self._inquiry.broker.store.topic_names.get(topic.topic_id)
            answers: list[ProducePartitionResponse] = []
            self.response.responses.append(
                ProduceTopicResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)
            )
            for item in topic.partition_data:
                answer = ProducePartitionResponse(index=item.index, base_offset=-1)
                answers.append(answer)
                if name is None:
                    answer.error_code, answer.error_message = Code.UNKNOWN_TOPIC_ID, topic.topic_id.hex()
                elif self._transactional_id is None and is_transactional(item.records or b""):
                    # A request of a transaction names its transactional id: rights are checked by that name.
                    answer.error_code = Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                else:
                    self._append(name, item, answer)
                count += 1
                if count % PARTITIONS_AT_ONCE == 0:
                    yield

    def serve_in_slices(self, steps: Generator[None, None, None]) -> None:
        """Append in several turns, write after each step, then answer. The connection's next calls wait."""
        self._inquiry.hold_back()
        self._reply = self._inquiry.reply_large
        done = self._inquiry.broker.runtime.slices.add(self._written_after_each(steps))
        done.add_done_callback(self._fail_if_failed)

    def _written_after_each(self, steps: Generator[None, None, None]) -> Generator[None, None, None]:
        for _ in steps:
            if self.staged:
                self._await_staged()
                self._turn.end()
            yield
        self.answer()

    def _fail_if_failed(self, done: Future[Any]) -> None:
        error = done.exception()
        if error is not None:
            self._inquiry.fail(error)

    def _append(
        self,
        topic: str,
        item: ProducePartition,
        answer: ProducePartitionResponse,
        check: Outcome | None = None,
        *,
        is_admitted: bool = False,
    ) -> None:
        """Stage a record set and note it in its answer; `check` returns the set that a thread has checked."""
        records = item.records or b""
        version = self._inquiry.version
        try:
            try:
                checked_set = check() if check else None
                appended = self._appender.append(
                    topic, item.index, records, version, self._acks, checked_set, is_admitted=is_admitted
                )
            except LongCheck:
                later = self._appender.check_later(topic, item.index, records, version)
                self.checks.append(CheckedLater(topic, item, answer, later))
                return
        except NotAdmitted as first:
            producer = first.producer_id, first.producer_epoch
            self.claims.append(AdmittedLater(topic, item, answer, check, producer))
            return
        except (KafkaError, StorageError) as error:
            _refuse_set(answer, error)
            if error.code == Code.NOT_LEADER_OR_FOLLOWER:
                partition = self._inquiry.broker.store.partition(topic, item.index)
                self._misdirected.append(PartitionAnswer(partition, answer))
            return
        partition, answer.base_offset, answer.log_append_time_ms, answer.log_start_offset = appended
        self.staged.append(PartitionAnswer(partition, answer))

    def check_first(self) -> None:
        """Have a thread make the long checks, then append and answer. The connection's next calls wait."""
        inquiry, runtime = self._inquiry, self._inquiry.broker.runtime
        inquiry.hold_back()
        self._await_staged()
        work = runtime.loop.run_in_executor(runtime.checkers, _outcomes, [item.check for item in self.checks])
        work.add_done_callback(self._checked)

    def _checked(self, done: Future[list[Outcome]]) -> None:
        if done.exception() is None:
            self.serve_in_slices(self._append_checked(done.result()))
        else:
            self._fail_if_failed(done)

    def _append_checked(self, outcomes: list[Outcome]) -> Generator[None, None, None]:
        """Stage what a thread has checked. Yields after each PARTITIONS_AT_ONCE of them."""
        checks, self.checks = self.checks, []
        for count, ((topic, item, answer, _), outcome) in enumerate(zip(checks, outcomes, strict=True), 1):
            self._append(topic, item, answer, outcome)
            if count % PARTITIONS_AT_ONCE == 0:
                yield

    def admit_first(self) -> None:
        """Have the coordinator admit what begins in a transaction, then append and answer."""
        inquiry, (claims, self.claims) = self._inquiry, (self.claims, [])
        inquiry.hold_back()
        self._await_staged()
        producers = {claim.producer for claim in claims}
        if self._transactional_id is None or len(producers) > 1:
            is_nameless = self._transactional_id is None
            code = Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if is_nameless else INVALID_PRODUCER
            why = KafkaError(code, f"transactional id {self._transactional_id!r}, {len(producers)} producers")
            self._append_admitted(claims, {claim.partition: why for claim in claims})
            return
        partitions = tuple(claim.partition for claim in claims)
        is_implicit = inquiry.version >= IMPLICIT_SINCE
        claimed = TransactionClaim(self._transactional_id, *claims[0].producer, partitions, is_implicit)
        inquiry.broker.transactions.admit(claimed, partial(self._append_admitted, claims))

    def _append_admitted(self, claims: list[AdmittedLater], refusals: Refusals) -> None:
        for claim in claims:
            refusal = refusals.get(claim.partition)
            if refusal is None:
                self._append(claim.topic, claim.item, claim.answer, claim.check, is_admitted=True)
            else:
                _refuse_set(claim.answer, refusal)
        self.answer()

    def answer(self) -> None:
        """Answer a request whose connection waits for it, when all of it is checked, admitted and written."""
        if self.checks:
            self.check_first()
            return
        if self.claims:
            self.admit_first()
            return
        try:
            response = self.finish()
        except DropConnection as error:
            self._inquiry.link.drop(error)
            return
        if response is not None:
            self._reply(response)

    def finish(self) -> ProduceResponse | None:
        """Return the answer, or None if it leaves when everything is written. Raises DropConnection."""
        inquiry, response = self._inquiry, self.response
        if self._acks == 0:
            _check_unanswered(response.responses)
            self._await_staged()
            return response
        if self._misdirected and inquiry.version >= LEADERS_SINCE:
            self._add_leaders()
        self._is_complete = True
        self._await_staged()
        return None if self._open else response

    def _add_leaders(self) -> None:
        """Add the present leaders to errors of clients that sent to the wrong broker (KIP-951)."""
        for partition, answer in self._misdirected:
            answer.current_leader = leader_and_epoch(partition)
        partitions = [partition for partition, _ in self._misdirected]
        self.response.node_endpoints = self._inquiry.broker.leaders.endpoints(
            partitions, self._inquiry.link.listener
        )

    def _await_staged(self) -> None:
        """Note the outcome of what this turn writes, and answer if it is the last of the request.

        To be called in the turn that has staged it: another one may write nothing, and end nothing.
        """
        staged, self.staged = self.staged, []
        if staged:
            self._open += 1
            self._turn.then(partial(self._written, staged))

    def _written(self, staged: list[PartitionAnswer], failures: Failures) -> None:
        self._open -= 1
        if failures:
            _note_failures(staged, failures)
            if self._acks == 0:
                _drop_if_lost(self._inquiry, staged, failures)
        if self._is_complete and not self._open:
            self._reply(self.response)


def handle(inquiry: Inquiry, request: ProduceRequest) -> ProduceResponse | None:
    """Stage what can be appended; answer when it is written."""
    if request.acks not in ACKS:
        raise KafkaError(Code.INVALID_REQUIRED_ACKS, f"acks={request.acks}")
    attempt = ProduceAttempt(inquiry, request)
    if sum(len(topic.partition_data) for topic in request.topic_data) > PARTITIONS_AT_ONCE:
        attempt.serve_in_slices(attempt.append_all())
        return None
    exhausted(attempt.append_all())
    if attempt.checks or attempt.claims:
        attempt.answer()
        return None
    response = attempt.finish()
    if response is None:
        inquiry.learn(request)
    return response


def _outcomes(checks: list[Outcome]) -> list[Outcome]:
    """Run checks in a thread."""
    return [_outcome(check) for check in checks]


def _outcome(check: Outcome) -> Outcome:
    try:
        checked_set = check()
    except KafkaError as error:
        return partial(_raise, error)
    return lambda: checked_set


def _raise(error: KafkaError) -> CheckedSet:
    raise error


def _refuse_set(answer: ProducePartitionResponse, error: KafkaError | StorageError) -> None:
    answer.error_code, answer.error_message = error.code, str(error)
    if isinstance(error, KafkaError):
        answer.record_errors = [
            RecordError(batch_index=index, batch_index_error_message=why)
            for index, why in error.record_errors.items()
        ]


def _note_failures(staged: list[PartitionAnswer], failures: Failures) -> None:
    for partition, answer in staged:
        failure = failures.get(partition)
        if failure is not None:
            answer.error_code, answer.error_message = failure.code, str(failure)
            answer.base_offset = answer.log_append_time_ms = answer.log_start_offset = -1


def _check_unanswered(answers: list[ProduceTopicResponse]) -> None:
    """Raise DropConnection if a partition was refused: with acks=0 there is no other way to report it."""
    for topic in answers:
        for answer in topic.partition_responses:
            if answer.error_code:
                raise DropConnection(f"Produce with acks=0 failed: {answer.error_message}")


def _drop_if_lost(inquiry: Inquiry, staged: list[PartitionAnswer], failures: Failures) -> None:
    """Close the connection if something could not be written (acks=0)."""
    lost = [str(failures[partition]) for partition, _ in staged if partition in failures]
    if lost:
        inquiry.link.drop(DropConnection(f"Produce with acks=0 failed: {lost[0]}"))


def refuse(request: ProduceRequest, error: Code, _version: int) -> ProduceResponse:
    """One error for every partition."""
    topics = [
        ProduceTopicResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_responses=[
                ProducePartitionResponse(index=item.index, error_code=error, base_offset=-1)
                for item in topic.partition_data
            ],
        )
        for topic in request.topic_data
    ]
    return ProduceResponse(responses=topics)


HANDLER = Handler(handle, refuse, pipelined=True)
