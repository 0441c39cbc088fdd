"""What `begin`, `commit`, `abort` and `send_offsets` of a Producer do, and what a failed record does.

This module moves the state machine of `transaction_state`. Its calls are conversations, for threads and
asyncio. One call of the user runs at a time; a failure may come from any thread at any time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Coroutine
from typing import Any, Protocol

from ottla.client.clock import Deadline
from ottla.model.committed_positions import GroupMetadata
from ottla.model.errors import ConfigError, OttlaError, ProducerFenced, RequestTimedOut, TransactionAborted
from ottla.producer.dispatcher import Dispatcher
from ottla.producer.intake import Intake
from ottla.producer.prepared_transaction import PreparedTransaction
from ottla.producer.producer_state import ProducerParts
from ottla.producer.sequences import Identity
from ottla.producer.transaction_link import Offsets, TransactionLink
from ottla.producer.transaction_state import (
    ProducerTransactionEvent,
    ProducerTransactionState,
    TransactionMachine,
)

LOG = logging.getLogger(__name__)


class Settling(Protocol):
    """How threads or asyncio wait for records."""

    async def all_settled(self) -> None:
        """Send everything that was handed in, and wait until it is stored or has failed."""

    async def all_landed(self, deadline: Deadline) -> bool:
        """Wait until nothing is in flight, after everything was abandoned.

        Returns False if the deadline has passed.
        """


class Transactions:
    """Thread-safe if the waits of `link` are those of threads."""

    def __init__(
        self, state: ProducerParts, dispatcher: Dispatcher, link: TransactionLink, settling: Settling
    ) -> None:
        self._config = state.config
        self._dispatcher = dispatcher
        self._intake = state.intake
        self._settlement = state.settlement
        self._settling = settling
        self._link = link
        self._calls = link.waits.lock()  # held during a user's call, which may wait for brokers
        self._lock = threading.Lock()  # of the machine
        self._machine = TransactionMachine()
        self._identity = Identity(-1, -1)
        self._intake.shut(self._machine.refusal("send()"))
        state.settlement.on_failure = self.failed

    @property
    def is_open(self) -> bool:
        """Whether a transaction has begun and has not ended."""
        return not (self.is_ended or self._machine.state is ProducerTransactionState.FENCED)

    @property
    def is_ended(self) -> bool:
        """Whether no transaction has begun since one was committed, aborted or handed over."""
        return self._machine.state in {ProducerTransactionState.UNINITIALIZED, ProducerTransactionState.READY}

    # ---- the calls of users

    async def init(self, resumed: Identity | None = None) -> Identity:
        """See `Producer.init_transactions`."""
        async with self._calls:
            return await self._init(resumed)

    async def _init(self, resumed: Identity | None = None) -> Identity:
        if self._machine.state is ProducerTransactionState.FENCED:
            raise self._machine.refusal("init_transactions()")
        if self._machine.state is ProducerTransactionState.UNINITIALIZED:
            self._adopt(await self._link.init(resumed, self._link.deadline()))
            self._advance(ProducerTransactionEvent.INITIALIZED)
            LOG.info(
                "%s: producer id %d, epoch %d",
                self._config.transactional_id,
                self._identity.producer_id,
                self._identity.epoch,
            )
        return self._identity

    async def begin(self) -> None:
        """See `Producer.begin`."""
        async with self._calls:
            if self._machine.state is ProducerTransactionState.UNINITIALIZED:
                await self._init()
            elif self._machine.state is ProducerTransactionState.READY and self._link.wants_epoch:
                await self._link.waits.whole(self._call_coordinator(self._renew(self._link.deadline())))
            self._advance(ProducerTransactionEvent.BEGIN)
            # Another thread may have handed these in while the last transaction ended.
            self._dispatcher.abandon(TransactionAborted("the transaction ended before the record was sent"))
            self._dispatcher.open_transaction(registers=not self._link.is_implicit)
            self._intake.reopen()

    async def commit(self, limit_ms: float | None = None) -> None:
        """See `Producer.commit`."""
        async with self._calls:
            is_started = await self._close_settled("commit()")
            self._advance(ProducerTransactionEvent.COMMIT)
            end = self._end(self._link.deadline(limit_ms), is_commit=True) if is_started else None
            await self._finish(end)

    async def hand_over(self) -> PreparedTransaction | None:
        """See `Producer.hand_over`."""
        async with self._calls:
            is_started = await self._close_settled("hand_over()")
            self._advance(ProducerTransactionEvent.HAND_OVER)
            self._intake.shut(self._machine.refusal("send()"))
            if not is_started:
                return None
            name = self._config.transactional_id or ""
            return PreparedTransaction(name, *self._identity, self._link.is_implicit)

    async def abort(self, limit_ms: float | None = None) -> None:
        """See `Producer.abort`."""
        async with self._calls:
            self._advance(ProducerTransactionEvent.ABORT)
            self._intake.shut(ConfigError("send(): abort() has begun; call it again"))
            is_started = self._close()
            self._dispatcher.abandon(TransactionAborted("the transaction was aborted"))
            deadline = self._link.deadline(limit_ms)
            if not await self._settling.all_landed(deadline):
                raise RequestTimedOut("abort(): records are still in flight; call it again")
            self._settlement.unseen_failures()  # of this transaction: they are taken back
            await self._finish(self._undo(deadline) if is_started else None)

    async def send_offsets(self, offsets: Offsets, group: GroupMetadata) -> None:
        """See `Producer.send_offsets`."""
        async with self._calls:
            if self._machine.state is not ProducerTransactionState.OPEN:
                raise self._machine.refusal("send_offsets()")
            self._dispatcher.start_transaction()
            call = self._link.commit_offsets(self._identity, group, offsets, self._link.deadline())
            await self._link.waits.whole(self._call_coordinator(call))

    async def close(self, limit_ms: float | None) -> None:
        """End an open transaction: abort it, or finish a commit whose outcome is not known.

        Failures that were not looked at are forgotten: the records are not committed anyway.
        """
        try:
            if self._machine.state is ProducerTransactionState.COMMITTING:
                await self.commit(limit_ms)
            elif self.is_open:
                await self.abort(limit_ms)
        except OttlaError as error:
            LOG.warning(
                "%s: the open transaction will be ended by the brokers, after transaction.timeout.ms=%d: %s",
                self._config.transactional_id,
                self._config.transaction_timeout_ms,
                error,
            )
        self._settlement.unseen_failures()

    async def stop(self) -> None:
        """Close the connections."""
        await self._link.close()

    # ---- the end of a transaction

    async def _close_settled(self, call: str) -> bool:
        """Wait until everything is stored or has failed, then `_close`."""
        if self._machine.state is ProducerTransactionState.OPEN:
            self._intake.shut(ConfigError(f"send(): {call} has begun; call it again, or abort()"))
            await self._settling.all_settled()
        return self._close()

    def _close(self) -> bool:
        """Send nothing more. Returns whether the coordinator must be told."""
        return self._dispatcher.close_transaction()

    async def _end(self, deadline: Deadline, *, is_commit: bool) -> None:
        following = await self._link.end(self._identity, deadline, is_commit=is_commit)
        if following is not None:
            self._adopt(following)

    async def _undo(self, deadline: Deadline) -> None:
        """Abort, and get another epoch if the sequence numbers of this one cannot be continued."""
        before = self._identity
        try:
            await self._end(deadline, is_commit=False)
        except TransactionAborted as error:
            LOG.info("%s: %s", self._config.transactional_id, error)
            await self._renew(deadline)
        if self._identity == before and self._dispatcher.has_gaps:
            await self._renew(deadline)

    async def _renew(self, deadline: Deadline) -> None:
        """Get another epoch, unless another producer has taken over."""
        self._adopt(await self._link.init(self._identity, deadline))

    def _adopt(self, identity: Identity) -> None:
        self._identity = identity
        self._dispatcher.renumber(identity)

    def _ended(self) -> None:
        self._advance(ProducerTransactionEvent.ENDED)
        self._intake.shut(self._machine.refusal("send()"))

    async def _finish(self, end: Coroutine[Any, Any, None] | None) -> None:
        """Tell the coordinator, if it must know.

        A cancellation takes effect after that, when the outcome is known.
        """

        async def finished() -> None:
            if end is not None:
                await self._call_coordinator(end)
            self._ended()

        await self._link.waits.whole(finished())

    async def _call_coordinator(self, call: Coroutine[Any, Any, None]) -> None:
        """Call the coordinator. An error that ends the transaction or the producer changes the state."""
        try:
            await call
        except ProducerFenced as error:
            self._fence(error)
            raise
        except TransactionAborted as error:
            self.failed(error)
            raise
        except OttlaError as error:
            if self._machine.state is not ProducerTransactionState.OPEN:
                raise
            self.failed(error)  # positions of a group, which may be stored or not
            raise self._machine.refusal("send_offsets()") from error

    # ---- from any thread

    async def register(self) -> None:
        """Tell the coordinator about partitions that are to be written, if it must know them."""
        try:
            async with self._link.lock:  # so that the transaction does not end in between
                partitions = self._dispatcher.unregistered()
                if partitions:
                    self._dispatcher.start_transaction()
                    await self._link.add_partitions(self._identity, partitions)
                    self._dispatcher.registered(partitions)
        except ProducerFenced as error:
            self._fence(error)
        except TransactionAborted as error:
            self.failed(error)

    def failed(self, error: OttlaError) -> None:
        """Note that a record or a step failed: the transaction cannot be committed, and the rest of it fails
        too.
        """
        with self._lock:
            if self._machine.state not in {
                ProducerTransactionState.OPEN,
                ProducerTransactionState.COMMITTING,
            }:
                return
            self._machine.advance(ProducerTransactionEvent.FAIL, error)
        self._give_up()

    def _fence(self, error: OttlaError) -> None:
        with self._lock:
            if self._machine.state is ProducerTransactionState.FENCED:
                return
            self._machine.advance(ProducerTransactionEvent.FENCE, error)
        self._give_up()

    def _give_up(self) -> None:
        why = self._machine.refusal("send()")
        self._intake.shut(why)
        self._dispatcher.abandon(why)

    def _advance(self, event: ProducerTransactionEvent) -> None:
        with self._lock:
            self._machine.advance(event)


def open_transactions(transactions: Transactions | None, intake: Intake) -> Transactions:
    """Return the transactions.

    Raises ConfigError if transactional.id is not set, or the error that ended the producer.
    """
    if transactions is None:
        raise ConfigError("transactions need a transactional.id: Producer(transactional_id='billing-1')")
    intake.check_open()
    return transactions
