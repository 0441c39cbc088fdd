"""Creating, changing and deleting topics. What is refused gets Kafka's error code for it.

Every change is written to the catalog first. After a crash the next start carries out what the catalog says.
"""

from __future__ import annotations

import logging
import os
import re
from asyncio import Future
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ottla.broker.settings.topic_settings import own_topics, topic_config
from ottla.broker.storage.catalog import Replicas, Topic, folded
from ottla.broker.storage.leaders import Leaders
from ottla.broker.storage.partition import NO_LEADER
from ottla.broker.storage.runtime import Runtime
from ottla.broker.storage.topic_store import TopicStore, exhausted
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, StorageError
from ottla.model.topic_partition import INTERNAL_TOPICS

log = logging.getLogger(__name__)

NAME_LENGTH_MAX = 249  # a directory's name has 255 bytes, and the partition number comes after
PARTITIONS_MAX = 10_000
"""Partitions of one topic: each is a directory and an open file; Kafka's own advice is far below."""

Failed = dict[str, KafkaError]

DEFAULT = -1
OWN_REPLICAS_MAX = 3
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def check_name(name: str) -> None:
    """Raise KafkaError 17 if a topic cannot have this name."""
    if not _NAME.fullmatch(name) or name in {".", ".."}:
        reason = f"topic {name!r}: ASCII letters, digits, '.', '_' and '-' make a name"
    elif len(name) > NAME_LENGTH_MAX:
        reason = f"topic {name[:20]!r}…: {len(name)} characters are more than {NAME_LENGTH_MAX}"
    else:
        return
    raise KafkaError(Code.INVALID_TOPIC_EXCEPTION, reason)


