"""Mirror: what an application or a command line runs.

    mirror = Mirror(
        {"bootstrap.servers": "127.0.0.1:9092", "group.id": "mirror"},
        {"bootstrap.servers": "127.0.0.1:9093"},
        Whitelist("orders.*"),
    )
    mirror.run()                # until stop(), from another thread or a signal's handler; or an error

A thread for each stream, and one that follows topics. The streams share a producer, and each is a member of
the mirror's group of its own, as in Kafka's MirrorMaker.
"""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue

from ottla.admin import Admin
from ottla.classic import ConsumerRebalanceListener, TopicFilter
from ottla.grouped import RebalanceListener
from ottla.mirror.outbox import Counts, Outbox, Placement, Rules
from ottla.mirror.records import Handler
from ottla.mirror.settings import (
    Properties,
    admin_properties,
    batch_properties,
    consumer_properties,
    group_of,
    is_classic,
    normalised,
    producer_properties,
)
from ottla.mirror.sources import POLL_MS, ClassicSource, Events, GroupSource, Source
from ottla.mirror.stream import MirrorStream, Note
from ottla.mirror.topic_follower import TopicFollower
from ottla.mirror.translation import RUNS_TOPIC, RunNotes, make_runs_topic
from ottla.model.errors import ConfigError, OttlaError
from ottla.producer import Producer

log = logging.getLogger(__name__)

STOP_S = 30.0
"""How long the target may take to acknowledge what it was sent, when the mirror is told to stop."""
FOLLOW_S = 30.0
"""How often topics are compared."""

Listener = RebalanceListener | ConsumerRebalanceListener


@dataclass(frozen=True, slots=True)
class MirrorMetrics:
    """Counts since the start. `sent` is what the target has acknowledged, `dropped` what it never took."""

    sent: int
    dropped: int
    commits: int


