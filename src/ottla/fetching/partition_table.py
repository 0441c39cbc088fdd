"""The partitions of one fetcher: which are fetched next, and what a response means for each. Pure.

    plan ──▶ (the request is sent) ──▶ note: errors are handled, cursors know where the next request begins
                                         │
                            next plan ◀──┘ ──▶ deliver: the records are decoded and queued

Partitions that this broker does not lead (any more) are handed over by `take_departed`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial

from ottla.client.list_offsets import OffsetAnswer, OffsetQuestion
from ottla.client.reactions import Call
from ottla.client.retry import Backoff
from ottla.fetching.budget import FetchBudget, ResponseReserve
from ottla.fetching.collector import Collected, collect, collect_small, glance, split_small, visible_end
from ottla.fetching.cursor import Cursor, Departure, ReadReplica, lookup_time
from ottla.fetching.feed_interface import BY_RESET_POLICY, Want
from ottla.fetching.fetch_config import DamagePolicy, FetchConfig
from ottla.fetching.fetch_errors import (
    STOPPED_BACKOFF,
    Reaction,
    damaged,
    reaction_to,
    refused,
    too_large,
)
from ottla.fetching.request_plan import (
    FetchPlan,
    FetchTurn,
    PartitionRequest,
    ReceivedRecords,
    plan_fetch,
    smoothed,
    together,
    turn_of,
)
from ottla.model.chance import Chance
from ottla.model.cluster_view import LeaderHint
from ottla.model.error_codes import Code
from ottla.model.errors import CorruptRecord, KafkaError, OttlaError
from ottla.model.offset_spec import UNKNOWN_OFFSET
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.slabs import SlabPool
from ottla.wire.api.fetch import FetchPartitionResponse, FetchResponse

log = logging.getLogger(__name__)


class PartitionTable:
    """Used by the thread of one fetcher only."""

    def __init__(
        self,
        config: FetchConfig,
        *,
        budget: FetchBudget,
        pool: SlabPool,
        now_ms: Callable[[], float],
        backoff: Backoff,
        chance: Chance,
        replica_ms: float = 300_000.0,
        scans_once: bool = True,
    ) -> None:
        """`replica_ms`: how long to read a replica before the leader is asked again. `scans_once`: `note`
        verifies checksums too, so that nothing is scanned twice; not for event loops.
        """
        self._config = config
        self._budget = budget
        self._pool = pool
        self._now_ms = now_ms
        self._backoff = backoff
        self._chance = chance
        self._replica_ms = replica_ms
        self._verifies_early = scans_once and config.check_crcs
        self._has_replicas = False  # whether partitions that another broker leads may be read from this one
        self._cursors: dict[TopicAndPartition, Cursor] = {}  # the cursor that has waited longest is first
        self._departed: list[Departure] = []
        self._reserve = ResponseReserve(budget)
        self._needs_lookup = True
        self._offset_bytes = 0.0  # of the partition that was measured last: a guess for the others
        self._first_bytes: float | None = None  # what partitions usually fill the first time
        self.hints: list[LeaderHint] = []  # new leaders that responses name (KIP-951)

    def __len__(self) -> int:
        return len(self._cursors)

    def add(self, cursor: Cursor) -> None:
        """Fetch this partition too, from its position, or from where its reader has sought since."""
        self._cursors[cursor.feed.topic_partition] = cursor
        self.attend([cursor])
        self._has_replicas = self._has_replicas or cursor.replica is not None

    def attend(self, cursors: Iterable[Cursor] | None = None) -> None:
        """Carry out what readers have ordered: drop partitions that were closed, follow seeks."""
        for cursor in list(self._cursors.values() if cursors is None else cursors):
            cursor.resting = None
            topic_partition = cursor.feed.topic_partition
            if self._turn(cursor).want is Want.CLOSED and self._cursors.get(topic_partition) is cursor:
                del self._cursors[topic_partition]
        self._needs_lookup = True

    def clear(self) -> list[Cursor]:
        """Remove all partitions, and return them with their positions."""
        cursors, self._cursors = list(self._cursors.values()), {}
        for cursor in cursors:
            cursor.rewind()
        self._reserve.release_but(0)
        return cursors

    def take_departed(self) -> list[Departure]:
        """Return the partitions that have departed since the last call."""
        departed, self._departed = self._departed, []
        return departed

    # --- requests

    def plan(self, *, is_limited: bool) -> FetchPlan:
        """Plan the next request. `is_limited`: the request can limit the size of the whole response."""
        plan = plan_fetch(
            map(self._turn, self._cursors.values()),
            self._config,
            budget=self._budget,
            now_ms=self._now_ms(),
            is_limited=is_limited,
            first_bytes=self._first_bytes,
        )
        if not is_limited:
            for topic_partition in plan.requests:
                self._to_back(topic_partition)
        self._reserve.add(plan.held_bytes)
        return plan

    def settle(self) -> None:
        """Note that everything received is queued: hold memory only for the request that was planned last."""
        self._reserve.release_but(1)

    def questions(self) -> list[OffsetQuestion]:
        """Return a question for each partition whose offset has to be looked up before it can be fetched."""
        if self._has_replicas:
            self._return_to_leaders()
        if not self._needs_lookup:
            return []
        now_ms = self._now_ms()
        self._needs_lookup = False
        questions = []
        for topic_partition, cursor in self._cursors.items():
            if cursor.lookup is None:
                continue
            self._needs_lookup = True
            if cursor.retry_at_ms > now_ms:
                continue
            time = lookup_time(cursor.lookup, self._config.auto_offset_reset)
            if time is None:
                self._stop(cursor, refused(topic_partition, cursor.position, Code.OFFSET_OUT_OF_RANGE))
            else:
                questions.append(OffsetQuestion(topic_partition, time, cursor.leader_epoch))
        return questions

    def _turn(self, cursor: Cursor) -> FetchTurn:
        return turn_of(cursor, self._config.fetch_message_max_bytes, self._budget)

    def _to_back(self, topic_partition: TopicAndPartition) -> None:
        self._cursors[topic_partition] = self._cursors.pop(topic_partition)

    # --- responses

    def take_offsets(self, answers: Iterable[OffsetAnswer]) -> None:
        """Continue at the offsets that answer `questions`."""
        for answer in answers:
            cursor = self._cursors.get(answer.topic_partition)
            if cursor is None or cursor.lookup is None:
                continue
            if answer.error_code != Code.NONE or answer.offset == UNKNOWN_OFFSET:
                self._refuse(cursor, answer.error_code or Code.OFFSET_NOT_AVAILABLE, Call.LIST_OFFSETS)
            elif cursor.feed.started(cursor.generation, answer.offset):
                log.info("%s: goes on at offset %d", answer.topic_partition, answer.offset)
                cursor.go_to(answer.offset)

    def note(self, plan: FetchPlan, response: FetchResponse) -> list[ReceivedRecords]:
        """Handle a response except for its records, which are returned for `deliver`."""
        received: list[ReceivedRecords] = []
        known = 0
        for topic in response.responses:
            name = topic.topic or plan.names().get(topic.topic_id, "")
            for answer in topic.partitions:
                request = plan.requests.get(TopicAndPartition(name, answer.partition_index))
                if request is None:
                    continue
                known += 1
                if self._awaits(request) and self._goes_to_back(request, answer, received):
                    self._to_back(request.cursor.feed.topic_partition)
        if response.error_code != Code.NONE and not known:
            for request in plan.requests.values():
                self._refuse(request.cursor, response.error_code)
        if not received:
            # No records came, so the lag that was assumed will not fill the next response either.
            for request in plan.requests.values():
                request.cursor.lag = 0
        return received

    def _awaits(self, request: PartitionRequest) -> bool:
        return self._cursors.get(request.cursor.feed.topic_partition) is request.cursor and request.is_current

    def _goes_to_back(
        self, request: PartitionRequest, answer: FetchPartitionResponse, received: list[ReceivedRecords]
    ) -> bool:
        """Process the response for a partition.

        Returns whether it goes to the back of the queue: not if it has records and got none.
        """
        cursor = request.cursor
        if answer.error_code != Code.NONE:
            if answer.current_leader.leader_id >= 0:
                topic_partition, leader = cursor.feed.topic_partition, answer.current_leader
                self.hints.append(LeaderHint(*topic_partition, leader.leader_id, leader.leader_epoch))
            self._refuse(cursor, answer.error_code)
            return False
        if answer.preferred_read_replica >= 0 and not answer.records:
            until_ms = self._now_ms() + self._replica_ms
            self._go_to(cursor, ReadReplica(answer.preferred_read_replica, until_ms))
            return False
        cursor.succeeded()
        if cursor.lag is None:
            self._first_bytes = smoothed(self._first_bytes, len(answer.records or b""))
        if answer.records:
            seen = glance(answer.records, request.offset, verify_crc=self._verifies_early)
            if seen.scanned is None:
                self._enlarge(request, answer)
                return False
            cursor.ahead = seen.next_offset
            cursor.pending_bytes = len(answer.records)
            received.append(ReceivedRecords(request, answer, seen.scanned if self._verifies_early else None))
        else:
            cursor.feed.passed(request.generation, request.offset, answer.high_watermark)
            self._recovered(cursor)
        cursor.lag = max(0, visible_end(answer, self._config) - cursor.ahead)
        if answer.records or cursor.lag:
            cursor.resting = None
        cursor.offset_bytes = cursor.offset_bytes or self._offset_bytes
        return bool(answer.records) or not cursor.lag

    def _enlarge(self, request: PartitionRequest, answer: FetchPartitionResponse) -> None:
        """Before Fetch 3 a batch that does not fit arrives cut: request more, up to the user's limit."""
        cursor, most, records = request.cursor, self._config.fetch_message_max_bytes, answer.records or b""
        if request.size < most:
            cursor.fetch_bytes = min(most, 2 * max(request.size, len(records)))
            return
        where = cursor.feed.topic_partition
        self._stop(cursor, too_large(where, request.offset, answer.high_watermark, request.size, records))

    def deliver(self, received: Iterable[ReceivedRecords]) -> None:
        """Decode records and queue them, small ones together: a reader that waits is woken once for them."""
        for some in together(received):
            small, others = split_small((one for one in some if self._awaits(one.request)), self._config)
            decoded = [*zip(small, collect_small(small, self._pool) if small else (), strict=False)]
            left = small[len(decoded) :] + others
            decoded += [(records, decode()) for records in left if (decode := self.decoding(records))]
            for records, collected in decoded:
                self.queue(records, collected)

    def decoding(self, records: ReceivedRecords) -> Callable[[], Collected] | None:
        """Return a function that decodes records, in any thread; None if the records are not
        wanted any more.
        """
        request, answer, scanned = records
        if not self._awaits(request):
            return None
        cursor = request.cursor
        return partial(
            collect,
            cursor.feed.topic_partition,
            request.offset,
            answer,
            self._config,
            self._pool,
            bytes_max=cursor.chunk_bytes_max(self._budget),
            scanned=scanned,
        )

    def queue(self, records: ReceivedRecords, collected: Collected) -> None:
        """Queue what was decoded, unless the reader has gone elsewhere meanwhile."""
        request, answer, _ = records
        if not self._awaits(request):
            return
        cursor = request.cursor
        cursor.pending_bytes = 0
        for chunk in collected.chunks:
            cursor.feed.deliver(request.generation, chunk)
        if collected.chunks:
            nbytes = sum(chunk.nbytes for chunk in collected.chunks)
            cursor.learn(collected.used_bytes, nbytes, collected.next_offset - request.offset)
            self._offset_bytes = cursor.offset_bytes
        else:
            cursor.feed.passed(request.generation, collected.next_offset, answer.high_watermark)
        cursor.position = collected.next_offset
        if collected.damage is not None:
            self._damaged(cursor, collected.damage)
            return
        self._recovered(cursor)
        if cursor.ahead != cursor.position:
            cursor.rewind()

    def _damaged(self, cursor: Cursor, damage: CorruptRecord) -> None:
        if self._config.damaged_records is DamagePolicy.STOP:
            self._stop(cursor, damage)
            cursor.rewind()
            return
        log.warning("%s", cursor.feed.report(damage, Reaction.SKIP, cursor.position))
        behind = damage.next_offset or cursor.position + 1
        cursor.feed.passed(cursor.generation, behind, cursor.feed.high_watermark)
        is_ahead = cursor.ahead == behind
        cursor.position = behind
        if not is_ahead:
            cursor.rewind()

    # --- errors

    def _refuse(self, cursor: Cursor, code: int, call: Call = Call.FETCH) -> None:
        cursor.resting = None
        topic_partition = cursor.feed.topic_partition
        reaction = reaction_to(code, call)
        if reaction is Reaction.RESET and cursor.replica is not None:
            # A replica may be behind, or begin later than its leader: the leader decides.
            where = f"{topic_partition} at offset {cursor.position} of replica {cursor.replica.broker_id}"
            self.depart(cursor, KafkaError(code, where))
            return
        error = refused(topic_partition, cursor.position, code)
        if reaction is Reaction.RESET and self._is_reset(cursor, code):
            return
        if reaction is Reaction.MOVE:
            self.depart(cursor, error)
        elif reaction is Reaction.RETRY:
            cursor.failures += 1
            cursor.retry_at_ms = self._now_ms() + self._backoff.pause_ms(cursor.failures, self._chance)
            report = cursor.feed.report(error, reaction, cursor.position)
            log.log(logging.WARNING if report.is_logged else logging.DEBUG, "%s", report)
        elif isinstance(error, CorruptRecord):
            self._damaged(
                cursor, damaged(topic_partition, cursor.position, cursor.feed.high_watermark, error)
            )
        else:
            self._stop(cursor, error)

    def _is_reset(self, cursor: Cursor, code: int) -> bool:
        """Look up another offset, if auto.offset.reset allows it. Returns whether it does."""
        time = lookup_time(BY_RESET_POLICY, self._config.auto_offset_reset)
        if time is None:
            return False
        error = KafkaError(code, f"{cursor.feed.topic_partition} at offset {cursor.position}")
        log.warning("%s", cursor.feed.report(error, Reaction.RESET, cursor.position))
        # At once the first time; later with pauses, if the broker refuses the offset that it has just named.
        cursor.retry_at_ms = self._now_ms() + self._backoff.pause_ms(cursor.failures, self._chance)
        cursor.failures += 1
        cursor.look_up(BY_RESET_POLICY)
        self._needs_lookup = True
        return True

    def depart(self, cursor: Cursor, reason: OttlaError) -> None:
        """Hand a partition over, because another broker has to be found for it."""
        del self._cursors[cursor.feed.topic_partition]
        cursor.rewind()
        cursor.feed.report(reason, Reaction.MOVE, cursor.position)
        self._departed.append(Departure(cursor, reason))

    def _go_to(self, cursor: Cursor, replica: ReadReplica | None) -> None:
        """Hand a partition over to a replica that its leader has named; None: back to its leader."""
        del self._cursors[cursor.feed.topic_partition]
        cursor.rewind()
        cursor.replica = replica
        self._departed.append(Departure(cursor))

    def _return_to_leaders(self) -> None:
        """Hand partitions back to their leaders: to look up an offset, or when `replica_ms` is over."""
        now_ms = self._now_ms()
        for cursor in list(self._cursors.values()):
            replica = cursor.replica
            if replica is not None and (cursor.lookup is not None or replica.until_ms <= now_ms):
                self._go_to(cursor, None)

    def _stop(self, cursor: Cursor, error: Exception) -> None:
        """Stop a partition: its reader gets the error. The partition is tried again, less and less often."""
        cursor.stops += 1
        pause_ms = STOPPED_BACKOFF.pause_ms(cursor.stops, self._chance)
        cursor.retry_at_ms = self._now_ms() + pause_ms
        report = cursor.feed.report(error, Reaction.STOP, cursor.position)
        log.error("%s; the next try is in %.0f s", report, pause_ms / 1000)
        cursor.feed.stop(cursor.generation, error)

    def _recovered(self, cursor: Cursor) -> None:
        """Note that a response could be used."""
        if cursor.feed.trouble is None:
            return
        cursor.stops = 0
        if cursor.feed.recovered(cursor.generation):
            log.info("%s: is read again, from offset %d", cursor.feed.topic_partition, cursor.position)
