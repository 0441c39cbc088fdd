"""`__share_group_state`: the progress of share groups, read at the start and written with each change."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial

from ottla.broker.coordination.effects import Record
from ottla.broker.coordination.loading import PartitionLoads
from ottla.broker.coordination.topic_writer import CoordinatorWriter, Written
from ottla.broker.share_groups.core.records import ShareKey, ShareState, partition_for, read
from ottla.broker.storage.partition import Partition
from ottla.broker.storage.runtime import Runtime
from ottla.broker.storage.topic_changes import TopicChanges
from ottla.broker.storage.topic_store import TopicStore
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, StorageError
from ottla.model.topic_partition import SHARE_STATE_TOPIC

log = logging.getLogger(__name__)


class ShareLog:
    """The stored state of all share groups. Owned by the loop.

    `replay` gets each stored record at the start. `snapshot` returns the record of a partition as it is now:
    a partition that changes several times in a turn is written once.
    """

    def __init__(
        self,
        store: TopicStore,
        runtime: Runtime,
        topics: TopicChanges,
        replay: Callable[[ShareKey, ShareState | None], None],
        snapshot: Callable[[ShareKey], Record],
    ) -> None:
        self._writer = CoordinatorWriter(SHARE_STATE_TOPIC, store, runtime)
        self._runtime = runtime
        self._topics = topics
        self._replay_state = replay
        self._snapshot = snapshot
        self._loads = PartitionLoads(runtime, self._replay, self._loaded)
        self._begun: set[int] = set()
        self._loading: set[int] = set()
        self._changed: dict[ShareKey, list[Written]] = {}

    # --- reading

    @property
    def is_loading(self) -> bool:
        """Whether stored state is still being read."""
        return bool(self._loading)

    def lead(self, partition: Partition) -> None:
        """Load a partition of the topic that has a leader now, once: all brokers of the process share it."""
        if partition.index not in self._begun:
            self._begun.add(partition.index)
            self._loading.add(partition.index)
            self._loads.begin(partition)

    def _replay(self, record: Record, _producer_id: int | None) -> None:
        entry = read(record)
        if entry is not None:
            self._replay_state(*entry)

    def _loaded(self, index: int) -> None:
        self._loading.discard(index)

    # --- writing

    def note(self, key: ShareKey, then: Written | None = None) -> None:
        """Write a partition of a group that has changed, or is gone, at the end of this turn."""
        if not self._changed:
            self._runtime.loop.call_soon(self._write)
        waiting = self._changed.setdefault(key, [])
        if then is not None:
            waiting.append(then)

    def when_stored(self, keys: Sequence[ShareKey], then: Written) -> None:
        """Call `then` when all of these partitions are stored as they are now, or with the first error."""
        waiting, errors = set(keys), [Code.NONE]

        def stored(key: ShareKey, error: Code) -> None:
            waiting.discard(key)
            errors.append(error)
            if not waiting:
                then(max(errors, key=bool))

        for key in keys:
            self.note(key, partial(stored, key))
        if not keys:
            then(Code.NONE)

    def _write(self) -> None:
        changed, self._changed = self._changed, {}
        try:
            count = self._topics.find_or_create(SHARE_STATE_TOPIC).partition_count
        except (KafkaError, StorageError) as error:
            self._settle(changed, Code.of(error.code))
            return
        by_partition: dict[int, list[ShareKey]] = defaultdict(list)
        for key in changed:
            by_partition[partition_for(key, count)].append(key)
        for index, keys in by_partition.items():
            self._append(index, {key: changed[key] for key in keys})

    def _append(self, index: int, changed: dict[ShareKey, list[Written]]) -> None:
        try:
            records = [self._snapshot(key) for key in changed]
        except (KafkaError, StorageError) as error:
            self._settle(changed, Code.of(error.code))
        else:
            self._writer.append(index, records, partial(self._settle, changed))

    def _settle(self, changed: dict[ShareKey, list[Written]], error: Code) -> None:
        if error:
            log.error("the state of %d share partitions is not stored: %s", len(changed), error.text)
        for waiting in changed.values():
            for then in waiting:
                then(error)
