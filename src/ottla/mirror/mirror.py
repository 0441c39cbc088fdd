"""Mirror: copies topics of one cluster into another.

    mirror = Mirror(
        {"bootstrap.servers": "127.0.0.1:9092", "group.id": "mirror"},
        {"bootstrap.servers": "127.0.0.1:9093"},
        Whitelist("orders.*"),
    )
    mirror.run()                # until stop() from another thread or a signal handler, or an error

There is one thread per stream, and one that follows topics. The streams share a producer; each is a member of
the mirror's group, as in Kafka's MirrorMaker.
"""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue

from ottla.admin import Admin
from ottla.client.clock import taken
from ottla.consumer.classic import ConsumerRebalanceListener, TopicFilter
from ottla.consumer.coordinated import RebalanceListener
from ottla.consumer.reading.reader_state import Stopped
from ottla.mirror.cut_source import CutSource
from ottla.mirror.exactly_once import TargetTransactions, check_exactly_once, transactional_id
from ottla.mirror.mirror_settings import (
    Properties,
    admin_properties,
    batch_properties,
    consumer_properties,
    group_of,
    is_classic,
    normalised,
    producer_properties,
)
from ottla.mirror.outbox import MirrorCounts, MirrorPlacement, Outbox, SendingRules
from ottla.mirror.records import Handler
from ottla.mirror.source_logs import SourceLogs
from ottla.mirror.sources import POLL_MS, ClassicSource, GroupSource, MirrorSource, SourceEvents
from ottla.mirror.stream import MirrorStream, Note
from ottla.mirror.topic_follower import TopicFollower, check_clusters
from ottla.mirror.translation import RUNS_TOPIC, RunNotes, create_runs_topic
from ottla.model.errors import ConfigError, OttlaError
from ottla.producer import Producer
from ottla.records.rows import Deserializer

log = logging.getLogger(__name__)

STOP_S = 30.0
"""How long the target may take to acknowledge what was sent, when the mirror stops."""
FOLLOW_S = 30.0
"""How often topics are compared."""
COMMIT_INTERVAL_S, TRANSACTION_S = 60.0, 1.0
"""The defaults of `offset_commit_interval`."""

Listener = RebalanceListener | ConsumerRebalanceListener


@dataclass(frozen=True, slots=True)
class MirrorMetrics:
    """Counts since the start. `sent` is what the target has acknowledged, `dropped` what it never took.

    `divided` are commits of `exactly_once` that may have divided transactions of the source.

    >>> from ottla import Mirror, Whitelist
    >>> source = {"bootstrap.servers": "127.0.0.1:9092", "group.id": "mirror"}
    >>> mirror = Mirror(source, {"bootstrap.servers": "127.0.0.1:9093"}, Whitelist("orders.*"))
    >>> mirror.metrics()  # before it runs
    MirrorMetrics(sent=0, dropped=0, commits=0, divided=0)
    """

    sent: int
    dropped: int
    commits: int
    divided: int


