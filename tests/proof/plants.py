"""Bugs that the proof must find: a text in a file below src, what it becomes, the test that then fails."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
POWER = "tests/proof/test_power_loss.py::test_what_is_promised_survives_a_power_cut[always]"
EXACTLY_ONCE = "tests/transactions/test_planted_bugs.py::test_a_sound_broker"
STRANGERS = "tests/broker/security/test_nobody_gets_in.py"
GROUPS = "tests/broker/groups/coordinator/test_simulation.py"
CONSUMERS = "tests/consumer/coordinated/test_consumer_simulation.py"
TRANSACTIONS = "tests/broker/transactions/coordinator/test_transaction_simulation.py"
SHARES = "tests/broker/share_groups/test_share_partition_simulation.py"
SENDING = "tests/producer/test_core_simulation.py"
HOSTILE = "tests/fuzz/test_fuzz_slice.py::test_hostile_inputs_are_read_or_refused"
SPARK = "tests/spark/test_exactly_once_kills.py::test_processes_of_drivers_and_tasks_are_killed"
LEDGER = "tests/offsets/test_ledger.py::test_of_two_workers_of_a_partition_only_the_later_one_stores"


@dataclass(frozen=True)
class Plant:
    """`old`, which stands once in `file` below src, becomes `new`."""

    name: str
    file: str
    old: str
    new: str
    caught_by: str

    @property
    def module(self) -> str:
        """The module's name."""
        return self.file.removesuffix(".py").replace("/", ".")


