"""The partitions of one fetcher: whose turn it is, and what an answer means for each. No socket, no thread.

    plan ──▶ (request goes out) ──▶ note: errors are dealt with, the others told where they go on
                                      │
                         next plan ◀──┘ ──▶ deliver: what was noted is decoded and queued

Partitions that this broker does not lead (any more) leave through `take_departed`.
"""

from __future__ import annotations

import logging
import random
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from ottla.client.clock import Clock
from ottla.client.retry import Backoff
from ottla.fetching.budget import Budget
from ottla.fetching.collector import collect, glance
from ottla.fetching.config import DamagePolicy, FetchConfig
from ottla.fetching.cursor import CHUNK_BYTES_MAX, CHUNK_BYTES_TIGHT, Cursor
from ottla.fetching.errors import MessageSizeTooLarge, Reaction, damaged, reaction_to, refused
from ottla.fetching.feed import BY_RESET_POLICY, Want
from ottla.fetching.offset_lookup import OffsetAnswer, OffsetQuestion, reset_time
from ottla.fetching.places import UNKNOWN_OFFSET, TopicAndPartition
from ottla.fetching.request_plan import Asked, FetchPlan, Turn, plan_fetch
from ottla.model.cluster_view import LeaderHint
from ottla.model.error_codes import Code
from ottla.model.errors import CorruptRecord, KafkaError, OttlaError
from ottla.records.slabs import SlabPool
from ottla.wire.api.fetch import FetchPartitionResponse, FetchResponse

log = logging.getLogger(__name__)


class Departure(NamedTuple):
    """A partition that must be read elsewhere, and why."""

    cursor: Cursor
    reason: Exception


class Delivery(NamedTuple):
    """Records that have been received and not decoded yet."""

    asked: Asked
    answer: FetchPartitionResponse