class TopicChanges:
    """Owned by the broker's loop. `deletion_listeners` are called with the name of a topic that goes."""

    def __init__(self, store: TopicStore, leaders: Leaders, runtime: Runtime) -> None:
        self._store = store
        self._leaders = leaders
        self._runtime = runtime
        self.deletion_listeners: list[Callable[[str], None]] = []
        self._unfinished: set[str] = set()  # topics that are being created, enlarged or deleted

    # --- checks and drafts: nothing changes

    def check_new_name(self, name: str) -> None:
        """Raise KafkaError for a name that a new topic cannot have."""
        check_name(name)
        catalog = self._store.catalog
        if name in catalog.topics:
            raise KafkaError(Code.TOPIC_ALREADY_EXISTS, f"topic {name!r}")
        if other := catalog.collision(name):
            raise _collision(name, other)

    def spread(self, partition_count: int, replication_factor: int, first: int = 0) -> tuple[Replicas, ...]:
        """Return replicas for new partitions: leaders in turn over the brokers that are up.

        Counts may be DEFAULT. `first` is the number of the first new partition. Raises KafkaError.
        """
        brokers = sorted(self._leaders.brokers)
        count = self._store.config.num_partitions if partition_count == DEFAULT else partition_count
        usual = min(self._store.config.default_replication_factor, len(brokers))
        factor = usual if replication_factor == DEFAULT else replication_factor
        _check_range(count)  # before replicas are made for all of them
        if not 1 <= factor <= len(brokers):
            reason = f"replication factor {factor} with {len(brokers)} brokers"
            raise KafkaError(Code.INVALID_REPLICATION_FACTOR, reason)
        return tuple(
            tuple(brokers[(index + step) % len(brokers)] for step in range(factor))
            for index in range(first, first + count)
        )

    def assigned(
        self, assignments: Sequence[Sequence[int]], replication_factor: int = DEFAULT
    ) -> tuple[Replicas, ...]:
        """Return the replicas of partitions as a client assigned them.

        DEFAULT takes the factor of the first partition. Raises KafkaError 39 for brokers that are not up, are
        named twice, or are not as many for every partition.
        """
        factor = len(assignments[0]) if assignments and replication_factor == DEFAULT else replication_factor
        up = self._leaders.brokers
        for brokers in assignments:
            unknown = [broker_id for broker_id in brokers if broker_id not in up]
            if not brokers:
                reason = "a partition without a broker"
            elif unknown:
                reason = f"{list(brokers)}: there is no broker {unknown[0]}, but {sorted(up)}"
            elif len(set(brokers)) < len(brokers):
                reason = f"{list(brokers)}: a broker is named twice"
            elif len(brokers) != factor:
                reason = f"{list(brokers)}: {len(brokers)} replicas, where other partitions have {factor}"
            else:
                continue
            raise KafkaError(Code.INVALID_REPLICA_ASSIGNMENT, reason)
        return tuple(tuple(brokers) for brokers in assignments)

    def draft(
        self, name: str, replicas: Sequence[Replicas], overrides: Mapping[str, str], topic_id: bytes = b""
    ) -> Topic:
        """Return the topic that `create` would make. Raises KafkaError if it must not be made."""
        self.check_new_name(name)
        topic_config(self._store.config, overrides)
        self._check_count(name, len(replicas))
        return Topic(name, topic_id or os.urandom(16), tuple(replicas), (0,) * len(replicas), dict(overrides))

    def grown(self, name: str, replicas: Sequence[Replicas]) -> Topic:
        """Return the topic that `grow` would make. Raises KafkaError if it must not grow."""
        self._check_finished(name)
        topic = self._store.topic(name)
        self._check_count(name, topic.partition_count + len(replicas))
        return replace(
            topic,
            replicas=(*topic.replicas, *replicas),
            leader_epochs=(*topic.leader_epochs, *(0 for _ in replicas)),
        )

    def _check_count(self, name: str, count: int) -> None:
        _check_range(count)
        own = own_topics(self._store.config).get(name)
        if own is not None and count != own.partition_count:
            # A group's partition is a hash over this number: with another one groups lose their offsets.
            reason = f"{count} partitions of {name}; {own.setting} says {own.partition_count}"
            raise KafkaError(Code.INVALID_PARTITIONS, reason)

    # --- changes

    # Topics may have thousands of partitions, and a request may name thousands of topics. So the changes are
    # generators: each step takes a few milliseconds, and between them clients are served (`Runtime.slices`).
    # A topic is seen by clients when it is whole; until then nobody can change it.

    def create(
        self, name: str, replicas: Sequence[Replicas], overrides: Mapping[str, str], topic_id: bytes = b""
    ) -> Topic:
        """Create a topic at once and return it. Raises KafkaError; then nothing of the topic is left."""
        topic = self.draft(name, replicas, overrides, topic_id)
        self._raise_failure(self.creation([topic]), name)
        return topic

    def _raise_failure(self, work: Generator[None, None, Failed], name: str) -> None:
        error = exhausted(work).get(name)
        if error is not None:
            raise error

    def creation(self, topics: Sequence[Topic]) -> Generator[None, None, Failed]:
        """Create drafted topics, in steps. Returns errors by name: nothing is left of these topics."""
        failed = self._taken(topics)
        topics = [topic for topic in topics if topic.name not in failed]
        names = {topic.name for topic in topics}
        self._unfinished |= names
        try:
            try:
                self._store.directory.forget_deleted(
                    (topic.name, index) for topic in topics for index in range(topic.partition_count)
                )
                self._store.catalog.put(topics)
            except StorageError as error:
                return failed | dict.fromkeys(names, KafkaError(error.code, str(error)))
            for topic in topics:
                try:
                    yield from self._add_partitions(topic)
                except StorageError as error:
                    failed[topic.name] = KafkaError(error.code, str(error))
                    yield from self._give_up(topic.name)
                self._unfinished.discard(topic.name)
        finally:
            self._unfinished -= names
        return failed

    def _taken(self, topics: Sequence[Topic]) -> Failed:
        """Return errors for drafts whose names are taken by now, or that collide with an earlier draft."""
        failed: Failed = {}
        first: dict[str, str] = {}
        for topic in topics:
            try:
                self.check_new_name(topic.name)
                other = first.setdefault(folded(topic.name), topic.name)
                if other != topic.name:
                    raise _collision(topic.name, other)
            except KafkaError as error:
                failed[topic.name] = error
        return failed

    def _add_partitions(self, topic: Topic) -> Generator[None, None, None]:
        known = len(self._store.partitions.get(topic.name, ()))
        yield from self._store.open_partitions(topic)
        self._leaders.elect(self._store.partitions[topic.name][known:])
        self._store.notify(topic.name)

    def _give_up(self, name: str) -> Generator[None, None, None]:
        """Delete what exists of a topic that could not be created."""
        failed = yield from self._deleted([self._store.topic(name)])
        if failed:
            log.error("topic %r is left half made; the next start finishes it: %s", name, failed[name])

    def grow(self, name: str, replicas: Sequence[Replicas]) -> Topic:
        """Add partitions to a topic at once, all or none, and return the topic. Raises KafkaError."""
        larger = self.grown(name, replicas)
        self._raise_failure(self.growth(larger), name)
        return larger

    def growth(self, larger: Topic) -> Generator[None, None, Failed]:
        """Enlarge a topic to what `grown` returned, in steps. Returns errors by name."""
        name, count = larger.name, self._store.topic(larger.name).partition_count
        self._unfinished.add(name)
        try:
            self._store.catalog.put([larger])
            yield from self._add_partitions(larger)
        except StorageError as error:
            yield from self._shrink(name, count)
            return {name: KafkaError(error.code, str(error))}
        finally:
            self._unfinished.discard(name)
        return {}

    def _shrink(self, name: str, count: int) -> Generator[None, None, None]:
        """Remove the partitions of a topic from `count` on, after it could not grow."""
        # The topic as it is now: leaders may have changed since it began to grow.
        topic = self._store.topic(name)
        smaller = replace(topic, replicas=topic.replicas[:count], leader_epochs=topic.leader_epochs[:count])
        try:
            self._remove_files((yield from self._store.delete_directories(topic, count)))
            self._store.catalog.put([smaller])
        except StorageError:
            log.exception("topic %r lacks partitions; the next start makes them", name)

    def _check_finished(self, name: str) -> None:
        if name in self._unfinished:
            raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} is being created or deleted")

    def configure(self, name: str, overrides: Mapping[str, str]) -> Topic:
        """Replace a topic's settings, effective at once, and return the topic. Raises KafkaError."""
        self._check_finished(name)
        topic = self._store.topic(name)
        topic_config(self._store.config, overrides)
        changed = replace(topic, overrides=dict(overrides))
        try:
            self._store.catalog.put([changed])
        except StorageError as error:
            raise KafkaError(Code.KAFKA_STORAGE_ERROR, str(error)) from error
        self._store.apply_settings(changed)
        return changed

    def delete(self, name: str) -> None:
        """Delete a topic at once: its directories are renamed, and removed later. Raises KafkaError."""
        self.check_deletion(name)
        self._raise_failure(self.deletion([name]), name)

    def check_deletion(self, name: str) -> None:
        """Raise KafkaError if a topic cannot be deleted."""
        self._check_finished(name)
        if self._store.topic(name).is_deleting:
            reason = (
                f"topic {name!r} could not be deleted by a failing disk; the next start of the broker will"
            )
            raise KafkaError(Code.KAFKA_STORAGE_ERROR, reason)

    def deletion(self, names: Sequence[str]) -> Generator[None, None, Failed]:
        """Delete topics that `check_deletion` has passed, in steps. Returns errors by name."""
        self._unfinished |= set(names)
        try:
            return (yield from self._deleted([self._store.topic(name) for name in names]))
        finally:
            self._unfinished -= set(names)

    def _deleted(self, topics: Sequence[Topic]) -> Generator[None, None, Failed]:
        store = self._store
        failed: Failed = {}
        gone = []
        try:
            store.catalog.mark_deleting([topic.name for topic in topics])
            for topic in topics:
                try:
                    yield from self._drop_partitions(topic)
                except StorageError as error:
                    failed[topic.name] = KafkaError(error.code, str(error))
                else:
                    gone.append(topic.name)
            self._runtime.turn.end()  # what the listeners staged is written before the topics are gone
            store.catalog.remove(gone)
        except StorageError as error:
            failed = {topic.name: KafkaError(error.code, str(error)) for topic in topics}
        return failed

    def _drop_partitions(self, topic: Topic) -> Generator[None, None, None]:
        """Take a topic out of service; its files are removed when file.delete.delay.ms is over."""
        self._runtime.turn.end()
        partitions = self._store.take_out(topic.name)
        self._leaders.lead((partition, NO_LEADER) for partition in partitions)
        for partition in partitions:
            partition.log = None
        doomed = yield from self._store.delete_directories(topic)
        self._store.notify(topic.name)
        for listener in self.deletion_listeners:
            listener(topic.name)
        delay_ms = self._store.topic_config(topic).log.file_delete_delay_ms
        self._runtime.loop.call_later(delay_ms / 1000, self._remove_files, doomed)

    def _remove_files(self, doomed: list[Path]) -> None:
        """Remove the directories of a deleted topic in a thread."""
        runtime = self._runtime
        if runtime.is_closed:
            return  # the next start removes them
        work = runtime.loop.run_in_executor(runtime.readers, self._store.directory.purge_deleted, doomed)
        work.add_done_callback(_log_failure)

    # --- topics that are created when a client names them

    def find_or_create(self, name: str) -> Topic:
        """Return a topic, created if it does not exist and that is allowed. Raises KafkaError."""
        topic = self._store.catalog.topics.get(name)
        if name in self._store.partitions and topic is not None:
            return topic
        draft = self.auto_draft(name)
        self._raise_failure(self.creation([draft]), name)
        return draft

    def auto_draft(self, name: str) -> Topic:
        """Return the draft of a missing topic that a client has only named.

        The broker's own topics are created in any case, others with auto.create.topics.enable. Raises
        KafkaError.
        """
        self._check_finished(name)
        own = own_topics(self._store.config).get(name)
        if own is not None and name not in self._store.catalog.topics:
            replicas = self.spread(own.partition_count, min(OWN_REPLICAS_MAX, len(self._leaders.brokers)))
            return self.draft(name, replicas, own.overrides)
        check_name(name)
        is_known = name in self._store.catalog.topics
        if is_known or not self._store.config.auto_create_topics or name in INTERNAL_TOPICS:
            raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r}")
        return self.draft(name, self.spread(DEFAULT, DEFAULT), {})


def _collision(name: str, other: str) -> KafkaError:
    reason = f"topic {name!r} collides with {other!r}: metrics do not tell '.' and '_' apart"
    return KafkaError(Code.INVALID_TOPIC_EXCEPTION, reason)


def _check_range(count: int) -> None:
    if not 1 <= count <= PARTITIONS_MAX:
        raise KafkaError(Code.INVALID_PARTITIONS, f"{count} partitions; 1 to {PARTITIONS_MAX} are allowed")


def _log_failure(work: Future[None]) -> None:
    if not work.cancelled() and work.exception() is not None:
        log.error("files of a deleted topic stay until the next start: %s", work.exception())
