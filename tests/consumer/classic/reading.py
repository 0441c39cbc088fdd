"""Threads that read streams, and what they have seen."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable

from ottla.consumer.classic import ConsumerConnector, KafkaStream
from ottla.model.topic_partition import TopicAndPartition
from ottla.zookeeper import paths
from ottla.zookeeper.recipes import children_if_present, read_if_present
from ottla.zookeeper.session import ZooKeeperSession
from tests.waiting import PATIENCE_S


class Reader:
    """Reads streams, a thread each, and counts every message by its place."""

    def __init__(self, streams: Iterable[KafkaStream]) -> None:
        self.seen: Counter[tuple[str, int, int]] = Counter()
        self.errors: list[BaseException] = []
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._read, args=(one,)) for one in streams]
        for thread in self._threads:
            thread.start()

    def _read(self, stream: KafkaStream) -> None:
        try:
            for message in stream:
                with self._lock:
                    self.seen[message.topic, message.partition, message.offset] += 1
        except BaseException as error:  # noqa: BLE001  (shown by the test)
            self.errors.append(error)

    def join(self) -> None:
        """When the connector is shut down, streams end."""
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "a stream does not end"
        assert not self.errors


def member(connector: ConsumerConnector, topic: str, streams: int = 1) -> Reader:
    """A member that reads a topic."""
    return Reader(connector.create_message_streams({topic: streams})[topic])


def seen_by(readers: Iterable[Reader]) -> Counter[tuple[str, int, int]]:
    total: Counter[tuple[str, int, int]] = Counter()
    for reader in readers:
        total += reader.seen
    return total


def written(ends: dict[TopicAndPartition, int], topic: str) -> set[tuple[str, int, int]]:
    """Every place that a Writer has filled."""
    return {(*place, offset) for place, end in ends.items() if place.topic == topic for offset in range(end)}


def owners(session: ZooKeeperSession, group: str, topic: str) -> dict[int, str]:
    """Partition → the text of its owner node."""
    found = {}
    for name in children_if_present(session, paths.topic_owners(group, topic)):
        node = read_if_present(session, paths.owner(group, topic, int(name)))
        if node is not None:
            found[int(name)] = node.data.decode()
    return found


def offsets(session: ZooKeeperSession, group: str, topic: str) -> dict[int, int]:
    """Partition → the number in its offset node."""
    found = {}
    for name in children_if_present(session, paths.topic_offsets(group, topic)):
        node = read_if_present(session, paths.offset(group, topic, int(name)))
        if node is not None:
            found[int(name)] = int(node.data)
    return found