PLANTS = (
    # --- what an acknowledgement waits for
    Plant(
        "ack before flush", "ottla/broker/storage/turn.py", "        if to_flush:", "        if False:", POWER
    ),
    Plant(
        "skipped fsync of segments",
        "ottla/log/flush_ticket.py",
        "                self.file_system.sync(fd)",
        "                pass",
        POWER,
    ),
    Plant(
        "names of segments not flushed",
        "ottla/log/flush_ticket.py",
        "            if self.names_changed:",
        "            if False:",
        POWER,
    ),
    Plant(
        "only the last segment flushed",
        "ottla/log/segment_list.py",
        "        behind = self.from_offset(recovery_point - 1)",
        "        behind = [self.active]",
        "tests/proof/test_power_loss.py::test_the_indexes_of_a_sealed_segment_are_flushed",
    ),
    Plant(
        "replaced file not flushed",
        "ottla/log/file_system.py",
        "            if flush:\n                self.sync(fd)",
        "            if False:\n                self.sync(fd)",
        POWER,
    ),
    Plant(
        "rename without directory sync",
        "ottla/log/file_system.py",
        "        if flush:\n            self.sync_directory(path.parent)",
        "        if False:\n            self.sync_directory(path.parent)",
        "tests/proof/test_power_loss.py::test_what_a_power_cut_may_leave",
    ),
    Plant(
        "catalog's change not flushed",
        "ottla/broker/storage/journal.py",
        "            self.file_system.sync(fd)",
        "            pass",
        POWER,
    ),
    Plant(
        "recovery point ahead of the flush",
        "ottla/log/partition_log.py",
        "max(self.recovery_point, min(ticket.offset, self.high_watermark))",
        "self.high_watermark + 1",
        POWER,
    ),
    Plant(
        "commit acknowledged before it is stored",
        "ottla/broker/groups/coordinator/offsets.py",
        "    step.append(request.group_id, records, stored)\n\n\ndef commit_refused",
        "    step.append(request.group_id, records, lambda *_: None)\n    stored(step, Code.NONE)\n\n\n"
        "def commit_refused",
        POWER,
    ),
    Plant(
        "indexes of a sealed segment not flushed",
        "ottla/log/segment_list.py",
        "self.from_offset(recovery_point - 1)",
        "self.from_offset(recovery_point)",
        "tests/proof/test_power_loss.py::test_the_indexes_of_a_sealed_segment_are_flushed",
    ),
    Plant(
        "indexes not flushed at a clean stop",
        "ottla/log/segment.py",
        "        self.time_index.flush()",
        "        pass",
        "tests/proof/test_power_loss.py::test_a_clean_stop_flushes_the_indexes_of_the_active_segment",
    ),
    Plant(
        "data directory's name not flushed",
        "ottla/security/private_files.py",
        "            os.fsync(descriptor)",
        "            pass",
        "tests/proof/test_power_loss.py::test_a_new_data_directory_keeps_its_name",
    ),
    Plant(
        "catalog's change not written",
        "ottla/broker/storage/catalog.py",
        "            self._journal.append(changes)",
        "            self._journal.size",
        "tests/broker/storage/test_catalog.py::test_topics_keep_what_they_are_over_restarts",
    ),
    Plant(
        "transaction acknowledged before its decision is stored",
        "ottla/broker/transactions/coordinator/ledger.py",
        "        step.append(id_state.name, record, stored)",
        "        stored(step, Code.NONE)",
        TRANSACTIONS,
    ),
    # --- the start after a crash
    Plant(
        "checksum ignored in recovery",
        "ottla/log/verification.py",
        "        entries = scan(read_only(data), verify_crc=True)\n        if entries.summary.unverified:",
        "        entries = scan(read_only(data), verify_crc=False)\n        if False:",
        "tests/log/test_recovery.py",
    ),
    Plant(
        "deletion of a topic not noted first",
        "ottla/broker/storage/topic_changes.py",
        "            store.catalog.mark_deleting([topic.name for topic in topics])",
        "            pass",
        "tests/broker/storage/test_topic_changes.py"
        "::test_a_deletion_that_a_kill_cuts_short_is_finished_by_the_next_start",
    ),
    Plant(
        "later segment read without the one before",
        "ottla/log/recovery.py",
        "    if reason is None and later and opening.has_lost(offset, later[0], known_gaps):",
        "    if False:",
        "tests/log/test_recovery.py::test_a_lost_end_of_a_sealed_segment_ends_the_log",
    ),
    Plant(
        "empty segment left behind where no file could be opened",
        "ottla/log/segment_list.py",
        "            self._file_system.remove(segment.path_of(suffix))\n",
        "            pass\n",
        "tests/log/test_random_walk.py",
    ),
    Plant(
        "log offline for want of a descriptor",
        "ottla/log/partition_log.py",
        "            if ticket.was_tried:\n",
        "            if True:\n",
        "tests/log/test_random_walk.py",
    ),
    Plant(
        "rows forgotten by an abort",
        "ottla/producer/dispatcher.py",
        "        # Another thread may have moved rows from an inbox into the queues meanwhile.\n"
        "        self._abandon_queued(error)\n",
        "",
        "tests/producer/test_transactions.py::test_abort_gives_up_rows_that_are_being_queued",
    ),
    Plant(
        "torn end not cut",
        "ottla/log/recovery.py",
        "    segment.file.truncate(position)\n",
        "",
        POWER,
    ),
    Plant(
        "log shorter than its recovery point accepted",
        "ottla/log/recovery.py",
        "    if max(end, opening.start) < opening.recovery_point:",
        "    if False:",
        "tests/broker/faults/test_damage.py::test_a_log_that_ends_below_its_recovery_point_is_refused",
    ),
    Plant(
        "damage below the recovery point cut",
        "ottla/log/recovery.py",
        "    if offset < opening.recovery_point or (opening.clean and later):",
        "    if False:",
        "tests/log/test_recovery.py::test_damage_is_cut_above_the_recovery_point_and_refused_below_it",
    ),
    Plant(
        "journal's checksum ignored",
        "ottla/broker/storage/journal.py",
        "        if int(checksum, 16) != crc32c(text):\n            return None",
        "        pass",
        "tests/broker/storage/test_catalog.py::test_damage_in_the_middle_of_the_journal_is_named",
    ),
    Plant(
        "mark of a clean stop kept",
        "ottla/log/log_directory.py",
        "        self._file_system.remove(marker)",
        "        pass",
        "tests/log/test_log_directory.py::test_a_clean_stop_is_trusted_and_remembered",
    ),
    # --- idempotent producers and offsets
    Plant(
        "sequence numbers not checked",
        "ottla/broker/producer_state/producer_states.py",
        "            if header.base_sequence != (state.last_sequence + 1) & SEQUENCE_MAX:",
        "            if False:",
        "tests/broker/producer_state/test_producer_states.py::test_what_a_produce_is_answered",
    ),
    Plant(
        "offset reused",
        "ottla/log/partition_log.py",
        "            self.next_offset = stamped.next_offset\n",
        "            self.next_offset = max(self.next_offset, stamped.next_offset - 1)\n",
        "tests/log/test_random_walk.py",
    ),
    Plant(
        "failed producer's sequence reused",
        "ottla/producer/sequences.py",
        "            self.identity = Identity(self.identity.producer_id, self.identity.epoch + 1)",
        "            pass",
        SENDING,
    ),
    Plant(
        "given up where it may be stored, numbered again",
        "ottla/producer/sequences.py",
        "        if may_be_stored:",
        "        if False:",
        SENDING,
    ),
    Plant(
        "a batch overtakes one that is sent again",
        "ottla/producer/partition_queue.py",
        "        if self._in_flight_at != self.leader or self.returned or self.in_flight[0].attempts > 1:\n"
        "            return False\n",
        "",
        "tests/producer/test_core.py",
    ),
    # --- transactions
    Plant(
        "last stable offset off by one",
        "ottla/broker/storage/partition.py",
        "return end if first < 0 else min(max(first, log.start_offset), end)",
        "return end if first < 0 else min(max(first + 1, log.start_offset), end)",
        EXACTLY_ONCE,
    ),
    Plant(
        "replaced producer not fenced",
        "ottla/broker/transactions/coordinator/rules.py",
        "    return Code.NONE if transaction.producer_epoch == producer_epoch else Code.PRODUCER_FENCED",
        "    return Code.NONE",
        TRANSACTIONS,
    ),
    Plant(
        "epoch not raised",
        "ottla/broker/transactions/coordinator/transaction.py",
        "now_ms),\n            producer_epoch=self.producer_epoch + 1,",
        "now_ms),\n            producer_epoch=self.producer_epoch,",
        TRANSACTIONS,
    ),
    Plant(
        "markers for some partitions only",
        "ottla/broker/transactions/coordinator/ledger.py",
        "        id_state.unmarked -= set(end.partitions) - failed",
        "        id_state.unmarked -= set(end.partitions)",
        TRANSACTIONS,
    ),
    Plant(
        "decided transaction forgotten by a restart",
        "ottla/broker/transactions/coordinator/ledger.py",
        "        id_state.unmarked = set(id_state.stored.partitions)",
        "        id_state.unmarked = set(sorted(id_state.stored.partitions)[1:])",
        TRANSACTIONS,
    ),
    Plant(
        "aborted records delivered",
        "ottla/records/transactions.py",
        "            keep[row] = False",
        "            pass",
        EXACTLY_ONCE,
    ),
    # --- groups
    Plant(
        "partition given before it was given up",
        "ottla/broker/groups/coordinator/consumer_groups/reconciliation.py",
        "    free = {partition: target_epoch for partition in target if partition not in taken}",
        "    free = {partition: target_epoch for partition in target}",
        CONSUMERS,
    ),
    Plant(
        "generation not raised",
        "ottla/broker/groups/coordinator/rebalance.py",
        "    group.generation += 1",
        "    group.generation = max(group.generation, 1)",
        GROUPS,
    ),
    Plant(
        "commit of an old generation accepted",
        "ottla/broker/groups/coordinator/offsets.py",
        "    if not error and generation != group.generation:",
        "    if False:",
        GROUPS,
    ),
    Plant(
        "assignment handed out before it is stored",
        "ottla/broker/groups/coordinator/rebalance.py",
        "        if group.state is not GroupState.COMPLETING_REBALANCE or group.generation != generation:",
        "        if False:",
        GROUPS,
    ),
    Plant(
        "shared record locked twice",
        "ottla/broker/share_groups/core/share_partition.py",
        " RecordState.AVAILABLE:\n                continue\n            if limits",
        " run.state:\n                continue\n            if limits",
        SHARES,
    ),
    Plant(
        "shared record accepted by a member that lost it",
        "ottla/broker/share_groups/core/share_partition.py",
        "            if run.state is not RecordState.ACQUIRED or run.member_id != member_id:",
        "            if run.state is not RecordState.ACQUIRED:",
        SHARES,
    ),
    Plant(
        "lock of a shared record never ends",
        "ottla/broker/share_groups/core/share_partition.py",
        "        return self._release(late)",
        "        return bool(late)",
        SHARES,
    ),
    Plant(
        "node of a former session taken for our own",
        "ottla/consumer/classic/ownership.py",
        "        if node is None or node.stat.ephemeral_owner != self.session_id:",
        "        if node is None:",
        "tests/consumer/classic/test_attempt.py",
    ),
    Plant(
        "lease of a session that is over ignored",
        "ottla/consumer/classic/gate.py",
        "        return now_ms < self.until_ms",
        "        return self.until_ms > SHUT",
        "tests/consumer/classic/test_classic_simulation.py::test_groups_behave",
    ),
    Plant(
        "ledger's epoch not checked",
        "ottla/offsets/ledger.py",
        "    WHERE {_PLACE} AND next_offset = ? AND epoch = ? RETURNING epoch",
        "    WHERE {_PLACE} AND next_offset = ? AND epoch >= ? - epoch RETURNING epoch",
        LEDGER,
    ),
    Plant(
        "sessions last when the clock is set back",
        "ottla/broker/storage/runtime.py",
        "SteadyClock(lambda: self.now_ms(), self.loop.time)",
        "lambda: self.now_ms()",
        "tests/broker/groups/test_group_apis.py"
        "::test_a_silent_member_is_expelled_although_the_clock_was_set_back",
    ),
    Plant(
        "broker that was stuck taken for an old one",
        "ottla/wire/negotiation.py",
        "    return {ProbeOutcome.ANSWERED: Probe.AGAIN, **",
        "    return {ProbeOutcome.ANSWERED: Probe.OLD, **",
        "tests/wire/test_negotiation.py",
    ),
    Plant(
        "first transaction by the newer protocol in the epoch of the last by the older one",
        "ottla/producer/transaction_link.py",
        "self.wants_epoch = self.is_implicit and not is_implicit",
        "self.wants_epoch = False",
        "tests/producer/test_transactions_under_faults.py",
    ),
    Plant(
        "block of a producer that was replaced taken for ended by its user",
        "ottla/producer/producer.py",
        "if not self._engine.transactions.is_ended:\n                self.commit()",
        "if self._engine.transactions.is_open:\n                self.commit()",
        "tests/producer/test_transactions_under_faults.py",
    ),
    # --- old data
    Plant(
        "retention deletes one segment too many",
        "ottla/log/retention.py",
        "    return count\n\n\ndef _is_old",
        "    return count + (0 < count < len(segments) - 1)\n\n\ndef _is_old",
        "tests/log/test_retention.py::test_choice",
    ),
    Plant(
        "compaction keeps the first value",
        "ottla/log/key_offsets.py",
        "        self._offsets.update(rows)",
        "        self._offsets = dict(rows) | self._offsets",
        "tests/log/test_compaction.py::test_the_last_value_of_each_key_stays_at_its_offset",
    ),
    # --- strangers
    Plant(
        "requests answered before the login",
        "ottla/broker/security/sasl_session.py",
        "            if key not in ALLOWED[self.state]:",
        "            if False:",
        f"{STRANGERS}::test_nothing_is_answered_before_the_login",
    ),
    Plant(
        "wrong proof accepted",
        "ottla/broker/security/mechanisms.py",
        "        if known is None or not proof_is_sound(self._algorithm, known, signed, proof):",
        "        if known is None:",
        "tests/broker/security/test_login.py::test_a_wrong_login_says_nothing_of_the_user",
    ),
    Plant(
        "denial ignored",
        "ottla/broker/security/authorizer.py",
        "        return Permission.DENY not in said and Permission.ALLOW in said",
        "        return Permission.ALLOW in said",
        "tests/broker/security/test_authorizer.py",
    ),
    Plant(
        "rights not asked for",
        "ottla/broker/security/authorizer.py",
        "            return self._settings.allows_if_no_acl",
        "            return True",
        f"{STRANGERS}::test_a_user_without_rights_gets_nothing_done",
    ),
    Plant(
        "checksum of received batches ignored",
        "ottla/records/reader.py",
        "scan(read_only(data), verify_crc=verify_crc)",
        "scan(read_only(data), verify_crc=False)",
        HOSTILE,
    ),
    # --- a write of Spark with exactlyOnce
    Plant(
        "decision of an earlier driver ignored",
        "ottla/spark/exactly_once/write_driver.py",
        "        return self.decided is not None and self.decided.covers(query, batch)",
        "        return False",
        SPARK,
    ),
    Plant(
        "commit without a decision",
        "ottla/spark/exactly_once/write_driver.py",
        "            identity = self._record(plan, plan.identity, decision)",
        "            identity = plan.identity",
        SPARK,
    ),
    Plant(
        "replaced driver decides",
        "ottla/spark/exactly_once/decision_log.py",
        "producer.init_transactions(resumed)",
        "producer.init_transactions()",
        SPARK,
    ),
)