class Mirror:
    """Copies topics until it is stopped. `run` can be called once.

    `consumer` and `producer` are properties by Kafka's names; with zookeeper.connect the consumer is a member
    of a classic group. `listener` is of the kind of the group. `follows_topics` makes topics, partitions and
    settings of the target as those of the source. `waits_for_each` has each chunk acknowledged before the
    next one is read, as producer.type=sync of Kafka's MirrorMaker has each record.
    """

    def __init__(
        self,
        consumer: Properties,
        producer: Properties,
        topics: TopicFilter,
        *,
        streams: int = 1,
        placement: Placement | str = Placement.SAME,
        handler: Handler | None = None,
        listener: Listener | None = None,
        commit_interval_ms: float = 60_000,
        aborts_on_failure: bool = True,
        follows_topics: bool = True,
        waits_for_each: bool = False,
    ) -> None:
        if streams < 1:
            raise ConfigError(f"streams={streams}: a mirror has 1 or more")
        self._consumer = consumer
        self._producer_properties = producer
        self._topics = topics
        self._streams = streams
        self._placement = Placement(placement)
        self._handler = handler
        self._group_listener = listener if isinstance(listener, RebalanceListener) else None
        self._classic_listener = None if isinstance(listener, RebalanceListener) else listener
        if (self._group_listener if is_classic(consumer) else self._classic_listener) is not None:
            raise ConfigError(
                f"listener={listener!r} is for a group of the other kind: a classic one (zookeeper.connect) "
                "takes a ConsumerRebalanceListener, another one takes a RebalanceListener"
            )
        self._commit_interval_ms = commit_interval_ms
        self._aborts_on_failure = aborts_on_failure
        self._follows_topics = follows_topics
        self._waits_for_each = waits_for_each
        self._group = group_of(consumer)
        self._counts = Counts()
        self._is_stopping = threading.Event()
        # A queue, since a handler of signals may interrupt whoever holds an event's lock.
        self._wishes_to_stop: SimpleQueue[None] = SimpleQueue()
        self._errors: list[BaseException] = []

    # --- running

    def run(self) -> None:
        """Mirror until `stop`. Raises what ended it otherwise: MirrorFailed, and what consumers raise.

        Ctrl-C stops as `stop` does, and is raised behind it.
        """
        with ExitStack() as stack:
            follower = self._follower(stack)
            producer = Producer(producer_properties(self._producer_properties))
            stack.callback(self._close, producer)
            rules = Rules(
                placement=self._placement,
                handler=self._handler,
                aborts_on_failure=self._aborts_on_failure,
                prepare=follower.prepare if follower is not None else lambda place: None,  # noqa: ARG005
            )
            note = RunNotes(producer, self._group).write if self._notes(rules) else _note_nothing
            threads = [
                threading.Thread(
                    target=self._work,
                    args=(self._stream(number, producer, rules, note).run,),
                    name=f"mirror-{self._group}-{number}",
                )
                for number in range(self._streams)
            ]
            if follower is not None:
                threads.append(
                    threading.Thread(
                        target=self._follow, args=(follower,), name=f"mirror-{self._group}-topics"
                    )
                )
            self._run_threads(threads, producer)
        if self._errors:
            raise self._errors[0]

    def stop(self) -> None:
        """Commit what is stored and end; does not wait. For any thread, and for signal handlers."""
        self._wishes_to_stop.put(None)

    def metrics(self) -> MirrorMetrics:
        """What happened so far."""
        return MirrorMetrics(self._counts.sent, self._counts.dropped, self._counts.commits)

    def _run_threads(self, threads: list[threading.Thread], producer: Producer) -> None:
        for thread in threads:
            thread.start()
        log.info("group %s: mirrors %s with %d streams", self._group, self._topics, self._streams)
        try:
            self._wishes_to_stop.get()
        finally:
            self._is_stopping.set()
            for thread in threads:
                thread.join(0 if self._errors else STOP_S)
            self._close(producer)  # who still waits for the target is told that it does so in vain
            for thread in threads:
                thread.join()
            log.info("group %s: has ended, %s", self._group, self.metrics())

    def _close(self, producer: Producer) -> None:
        with suppress(OttlaError):  # streams have looked at every delivery
            producer.close(0)

    def _work(self, work: partial[None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  (raised in run)
            log.error("group %s: the mirror ends: %s", self._group, error)
            self._errors.append(error)
            self.stop()

    # --- parts

    def _stream(self, number: int, producer: Producer, rules: Rules, note: Note) -> MirrorStream:
        return MirrorStream(
            partial(self._open_source, number),
            Outbox(producer, rules, self._counts),
            self._counts,
            note=note,
            unmirrored=frozenset({RUNS_TOPIC}),
            commit_interval_ms=self._commit_interval_ms,
            waits_for_each=self._waits_for_each,
            is_stopping=self._is_stopping,
        )

    def _open_source(self, number: int, events: Events) -> Source:
        given = dict(self._consumer)
        if self._placement is Placement.SAME and self._handler is None:
            given = batch_properties(self._producer_properties) | normalised(given)
        properties = consumer_properties(given, number, POLL_MS)
        if is_classic(self._consumer):
            return ClassicSource(self._topics, properties, self._classic_listener, events)
        return GroupSource(self._topics, self._group, properties, self._group_listener, events)

    # --- topics

    def _follower(self, stack: ExitStack) -> TopicFollower | None:
        if not self._follows_topics:
            return None
        source = stack.enter_context(Admin(admin_properties(self._consumer)))
        target = stack.enter_context(Admin(admin_properties(self._producer_properties)))
        follower = TopicFollower(source, target, self._is_mirrored)
        follower.follow()
        return follower

    def _is_mirrored(self, topic: str) -> bool:
        return topic != RUNS_TOPIC and self._topics.is_topic_allowed(topic)

    def _follow(self, follower: TopicFollower) -> None:
        while not self._is_stopping.wait(FOLLOW_S):
            try:
                follower.follow()
            except OttlaError as error:
                log.warning("topics are not followed this time: %s", error)

    def _notes(self, rules: Rules) -> bool:
        """Whether offsets are noted: the target must have the topic for it."""
        if not rules.notes_offsets or not self._follows_topics:
            return False
        with Admin(admin_properties(self._producer_properties)) as target:
            make_runs_topic(target)
        return True


def _note_nothing(runs: object, positions: object) -> None:
    """Records go where their keys say: there is no one offset for an offset."""
