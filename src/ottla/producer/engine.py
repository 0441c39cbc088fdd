"""The parts and the threads behind a Producer. Holds no reference to the Producer."""

from __future__ import annotations

import threading

from ottla.client.clock import MONOTONIC, SIGNAL_CHECK_S, Deadline
from ottla.client.conversation import completed
from ottla.client.interruption import ended
from ottla.client.metadata import ClusterMetadata
from ottla.client.pool import ConnectionPool
from ottla.model.errors import ConfigError, OttlaError, ProducerClosed
from ottla.producer.column_intake import ColumnIntake
from ottla.producer.dispatcher import Dispatcher
from ottla.producer.inboxes import TopicInbox
from ottla.producer.metadata_thread import MetadataThread
from ottla.producer.partitioners import PartitionerChoice, TopicPartitioner
from ottla.producer.producer_config import ProducerConfig
from ottla.producer.producer_state import ProducerParts
from ottla.producer.sender import BrokerSender
from ottla.producer.timer_thread import TimerThread
from ottla.producer.transaction_link import TransactionLink
from ottla.producer.transactions import Transactions, open_transactions

ENDING_S = 2.0
"""How long `close` waits for all threads. They end at once, unless a broker's answer is very large."""


class ProducerEngine:
    """Thread-safe. Its threads run from the beginning until `close` or `stop`."""

    def __init__(self, config: ProducerConfig, choice: PartitionerChoice) -> None:
        self._metadata = metadata = ClusterMetadata(config.client, MONOTONIC)
        state = ProducerParts.new(config, MONOTONIC, metadata.errors)
        self.config = config
        self.intake = state.intake
        self.state = state
        self._choice = choice
        self._closing = threading.Lock()
        self._senders: list[BrokerSender] = []
        self._dispatcher = Dispatcher(state, self._new_sender)
        self.columns = ColumnIntake(state, self._dispatcher, choice)
        self._transactions: Transactions | None = None
        if config.is_transactional:
            self._coordinators = ConnectionPool(config.client, metadata)
            link = TransactionLink(config, self._coordinators.peers, MONOTONIC, state.chance)
            self._transactions = Transactions(state, self._dispatcher, link, self)
        self._metadata_thread = MetadataThread(state, self._dispatcher, metadata, self._register)
        self._timer_thread = TimerThread(state, self._dispatcher)
        self._metadata_thread.thread.start()
        self._timer_thread.thread.start()

    def _new_sender(self, broker_id: int, dispatcher: Dispatcher) -> BrokerSender:
        sender = BrokerSender(broker_id, self.state, dispatcher, self._metadata)
        self._senders.append(sender)
        return sender

    @property
    def is_stopped(self) -> bool:
        """Whether the threads have ended, or will end soon."""
        return self._dispatcher.is_stopped

    def inbox(self, topic: str) -> TopicInbox:
        """Return the inbox of the topic. Raises ConfigError, or the error that ended the producer."""
        if not isinstance(topic, str) or not topic:
            raise ConfigError(f"topic={topic!r}: the name of a topic is wanted")
        partitioner = TopicPartitioner(topic, self._choice, self.state.chance.randrange(1 << 16))
        return self.intake.add(TopicInbox(topic, self.state, self._dispatcher, partitioner))

    def check_brokers(self, timeout: float | None) -> None:
        """Ask a broker to describe the cluster; raises as `ClusterMetadata.refresh`."""
        self._metadata.check_brokers(timeout)

    @property
    def transactions(self) -> Transactions:
        """Return the transactions.

        Raises ConfigError if transactional.id is not set, or the error that ended the producer.
        """
        return open_transactions(self._transactions, self.intake)

    def _register(self) -> None:
        """Tell the transaction coordinator about partitions that are to be written."""
        if self._transactions is not None:
            completed(self._transactions.register())

    async def all_settled(self) -> None:
        """Send everything that was handed in, and wait until it is stored or has failed."""
        self._wait_settled()

    async def all_landed(self, deadline: Deadline) -> bool:
        """Wait until nothing is in flight, after everything was abandoned.

        Returns False if the deadline has passed.
        """
        left_flight = self.state.left_flight
        assert isinstance(left_flight, threading.Event)
        while True:
            left_flight.clear()
            if self._dispatcher.is_empty:
                return True
            if deadline.passed:
                return False
            left_flight.wait(deadline.capped_ms(SIGNAL_CHECK_S * 1000) / 1000.0)

    def flush(self, timeout: float | None) -> None:
        """Send everything, and wait until it is settled. Raises TimeoutError, and unseen failures."""
        self._wait_settled(timeout)
        self._raise_unseen()

    def _wait_settled(self, timeout: float | None = None) -> None:
        deadline = Deadline(MONOTONIC, None if timeout is None else timeout * 1000.0)
        with self._dispatcher.hurrying():
            for submission in self.state.settlement.open_submissions():
                left_ms = deadline.left_ms()
                submission.wait_all(None if left_ms is None else left_ms / 1000.0)

    def _raise_unseen(self) -> None:
        for failure in self.state.settlement.unseen_failures():
            raise failure.with_traceback(None)

    def close(self, timeout: float | None) -> None:
        """Accept nothing more, flush for `timeout` seconds, give up the rest, end all threads."""
        self.intake.refuse(ProducerClosed("this producer is closed"))
        with self._closing:
            if self.is_stopped:
                return
            try:
                if self._transactions is not None:
                    completed(self._transactions.close(None if timeout is None else timeout * 1000.0))
                self.flush(timeout)
            except TimeoutError:
                pass
            finally:
                self.stop()
        self._raise_unseen()

    def stop(self) -> None:
        """Give up everything, and end all threads."""
        self.intake.refuse(ProducerClosed("this producer is closed"))
        why = self.state.errors.cause()  # before the connections are closed
        self._dispatcher.stop()
        if self._transactions is not None:
            self._coordinators.interrupt()
        self._metadata_thread.stop()
        threads = [sender.thread for sender in self._senders]
        threads += [self._metadata_thread.thread, self._timer_thread.thread]
        ended(threads, f"producer {self.config.client.client_id!r}", ENDING_S)
        self._dispatcher.abandon(
            ProducerClosed(f"the producer was closed (or dropped) before the records were acknowledged{why}")
        )
        if self._transactions is not None:
            completed(self._transactions.stop())
            self._coordinators.close()
        self._metadata.close()

    def stop_after_fork(self, error: OttlaError) -> None:
        """Stop in a child process, which has none of the threads, and where locks may be held for ever."""
        self.intake.refuse_after_fork(error)
        self._dispatcher.is_stopped = True
