"""The tasks behind an asyncio Producer: they send, ask about the cluster, and watch the time.

The queues and the decisions are those of the blocking Producer: `Dispatcher`, `MetadataAnswers`, `TimedWork`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import cast

from ottla.aio.cluster import LoopMetadata
from ottla.aio.pool import LoopPool
from ottla.aio.sender import LoopSender, SenderResources
from ottla.aio.waiting import LoopCondition, Tasks, finishing, is_set_within, uncancelled
from ottla.client.clock import MONOTONIC, Deadline
from ottla.client.network_errors import NetworkErrors
from ottla.client.retry import Backoff
from ottla.model.errors import (
    ConfigError,
    LocalProtocolError,
    OttlaError,
    ProducerClosed,
)
from ottla.producer.column_intake import ColumnIntake, NeedsTopic, Steps
from ottla.producer.deliveries import BatchDelivery, Submission
from ottla.producer.dispatcher import Dispatcher
from ottla.producer.inboxes import TopicInbox
from ottla.producer.memory import BufferMemory
from ottla.producer.metadata_answers import MetadataAnswers, identity_request
from ottla.producer.partitioners import PartitionerChoice, TopicPartitioner
from ottla.producer.producer_config import ProducerConfig
from ottla.producer.producer_state import ProducerParts
from ottla.producer.timed_work import TimedWork
from ottla.producer.topic_directory import KnownTopic
from ottla.producer.transaction_link import TransactionLink
from ottla.producer.transactions import Transactions, open_transactions
from ottla.wire.api.init_producer_id import InitProducerIdRequest

LOG = logging.getLogger(__name__)

LOOK_S = 0.25
"""How long a wait for a topic lasts before it checks the time again."""


class NoRoom(Exception):
    """The memory is not free at present: wait for it, and try again."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


class LoopMemory(BufferMemory):
    """`buffer.memory` for coroutines: `reserve` does not wait, `wait_free` does."""

    def __init__(self, config: ProducerConfig, errors: NetworkErrors) -> None:
        super().__init__(config.buffer_memory, config.max_block_ms, MONOTONIC, errors)
        self._loop_changed = LoopCondition()

    def reserve(self, size: int) -> None:
        """Take `size` bytes. Raises NoRoom."""
        if not self.try_reserve(size):
            raise NoRoom(size)

    def release(self, size: int) -> None:
        """Release bytes."""
        super().release(size)
        self._loop_changed.notify_all()

    def close(self) -> None:
        """Make waiting coroutines raise ProducerClosed."""
        super().close()
        self._loop_changed.notify_all()

    async def wait_free(self, size: int, deadline: Deadline) -> None:
        """Wait until `size` bytes are free. Raises BufferFull at the deadline, ProducerClosed."""
        while self.limit - self.used < size:
            self.check_open()
            left_ms = deadline.left_ms() or 0.0
            if not left_ms:
                raise self.full(size)
            await self._loop_changed.notified(left_ms / 1000)


