"""The driver's part: takes over before the tasks begin, and decides and ends when they are done.

A write has an owner: a transactional id, whose producer stores the decisions. Taking the id over fences an
older driver of the same write, which can decide nothing any more. Its last decision can be read then. The ids
of tasks begin with the owner's id, so their open transactions are found by listing.

Before a driver aborts open transactions, it checks that it is still the owner. A newer driver takes over
before its tasks begin, so its transactions cannot be among them.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ottla.admin import Admin
from ottla.model.error_codes import Code
from ottla.model.errors import (
    ConfigError,
    KafkaError,
    LocalProtocolError,
    OttlaError,
    ProducerFenced,
    TransactionAborted,
    Unsupported,
)
from ottla.producer import TransactionEnder
from ottla.producer.prepared_transaction import PreparedTransaction
from ottla.producer.sequences import Identity
from ottla.spark.exactly_once.decision_log import DecisionLog, client_settings
from ottla.spark.exactly_once.decisions import ONGOING, BatchDecision, Seen, is_committed, is_open
from ottla.spark.exactly_once.settings import TIMEOUT, ExactlyOnce

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WritePlan:
    """What tasks and the end of a batch need. It is pickled with the writer, and with the messages of tasks.

    `owner` is a transactional id, `identity` its producer. `decided` is the last decision without its
    transactions. `began_at` is the driver's monotonic clock.
    """

    owner: str
    name: str
    identity: Identity
    decided: BatchDecision | None
    began_at: float

    def is_decided(self, query: str, batch: int) -> bool:
        """Whether a batch was decided by an earlier run: its rows are written."""
        return self.decided is not None and self.decided.covers(query, batch)


class WriteDriver:
    """Holds nothing open between calls: Spark calls from processes that end soon."""

    def __init__(self, settings: ExactlyOnce, properties: Mapping[str, object]) -> None:
        self._settings = settings
        self._properties = dict(properties)
        self._decisions = DecisionLog(settings.topic, properties)

    # ---- before the tasks

    def plan(self) -> WritePlan:
        """Take over, and end what an earlier run of this write has left open.

        Raises ConfigError if the brokers allow no such transaction.timeout.ms, Unsupported if they have no
        transactions, and what connections raise.
        """
        name = self._settings.name or f"once-{uuid.uuid4().hex}"
        owner = f"{self._settings.prefix}.{name}"
        began_at = time.monotonic()
        with TransactionEnder(self._properties) as ender:
            identity = self._taken_over(ender, owner)
            last = self._decisions.last(name) if self._settings.name else None
            identity = self._clean(ender, owner, identity, last)
        decided = None if last is None else BatchDecision(last.query, last.batch, ())
        return WritePlan(owner, name, identity, decided, began_at)

    def _taken_over(self, ender: TransactionEnder, owner: str) -> Identity:
        try:
            return ender.take_over(owner)
        except (LocalProtocolError, Unsupported) as error:
            raise Unsupported(
                f"exactlyOnce needs transactions as brokers have them since Kafka 3.0: {error}"
            ) from error
        except KafkaError as error:
            if error.code != Code.INVALID_TRANSACTION_TIMEOUT:
                raise
            raise ConfigError(
                f"kafka.{TIMEOUT}={self._settings.timeout_ms} is more than the brokers allow: set it to at"
                " most their transaction.max.timeout.ms, or raise that. With exactlyOnce the transactions of"
                " a batch are open until all of its tasks are done: it may take three quarters of that time"
            ) from error

    def _clean(
        self, ender: TransactionEnder, owner: str, identity: Identity, last: BatchDecision | None
    ) -> Identity:
        """Commit transactions that are open and decided, abort the other open ones; returns the owner's
        identity.
        """
        with Admin(client_settings(self._properties)) as admin:
            open_ids = [
                listed.transactional_id
                for listed in admin.list_transactions(states=[ONGOING])
                if listed.transactional_id.startswith(f"{owner}.")
            ]
            if not open_ids:
                return identity
            # No newer driver has taken over, so all of these are older.
            identity = ender.take_over(owner, identity)
            seen = _seen(admin, open_ids)
        decided = [
            transaction
            for transaction in (last.transactions if last else ())
            if is_open(transaction, seen.get(transaction.transactional_id))
        ]
        for transaction in decided:
            ender.end(transaction, is_commit=True)
        left = sorted({*open_ids} - {transaction.transactional_id for transaction in decided})
        for transactional_id in left:
            ender.take_over(transactional_id)
        log.warning(
            "%s: transactions were left open: %d that were decided are committed, %d are aborted",
            owner,
            len(decided),
            len(left),
        )
        return identity

    # ---- after the tasks

    def commit(
        self, plan: WritePlan, query: str, batch: int, prepared: Sequence[PreparedTransaction]
    ) -> None:
        """Decide that a batch counts, and commit its transactions.

        Raises TransactionAborted if it took too long; then nothing counts. Raises ProducerFenced if a newer
        driver has taken over; then it writes the batch. After any other error the next run goes on from here.
        """
        if plan.is_decided(query, batch):
            self._finish_again(plan, query, batch)
            return
        if not prepared:
            return
        decision = BatchDecision(query, batch, tuple(prepared))
        try:
            self._check_time(plan)
            identity = self._record(plan, plan.identity, decision)
        except (TransactionAborted, ProducerFenced):
            self.abort(prepared)
            raise
        with TransactionEnder(self._properties) as ender:
            lost = [transaction for transaction in prepared if not self._committed(ender, transaction)]
            if lost:
                raise _torn(decision, lost)
            identity = self._clean(ender, plan.owner, identity, decision)
        if not self._settings.name:
            self._decisions.record(plan.owner, identity, plan.name, None)  # no later run will ask for it

    def abort(self, prepared: Iterable[PreparedTransaction]) -> None:
        """Abort the prepared transactions; the next run ends those that cannot be aborted now."""
        with TransactionEnder(self._properties) as ender:
            for transaction in prepared:
                try:
                    ender.end(transaction, is_commit=False)
                except OttlaError as error:
                    log.warning("%s is left open: %s", transaction.transactional_id, error)

    def _check_time(self, plan: WritePlan) -> None:
        took_s, usable_s = time.monotonic() - plan.began_at, self._settings.usable_s
        if took_s > usable_s:
            raise TransactionAborted(
                f"the batch took {took_s:.0f} s, and may take {usable_s:.0f} s: three quarters of"
                f" kafka.{TIMEOUT}={self._settings.timeout_ms}, after which brokers abort its transactions."
                " Make batches smaller (maxOffsetsPerTrigger), or the timeout longer"
            )

    def _record(self, plan: WritePlan, identity: Identity, decision: BatchDecision) -> Identity:
        try:
            return self._decisions.record(plan.owner, identity, plan.name, decision)
        except ProducerFenced as error:
            raise ProducerFenced(
                f"{plan.name}: another driver writes under this name now, and this one has decided nothing;"
                f" stop one of them, or give them different checkpoints or writeIds ({error})"
            ) from error

    def _committed(self, ender: TransactionEnder, transaction: PreparedTransaction) -> bool:
        """Commit a decided transaction. Returns whether it is committed, now or before."""
        try:
            ender.end(transaction, is_commit=True)
        except (ProducerFenced, TransactionAborted):
            with Admin(client_settings(self._properties)) as admin:
                seen = _seen(admin, [transaction.transactional_id])
            return is_committed(transaction, seen.get(transaction.transactional_id))
        return True

    def _finish_again(self, plan: WritePlan, query: str, batch: int) -> None:
        """Finish a batch that an earlier run has decided; its rows are not written again."""
        last = self._decisions.last(plan.name)
        if last is None or (last.query, last.batch) != (query, batch):
            return
        with TransactionEnder(self._properties) as ender:
            lost = [
                transaction for transaction in last.transactions if not self._committed(ender, transaction)
            ]
        if not lost:
            log.info("%s: batch %d was decided by an earlier run, and is committed", plan.name, batch)
            return
        if len(lost) < len(last.transactions):
            raise _torn(last, lost)
        self._record(plan, plan.identity, BatchDecision(query, batch - 1, ()))
        raise TransactionAborted(
            f"batch {batch} was decided, and brokers aborted its transactions before the query was started"
            f" again: that took longer than kafka.{TIMEOUT}={self._settings.timeout_ms}. None of its rows"
            " counts. The decision is taken back: start the query again, and the batch is written again"
        )


def _torn(decision: BatchDecision, lost: Sequence[PreparedTransaction]) -> TransactionAborted:
    names = ", ".join(transaction.transactional_id for transaction in lost)
    return TransactionAborted(
        f"batch {decision.batch}: {len(lost)} of {len(decision.transactions)} transactions cannot be"
        f" committed any more, though the batch was decided: brokers have aborted them ({TIMEOUT}), or have"
        f" forgotten what became of them: {names}. The rows of the others are committed. To have the whole"
        " batch written again, those rows too, give the write another writeId"
    )


def _seen(admin: Admin, ids: Iterable[str]) -> dict[str, Seen]:
    """Return what coordinators know about ids; ids that they have forgotten are missing."""
    states: dict[str, Seen] = {}
    for name in ids:
        try:
            description = admin.describe_transactions(name)
        except KafkaError as error:
            if error.code != Code.TRANSACTIONAL_ID_NOT_FOUND:
                raise
        else:
            states[name] = Seen(description.state, description.producer_id, description.producer_epoch)
    return states