class PartitionTable:
    """Belongs to one fetcher's thread."""

    def __init__(
        self,
        config: FetchConfig,
        *,
        budget: Budget,
        pool: SlabPool,
        clock: Clock,
        backoff: Backoff,
        chance: random.Random | None = None,
    ) -> None:
        self._config = config
        self._budget = budget
        self._pool = pool
        self._clock = clock
        self._backoff = backoff
        self._chance = chance or random.Random()
        self._cursors: dict[TopicAndPartition, Cursor] = {}  # in the order of their turns
        self._departed: list[Departure] = []
        self._held_bytes: deque[int] = deque()  # for answers that are not queued yet, the oldest first
        self._has_unplaced = True
        self._offset_bytes = 0.0  # of the last one that is known, a guess for the others
        self.hints: list[LeaderHint] = []  # what answers tell of other leaders (KIP-951)

    def __len__(self) -> int:
        return len(self._cursors)

    def add(self, cursor: Cursor) -> None:
        """Read this partition too, from where it is, or where its reader has gone since."""
        self._cursors[cursor.feed.topic_partition] = cursor
        self._turn(cursor)
        self._has_unplaced = True

    def attend(self) -> None:
        """Follow the readers: closed partitions are forgotten, others go where a seek says."""
        for place, cursor in list(self._cursors.items()):
            if self._turn(cursor).want is Want.CLOSED:
                del self._cursors[place]
        self._has_unplaced = True

    def clear(self) -> list[Cursor]:
        """All partitions leave, as far as they have come."""
        cursors = list(self._cursors.values())
        self._cursors.clear()
        for cursor in cursors:
            cursor.rewind()
        self._budget.release(sum(self._held_bytes))
        self._held_bytes.clear()
        return cursors

    def take_departed(self) -> list[Departure]:
        """Partitions that have left since the last time."""
        departed, self._departed = self._departed, []
        return departed

    # --- asking

    def plan(self, *, is_limited: bool) -> FetchPlan:
        """The next request; `is_limited`: it can say how large the whole answer may be."""
        plan = plan_fetch(
            map(self._turn, self._cursors.values()),
            self._config,
            budget=self._budget,
            now_ms=self._clock.now_ms(),
            is_limited=is_limited,
        )
        if not is_limited:
            for place in plan.asked:
                self._to_back(place)
        self._held_bytes.append(plan.held_bytes)
        return plan

    def settle(self) -> None:
        """All that was received has been queued, so that memory is held for what was planned last only."""
        while len(self._held_bytes) > 1:
            self._budget.release(self._held_bytes.popleft())

    def questions(self) -> list[OffsetQuestion]:
        """Partitions whose offset has to be looked up before they can be fetched."""
        if not self._has_unplaced:
            return []
        now_ms = self._clock.now_ms()
        self._has_unplaced = False
        found = []
        for place, cursor in self._cursors.items():
            if cursor.lookup is None:
                continue
            self._has_unplaced = True
            if cursor.retry_at_ms > now_ms or cursor.feed.failure is not None:
                continue
            time = reset_time(cursor.lookup, self._config.auto_offset_reset)
            if time is None:
                self._stop(cursor, refused(place, cursor.position, Code.OFFSET_OUT_OF_RANGE))
            else:
                found.append(OffsetQuestion(place, time, cursor.leader_epoch))
        return found

    def _turn(self, cursor: Cursor) -> Turn:
        pending_bytes = cursor.chunk_bytes(cursor.pending_bytes)
        share_bytes = self._budget.share_bytes(cursor.feed.queued_bytes + pending_bytes)
        size = cursor.request_bytes(self._config.fetch_message_max_bytes, share_bytes)
        wanted = cursor.feed.wanted(
            share_bytes=share_bytes,
            expected_bytes=cursor.chunk_bytes(size),
            pending_bytes=pending_bytes,
        )
        cursor.follow(wanted)
        return Turn(cursor, wanted.want, size)

    def _to_back(self, place: TopicAndPartition) -> None:
        self._cursors[place] = self._cursors.pop(place)

    # --- answers

    def found(self, answers: Iterable[OffsetAnswer]) -> None:
        """Offsets that were asked for by `questions`."""
        for place, error_code, offset in answers:
            cursor = self._cursors.get(place)
            if cursor is None or cursor.lookup is None:
                continue
            if error_code != Code.NONE or offset == UNKNOWN_OFFSET:
                self._refuse(cursor, error_code or Code.OFFSET_NOT_AVAILABLE)
            elif cursor.feed.started(cursor.generation, offset):
                log.info("%s: goes on at offset %d", place, offset)
                cursor.place(offset)

    def note(self, plan: FetchPlan, response: FetchResponse) -> list[Delivery]:
        """Deal with everything in an answer but its records, which are returned for `deliver`."""
        names: dict[bytes, str] = {}
        if response.responses and not response.responses[0].topic:
            names = {asked.cursor.topic_id: place.topic for place, asked in plan.asked.items()}
        deliveries: list[Delivery] = []
        known = 0
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for answer in topic.partitions:
                asked = plan.asked.get(TopicAndPartition(name, answer.partition_index))
                if asked is None:
                    continue
                known += 1
                if self._awaits(asked) and self._has_had_its_turn(asked, answer, deliveries):
                    self._to_back(asked.cursor.feed.topic_partition)
        if response.error_code != Code.NONE and not known:
            for asked in plan.asked.values():
                self._refuse(asked.cursor, response.error_code)
        if not deliveries:
            # Nothing came, so what counted as behind cannot fill the next answer either.
            for asked in plan.asked.values():
                asked.cursor.lag = 0
        return deliveries

    def _awaits(self, asked: Asked) -> bool:
        return self._cursors.get(asked.cursor.feed.topic_partition) is asked.cursor and asked.is_current

    def _has_had_its_turn(
        self, asked: Asked, answer: FetchPartitionResponse, deliveries: list[Delivery]
    ) -> bool:
        """Note an answer. Who got nothing though there is something stays where it is, at the front."""
        cursor = asked.cursor
        if answer.error_code != Code.NONE:
            if answer.current_leader.leader_id >= 0:
                place, leader = cursor.feed.topic_partition, answer.current_leader
                self.hints.append(LeaderHint(*place, leader.leader_id, leader.leader_epoch))
            self._refuse(cursor, answer.error_code)
            return False
        cursor.succeeded()
        if answer.records:
            seen = glance(answer.records, asked.offset)
            if seen.is_cut:
                self._enlarge(asked, len(answer.records))
                return False
            cursor.ahead = seen.next_offset
            cursor.pending_bytes = len(answer.records)
            deliveries.append(Delivery(asked, answer))
        else:
            cursor.feed.passed(asked.generation, asked.offset, answer.high_watermark)
        cursor.lag = max(0, self._end(answer) - cursor.ahead)
        cursor.offset_bytes = cursor.offset_bytes or self._offset_bytes
        return bool(answer.records) or not cursor.lag

    def _end(self, answer: FetchPartitionResponse) -> int:
        """How far a reader of this isolation level can see."""
        if self._config.reads_committed and answer.last_stable_offset >= 0:
            return answer.last_stable_offset
        return answer.high_watermark

    def _enlarge(self, asked: Asked, received_bytes: int) -> None:
        """Before Fetch 3 a batch that does not fit comes cut: ask for more, as far as the user allows."""
        cursor, most = asked.cursor, self._config.fetch_message_max_bytes
        if asked.size < most:
            cursor.fetch_bytes = min(most, 2 * max(asked.size, received_bytes))
            return
        error = MessageSizeTooLarge(
            f"{cursor.feed.topic_partition} at offset {asked.offset}: a message is larger than the "
            f"{asked.size} bytes of fetch.message.max.bytes; raise that, or seek() behind the message"
        )
        self._stop(cursor, error)

    def deliver(self, delivery: Delivery) -> None:
        """Decode records and queue them."""
        asked, answer = delivery
        if not self._awaits(asked):
            return
        cursor = asked.cursor
        found = collect(
            cursor.feed.topic_partition,
            asked.offset,
            answer,
            self._config,
            self._pool,
            bytes_max=self._chunk_bytes_max(cursor),
        )
        cursor.pending_bytes = 0
        for chunk in found.chunks:
            cursor.feed.deliver(asked.generation, chunk)
        if found.chunks:
            nbytes = sum(chunk.nbytes for chunk in found.chunks)
            cursor.learn(found.used_bytes, nbytes, found.next_offset - asked.offset)
            self._offset_bytes = cursor.offset_bytes
        else:
            cursor.feed.passed(asked.generation, found.next_offset, answer.high_watermark)
        cursor.position = found.next_offset
        if found.damage is not None:
            self._damaged(cursor, found.damage)
        elif cursor.ahead != cursor.position:
            cursor.rewind()

    def _chunk_bytes_max(self, cursor: Cursor) -> int:
        own_bytes = cursor.feed.queued_bytes + cursor.chunk_bytes(cursor.pending_bytes)
        has_room = self._budget.share_bytes(own_bytes) >= own_bytes
        return CHUNK_BYTES_MAX if has_room else CHUNK_BYTES_TIGHT

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

    # --- what goes wrong

    def _refuse(self, cursor: Cursor, code: int) -> None:
        place = cursor.feed.topic_partition
        reaction = reaction_to(code)
        error = refused(place, cursor.position, code)
        if reaction is Reaction.RESET and self._is_reset(cursor, code):
            return
        if reaction is Reaction.MOVE:
            self.depart(cursor, error)
        elif reaction is Reaction.RETRY:
            cursor.failures += 1
            cursor.retry_at_ms = self._clock.now_ms() + self._backoff.pause_ms(cursor.failures, self._chance)
            log.warning("%s", cursor.feed.report(error, reaction, cursor.position))
        elif isinstance(error, CorruptRecord):
            self._damaged(cursor, damaged(place, cursor.position, cursor.feed.high_watermark, error))
        else:
            self._stop(cursor, error)

    def _is_reset(self, cursor: Cursor, code: int) -> bool:
        """Look the offset up anew if the user allows that."""
        time = reset_time(BY_RESET_POLICY, self._config.auto_offset_reset)
        if time is None:
            return False
        error = KafkaError(code, f"{cursor.feed.topic_partition} at offset {cursor.position}")
        log.warning("%s", cursor.feed.report(error, Reaction.RESET, cursor.position))
        # At once for the first time; a broker that refuses what it has just told is not asked in a loop.
        cursor.retry_at_ms = self._clock.now_ms() + self._backoff.pause_ms(cursor.failures, self._chance)
        cursor.failures += 1
        cursor.look_up(BY_RESET_POLICY)
        self._has_unplaced = True
        return True

    def depart(self, cursor: Cursor, reason: OttlaError) -> None:
        """The partition must be read elsewhere."""
        del self._cursors[cursor.feed.topic_partition]
        cursor.rewind()
        cursor.feed.report(reason, Reaction.MOVE, cursor.position)
        self._departed.append(Departure(cursor, reason))

    def _stop(self, cursor: Cursor, error: Exception) -> None:
        log.error("%s", cursor.feed.report(error, Reaction.STOP, cursor.position))
        cursor.feed.stop(cursor.generation, error)