class LoopProducerEngine:
    """Made in a running loop. Its tasks run from the first record until `close`."""

    def __init__(self, config: ProducerConfig, choice: PartitionerChoice) -> None:
        self.config = config
        self.metadata = LoopMetadata(config.client)
        self.memory = LoopMemory(config, self.metadata.errors)
        self._topics_changed = LoopCondition()
        self._metadata_wanted, self._timer_wanted = asyncio.Event(), asyncio.Event()
        self._left_flight = asyncio.Event()
        self.state = ProducerParts.new(
            config,
            MONOTONIC,
            self.metadata.errors,
            metadata_wanted=self._metadata_wanted,
            timer_wanted=self._timer_wanted,
            left_flight=self._left_flight,
            memory=self.memory,
            changed=self._topics_changed,
        )
        self.intake = self.state.intake
        self._choice = choice
        self.dispatcher = Dispatcher(self.state, self._new_sender)
        self.columns = ColumnIntake(self.state, self.dispatcher, choice)
        self.pool = LoopPool(config.client, self.metadata)
        self.tasks = Tasks()
        self.encoders = ThreadPoolExecutor(1, thread_name_prefix=f"{config.client.client_id}-encode")
        self._answers = MetadataAnswers(self.state, self.dispatcher)
        self._backoff = Backoff(config.client.retry_backoff_ms, config.client.retry_backoff_max_ms)
        self._transactions: Transactions | None = None
        if config.is_transactional:
            link = TransactionLink(
                config, LoopPool(config.client, self.metadata), MONOTONIC, self.state.chance
            )
            self._transactions = Transactions(self.state, self.dispatcher, link, self)
        self.is_started = False

    @property
    def transactions(self) -> Transactions:
        """Return the transactions.

        Raises ConfigError if transactional.id is not set, or the error that ended the producer.
        """
        return open_transactions(self._transactions, self.intake)

    # --- handing in

    def inbox(self, topic: str) -> TopicInbox:
        """Return the inbox of the topic. Raises ConfigError, or the error that ended the producer."""
        if not isinstance(topic, str) or not topic:
            raise ConfigError(f"topic={topic!r}: the name of a topic is wanted")
        if not self.is_started:
            self.is_started = True
            self.tasks.start(self._guarded(self._keep_metadata()), "ottla-producer-metadata")
            self.tasks.start(self._guarded(self._keep_time()), "ottla-producer-timer")
        partitioner = TopicPartitioner(topic, self._choice, self.state.chance.randrange(1 << 16))
        return self.intake.add(TopicInbox(topic, self.state, self.dispatcher, partitioner))

    async def room(self, need: NoRoom, deadline: Deadline) -> None:
        """Wait for memory; meanwhile everything is sent without lingering."""
        with self.dispatcher.hurrying():
            await self.memory.wait_free(need.size, deadline)

    async def hand_in(self, inbox: TopicInbox, steps: Steps) -> BatchDelivery:
        """Carry out the steps of a batch, and wait for what they need."""
        try:
            need = next(steps)
            while True:
                known: KnownTopic | None = None
                try:
                    if isinstance(need, NeedsTopic):
                        known = await self._known(need.topic, need.partition)
                    else:
                        await self._reserved(need.size)
                        await self._rows_first(inbox)
                except BaseException as error:  # noqa: BLE001 - the steps know what was accepted
                    need = steps.throw(error)
                else:
                    need = steps.send(known)
        except StopIteration as end:
            delivery: BatchDelivery = end.value
            return delivery

    async def _reserved(self, size: int) -> None:
        deadline = Deadline(MONOTONIC, self.memory.max_block_ms)
        while True:
            try:
                self.memory.reserve(size)
            except NoRoom as need:
                await self.room(need, deadline)
            else:
                return

    async def _rows_first(self, inbox: TopicInbox) -> None:
        """Queue the rows that were handed in before; they may wait for news of their topic."""
        inbox.seal()
        while (since_ms := inbox.needs_topic_since_ms) is not None:
            await self._fresh(inbox.topic, since_ms)
            inbox.seal()

    async def _known(self, topic: str, partition: int) -> KnownTopic:
        known = await self._looked_up(topic)
        if partition >= known.partition_count:
            await self._fresh(topic, MONOTONIC.now_ms())
            known = await self._looked_up(topic)
        return known

    async def _looked_up(self, topic: str) -> KnownTopic:
        while (known := self.state.topics.look(topic)) is None:
            await self._topics_changed.notified(LOOK_S)
        return known

    async def _fresh(self, topic: str, since_ms: float) -> None:
        while not self.state.topics.is_fresh(topic, since_ms):
            self.state.topics.check_open(topic)
            await self._topics_changed.notified(LOOK_S)

    # --- the end

    async def all_settled(self) -> None:
        """Send everything that was handed in, and wait until it is stored or has failed."""
        await self.settled(None)

    async def all_landed(self, deadline: Deadline) -> bool:
        """Wait until nothing is in flight, after everything was abandoned.

        Returns False if the deadline has passed.
        """
        while True:
            self._left_flight.clear()
            if self.dispatcher.is_empty:
                return True
            left_ms = deadline.left_ms()
            if left_ms == 0:
                return False
            await is_set_within(self._left_flight, None if left_ms is None else left_ms / 1000)

    async def close(self, timeout: float | None) -> None:
        """Accept nothing more, flush for `timeout` seconds, give up the rest, end all tasks."""
        self.intake.refuse(ProducerClosed("this producer is closed"))
        try:
            if not self.dispatcher.is_stopped:
                if self._transactions is not None:
                    await self._transactions.close(None if timeout is None else timeout * 1000)
                with contextlib.suppress(TimeoutError):
                    await self.settled(timeout)
        finally:
            await uncancelled(self.stop())
        self.raise_unseen()

    async def settled(self, timeout: float | None) -> None:
        """Send everything, and wait until it is stored or has failed. Raises TimeoutError."""
        deadline = Deadline(MONOTONIC, None if timeout is None else timeout * 1000.0)
        with self.dispatcher.hurrying():
            for submission in self.state.settlement.open_submissions():
                left_ms = deadline.left_ms()
                await all_settled(submission, None if left_ms is None else left_ms / 1000.0)

    def raise_unseen(self) -> None:
        """Raise the first failure that the application has not looked at."""
        for failure in self.state.settlement.unseen_failures():
            raise failure.with_traceback(None)

    async def stop(self) -> None:
        """Give up everything, and end all tasks."""
        self.intake.refuse(ProducerClosed("this producer is closed"))
        why = self.state.errors.cause()  # before the connections are closed
        if not self.dispatcher.is_stopped:
            self.dispatcher.stop()
        async with finishing() as finish:
            finish(self.tasks.cancel())
            if self._transactions is not None:
                finish(self._transactions.stop())
            finish(self.pool.close())
            finish(self.metadata.close())
        self.dispatcher.abandon(
            ProducerClosed(f"the producer was closed (or dropped) before the records were acknowledged{why}")
        )
        self.encoders.shutdown(wait=True, cancel_futures=True)

    # --- tasks

    def _new_sender(self, broker_id: int, dispatcher: Dispatcher) -> LoopSender:
        shared = SenderResources(self.config, self.metadata, self.tasks, self.encoders)
        return LoopSender(broker_id, dispatcher, shared)

    async def _guarded(self, work: object) -> None:
        """Run a task that the producer cannot work without: if it fails, the producer ends."""
        try:
            await work  # type: ignore[misc]
        except asyncio.CancelledError:
            if not self.dispatcher.is_stopped:  # asyncio.run ends what still runs
                self.dispatcher.fail(
                    ProducerClosed("the event loop of this producer has ended: make another one")
                )
            raise
        except Exception as error:
            LOG.exception("a task of the producer failed")
            self.dispatcher.fail(OttlaError(f"the producer cannot go on: {error!r}"))

    async def _keep_time(self) -> None:
        work = TimedWork(self.state, self.dispatcher)
        while True:
            self._timer_wanted.clear()
            left_ms = work.left_ms()
            if left_ms > 0:
                await is_set_within(self._timer_wanted, left_ms / 1000.0)
            else:
                await asyncio.sleep(0)
            work.do()

    async def _keep_metadata(self) -> None:
        failures = 0
        max_age_s = self.config.client.metadata_max_age_ms / 1000
        while True:
            await asyncio.sleep(self._backoff.pause_ms(failures, self.state.chance) / 1000)
            self._metadata_wanted.clear()
            while not self.dispatcher.questions().is_any:
                if not await is_set_within(self._metadata_wanted, max_age_s):
                    break
                self._metadata_wanted.clear()
            failures = 0 if await self._is_all_known() else failures + 1

    async def _is_all_known(self) -> bool:
        """Send the questions that are due; return whether everything is known now."""
        dispatcher, questions = self.dispatcher, self.dispatcher.questions()
        try:
            if questions.topics is not None:
                requested_ms = MONOTONIC.now_ms()
                dispatcher.leaders_requested()
                view = await self.metadata.refresh(questions.topics, reason="the producer needs leaders")
                self._answers.view_came(questions.topics, requested_ms, view)
            elif not questions.is_any:
                await self.metadata.refresh_if_old()
                dispatcher.leaders_changed(self.metadata.view)
            if dispatcher.questions().wants_identity:
                await self._identify()
            if questions.wants_partitions:
                await self.transactions.register()
        except OttlaError as error:
            self._answers.failed(error)
            if questions.topics is not None:
                dispatcher.leaders_are_stale()
            return False
        self._answers.is_lost = False
        return not dispatcher.questions().is_any

    async def _identify(self) -> None:
        try:
            connection = await self.pool.to_any()
            try:
                version = connection.version_for(InitProducerIdRequest.API)
            except LocalProtocolError as error:
                self._answers.go_without_identity(f"enable.idempotence: {error}")
                return
            self._answers.identity_came(await connection.call(identity_request(), version=version))
        except OttlaError as error:
            self._answers.identity_failed(error)
            raise


async def all_settled(submission: Submission, timeout: float | None) -> None:
    """Wait for every row of a submission. Raises TimeoutError."""
    if not await watched(submission).until(lambda: submission.is_done, timeout):
        raise submission.late(timeout)


def watched(submission: Submission) -> LoopCondition:
    """Return the condition that is notified when rows of a submission are settled."""
    if submission.watcher is None:
        submission.watcher = LoopCondition()
    return cast(LoopCondition, submission.watcher)
