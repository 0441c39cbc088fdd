"""Members of a group in this process, as its input says; every record that they deliver is a line of output.

    python -m benchmarks.rebalance.member_host classic|grouped|share|confluent topic NAME=VALUE …

    join MEMBER NAME=VALUE …     leave MEMBER     count MEMBER            ◀── input
    ready · joined · failed · left · count MEMBER N · record MEMBER PARTITION OFFSET NANOSECONDS ──▶ output

`pause.ms` is how long the application takes for a record. ScalaMembers.java does the same with Kafka's own.
"""

from __future__ import annotations

import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from ottla.consumer.classic import ConsumerConnector
from ottla.consumer.coordinated import GroupConsumer
from ottla.consumer.share import ShareConsumer

POLL_MS = 50.0
Properties = dict[str, str]
Record = tuple[int, int]


class HostedMember(ABC):
    """One member; a thread of the host iterates over it."""

    @abstractmethod
    def join(self) -> None:
        """Until it is a member."""

    @abstractmethod
    def records(self) -> Iterator[Record]:
        """Partition and offset, until it leaves."""

    @abstractmethod
    def leave(self) -> None:
        """In good order, from another thread."""

    def rebalances(self) -> int:
        """How often it was given partitions, as far as that is known."""
        return 0


class ClassicMember(HostedMember):
    """Through ZooKeeper."""

    def __init__(self, topic: str, name: str, properties: Properties) -> None:
        self._topic = topic
        self._connector = ConsumerConnector({"consumer.id": name, **properties})

    def join(self) -> None:
        self._stream = self._connector.create_message_streams({self._topic: 1})[self._topic][0]

    def records(self) -> Iterator[Record]:
        for message in self._stream:
            yield message.partition, message.offset

    def leave(self) -> None:
        self._connector.shutdown()

    def rebalances(self) -> int:
        return self._connector.metrics().rebalances


class GroupedMember(HostedMember):
    """Through a coordinator."""

    consumer_class: type[GroupConsumer | ShareConsumer] = GroupConsumer

    def __init__(self, topic: str, name: str, properties: Properties) -> None:
        group = properties.pop("group.id")
        self._consumer = self.consumer_class(topic, {"client.id": name, **properties}, group_id=group)
        self._is_leaving = threading.Event()
        self._has_left = threading.Event()

    def join(self) -> None:
        pass  # the first poll does it

    def records(self) -> Iterator[Record]:
        while not self._is_leaving.is_set():
            chunk = self._consumer.poll(POLL_MS / 1000)
            if chunk is not None:
                for offset in chunk.batch.column("offset").to_pylist():
                    yield chunk.topic_partition.partition, offset
        self._consumer.close()
        self._has_left.set()

    def leave(self) -> None:
        self._is_leaving.set()
        self._has_left.wait()


class SharingMember(GroupedMember):
    """Of a share group."""

    consumer_class = ShareConsumer


class ConfluentMember(HostedMember):
    """Through a coordinator, by librdkafka."""

    def __init__(self, topic: str, name: str, properties: Properties) -> None:
        from confluent_kafka import Consumer

        self._consumer: Any = Consumer({"client.id": name, "log_level": 0, **properties})
        self._topic = topic
        self._is_leaving = threading.Event()
        self._has_left = threading.Event()

    def join(self) -> None:
        self._consumer.subscribe([self._topic])

    def records(self) -> Iterator[Record]:
        while not self._is_leaving.is_set():
            message = self._consumer.poll(POLL_MS / 1000)
            if message is not None and not message.error():
                yield message.partition(), message.offset()
        self._consumer.close()
        self._has_left.set()

    def leave(self) -> None:
        self._is_leaving.set()
        self._has_left.wait()


KINDS: dict[str, type[Any]] = {
    "classic": ClassicMember,
    "grouped": GroupedMember,
    "share": SharingMember,
    "confluent": ConfluentMember,
}


class MemberHost:
    """Does what the lines say, each in a thread of its own: members join and leave at the same time."""

    def __init__(self, kind: str, topic: str, properties: Properties) -> None:
        self._kind = KINDS[kind]
        self._topic = topic
        self._properties = properties
        self._members: dict[str, HostedMember] = {}
        self._lock = threading.Lock()

    def obey(self, line: str) -> None:
        """One line of input."""
        command, name, *more = line.split()
        if command == "count":
            self._say("count", name, self._members[name].rebalances())
            return
        work = self._join if command == "join" else self._leave
        threading.Thread(target=work, args=(name, parsed(more)), daemon=True).start()

    def _join(self, name: str, properties: Properties) -> None:
        given = {**self._properties, **properties}
        pause_s = float(given.pop("pause.ms", "0")) / 1000
        member: HostedMember = self._kind(self._topic, name, given)
        self._members[name] = member
        member.join()
        self._say("joined", name, time.monotonic_ns())
        for partition, offset in member.records():
            self._say("record", name, partition, offset, time.monotonic_ns())
            if pause_s:
                time.sleep(pause_s)

    def _leave(self, name: str, _: Properties) -> None:
        self._members[name].leave()
        self._say("left", name, time.monotonic_ns())

    def _say(self, *words: object) -> None:
        line = " ".join(map(str, words)) + "\n"
        with self._lock:
            sys.stdout.write(line)
            sys.stdout.flush()


def parsed(words: list[str]) -> Properties:
    """NAME=VALUE each."""
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def main() -> None:
    """Until the input ends."""
    kind, topic, *words = sys.argv[1:]
    host = MemberHost(kind, topic, parsed(words))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        host.obey(line)


if __name__ == "__main__":
    main()