class Mirror:
    """Copies topics until it is stopped. `run` can be called once.

        >>> import threading, time
        >>> from ottla import Mirror, Whitelist
        >>> source = {"bootstrap.servers": "127.0.0.1:9092", "group.id": "mirror"}
        >>> mirror = Mirror(source, {"bootstrap.servers": "127.0.0.1:9093"}, Whitelist("orders.*"))
        >>> thread = threading.Thread(target=mirror.run)
        >>> thread.start()
        >>> while mirror.metrics().sent < 3:
        ...     time.sleep(0.01)
        >>> mirror.stop()
        >>> thread.join()

    `consumer` and `producer` have Kafka's names; with zookeeper.connect the consumer is a member of a classic
    group. `listener` must fit the kind of the group. `offset_commit_interval` is in seconds: 60 by default,
    with `exactly_once` 1. `exactly_once` sends in transactions of the target, which hold the positions too,
    and keeps transactions of the source whole; `run` raises Unsupported if the target has none.
    The deserializers, functions or `Schema`, are for the `handler`: records are copied as they are.
    `follows_topics` creates topics, partitions and settings in the target as in the source. With
    `waits_for_each` every chunk is acknowledged before the next one is read, as with producer.type=sync.
    """

    def __init__(
        self,
        consumer: Properties,
        producer: Properties,
        topics: TopicFilter,
        *,
        streams: int = 1,
        placement: MirrorPlacement | str = MirrorPlacement.SAME,
        handler: Handler | None = None,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        listener: Listener | None = None,
        offset_commit_interval: float | None = None,
        aborts_on_failure: bool = True,
        follows_topics: bool = True,
        waits_for_each: bool = False,
        exactly_once: bool = False,
    ) -> None:
        if streams < 1:
            raise ConfigError(f"streams={streams}: give 1 or more")
        self._consumer = consumer
        self._producer_properties = producer
        self._topics = topics
        self._streams = streams
        self._placement = MirrorPlacement(placement)
        self._handler = handler
        self._deserializers = (key_deserializer, value_deserializer)
        self._group_listener = listener if isinstance(listener, RebalanceListener) else None
        self._classic_listener = None if isinstance(listener, RebalanceListener) else listener
        if (self._group_listener if is_classic(consumer) else self._classic_listener) is not None:
            raise ConfigError(
                f"listener={listener!r} does not fit the group: a classic group (zookeeper.connect) "
                "takes a ConsumerRebalanceListener, any other takes a RebalanceListener"
            )
        if offset_commit_interval is None:
            offset_commit_interval = TRANSACTION_S if exactly_once else COMMIT_INTERVAL_S
        self._commit_interval_ms = offset_commit_interval * 1000
        if exactly_once:
            check_exactly_once(
                consumer,
                producer,
                streams=streams,
                interval_ms=self._commit_interval_ms,
                aborts_on_failure=aborts_on_failure,
            )
        self._exactly_once = exactly_once
        self._aborts_on_failure = aborts_on_failure
        self._follows_topics = follows_topics
        self._waits_for_each = waits_for_each
        self._group = group_of(consumer)
        self._counts = MirrorCounts()
        self._is_stopping = threading.Event()
        # A queue: a signal handler may interrupt the thread that holds an event's lock.
        self._stop_requests: SimpleQueue[None] = SimpleQueue()
        self._errors: list[BaseException] = []
        self._mirror_streams: list[MirrorStream] = []

    # --- running

    def run(self) -> None:
        """Mirror until `stop` is called. Raises MirrorFailed, and what consumers raise, if an error ends it.

        Temporary errors do not end it. Errors that need a person do, such as missing rights or damaged
        records, and a cluster that cannot be reached at the start. The next run continues at the last commit.
        Ctrl-C stops the mirror as `stop` does, and is raised then.
        """
        with ExitStack() as stack:
            producer = Producer(self._producer_settings())
            stack.callback(self._close, producer)
            transactions = self._take_over(producer)
            follower = self._follower(stack)
            rules = SendingRules(
                placement=self._placement,
                handler=self._handler,
                deserializers=self._deserializers,
                aborts_on_failure=self._aborts_on_failure,
                prepare=follower.prepare if follower is not None else lambda topic_partition: None,  # noqa: ARG005
            )
            note = RunNotes(producer, self._group).write if self._notes(rules) else _note_nothing
            self._mirror_streams = [
                self._stream(number, producer, rules, note, transactions) for number in range(self._streams)
            ]
            threads = [
                threading.Thread(target=self._work, args=(stream.run,), name=f"mirror-{self._group}-{number}")
                for number, stream in enumerate(self._mirror_streams)
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
        """Commit what is stored and end; does not wait. Any thread and signal handlers may call it."""
        self._stop_requests.put(None)

    def __repr__(self) -> str:
        state = "stopping" if self._is_stopping.is_set() else "mirrors"
        return f"<Mirror of group {self._group!r}, {state} {self._topics}, {self._counts.sent} records sent>"

    @property
    def stopped(self) -> Stopped:
        """The partitions that cannot be read at present, and why; they are tried again and again."""
        streams = list(self._mirror_streams)
        return {partition: report for stream in streams for partition, report in stream.stopped.items()}

    def metrics(self) -> MirrorMetrics:
        """Return the counts so far."""
        counts = self._counts
        return MirrorMetrics(counts.sent, counts.dropped, counts.commits, counts.divided)

    def _run_threads(self, threads: list[threading.Thread], producer: Producer) -> None:
        for thread in threads:
            thread.start()
        log.info("group %s: mirrors %s with %d streams", self._group, self._topics, self._streams)
        try:
            taken(self._stop_requests)
        finally:
            self._is_stopping.set()
            for thread in threads:
                thread.join(0 if self._errors else STOP_S)
            self._close(producer)  # ends the waiting of streams for the target
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

    def _producer_settings(self) -> dict[str, object]:
        return producer_properties(
            self._producer_properties, transactional_id(self._group) if self._exactly_once else None
        )

    def _take_over(self, producer: Producer) -> TargetTransactions | None:
        if not self._exactly_once:
            return None
        return TargetTransactions.take_over(producer, self._group, self._producer_properties)

    def _stream(
        self,
        number: int,
        producer: Producer,
        rules: SendingRules,
        note: Note,
        transactions: TargetTransactions | None,
    ) -> MirrorStream:
        return MirrorStream(
            partial(self._open_source, number),
            Outbox(producer, rules, self._counts),
            self._counts,
            note=note,
            unmirrored=frozenset({RUNS_TOPIC}),
            commit_interval_ms=self._commit_interval_ms,
            waits_for_each=self._waits_for_each,
            is_stopping=self._is_stopping,
            transactions=transactions,
        )

    def _open_source(self, number: int, events: SourceEvents) -> MirrorSource:
        given = normalised(self._consumer) | (
            {"isolation_level": "read_committed"} if self._exactly_once else {}
        )
        if self._placement is MirrorPlacement.SAME and self._handler is None:
            given = batch_properties(self._producer_properties) | normalised(given)
        properties = consumer_properties(given, number, POLL_MS)
        if is_classic(self._consumer):
            return ClassicSource(self._topics, properties, self._classic_listener, events)
        open_group = partial(GroupSource, self._topics, self._group, properties, self._group_listener)
        if not self._exactly_once:
            return open_group(events)
        return CutSource(open_group, events, SourceLogs(self._consumer), self._commit_interval_ms)

    # --- topics

    def _follower(self, stack: ExitStack) -> TopicFollower | None:
        if not self._follows_topics:
            return None
        source = stack.enter_context(Admin(admin_properties(self._consumer)))
        target = stack.enter_context(Admin(admin_properties(self._producer_properties)))
        if self._handler is None:
            check_clusters(source, target)
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

    def _notes(self, rules: SendingRules) -> bool:
        """Return whether offsets are noted, and create the topic for the notes."""
        if not rules.notes_offsets or not self._follows_topics:
            return False
        with Admin(admin_properties(self._producer_properties)) as target:
            create_runs_topic(target)
        return True


def _note_nothing(runs: object, positions: object) -> None:
    """Note nothing: with placement by key an offset has no single counterpart."""
