"""What clients do while a broker is killed, and what they may expect of it when it is back.

A workload runs on a connection of its own until the connection breaks. It remembers what was acknowledged,
and what may or may not have been done because the answer got lost.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path
from random import Random
from typing import NamedTuple, Protocol

from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.init_producer_id import InitProducerIdRequest
from ottla.wire.api.offset_commit import OffsetCommitPartition, OffsetCommitRequest, OffsetCommitTopic
from ottla.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchTopic
from tests.broker.faults.batches import batch
from tests.broker.faults.raw_client import PRODUCE, RawClient, frame, produce_request

WINDOW = 4
FIND_COORDINATOR, OFFSET_COMMIT, OFFSET_FETCH, INIT_PRODUCER_ID = 1, 7, 5, 2
RETRY_LATER = {14, 15, 16}
"""Of the coordinator: it loads, is not there yet, or is another one."""


class Workload(Protocol):
    acknowledged: int

    def run(self, client: RawClient) -> None:
        """Go on until the connection breaks, with an OSError."""

    def check(self, client: RawClient, data_dir: Path, /) -> None:
        """After a restart: nothing that was acknowledged is lost, and nothing is there that was not sent."""


class Sent(NamedTuple):
    """A batch on its way."""

    number: int
    values: tuple[bytes, ...]


class Producer:
    """Writes numbered records, several requests in flight. With an id it repeats what was not answered."""

    def __init__(self, topic: str, partition: int, chance: Random, *, is_idempotent: bool) -> None:
        self.acknowledged = 0
        self._topic = topic
        self._partition = partition
        self._chance = chance
        self._is_idempotent = is_idempotent
        self._producer_id = -1
        self._next_number = 0
        self._sent: deque[Sent] = deque()
        self._known: dict[int, bytes] = {}  # acknowledged values by offset
        self._unsure: set[bytes] = set()
        self._checked_to = 0

    def run(self, client: RawClient) -> None:
        if self._is_idempotent and self._producer_id < 0:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
            self._producer_id = client.call(request, INIT_PRODUCER_ID).producer_id
        for item in self._sent:
            self._send(client, item)
        while True:
            while len(self._sent) < WINDOW:
                self._sent.append(self._draw())
                self._send(client, self._sent[-1])
            self._take_answer(client)

    def _draw(self) -> Sent:
        count, number = self._chance.randint(1, 4), self._next_number
        self._next_number += count
        padding = b"." * self._chance.choice((0, 10, 100, 700))
        return Sent(number, tuple(b"%d:%s" % (number + index, padding) for index in range(count)))

    def _send(self, client: RawClient, item: Sent) -> None:
        rows = [(b"k", value) for value in item.values]
        if self._is_idempotent:
            data = batch(*rows, producer_id=self._producer_id, producer_epoch=0, sequence=item.number)
        else:
            data = batch(*rows)
        client.send(frame(produce_request(self._topic, data, self._partition), PRODUCE, item.number))

    def _take_answer(self, client: RawClient) -> None:
        request = produce_request(self._topic, b"")
        answer = client.answer(request, PRODUCE, self._sent[0].number).responses[0].partition_responses[0]
        assert answer.error_code == 0, f"{self._topic}-{self._partition}: {answer}"
        for index, value in enumerate(self._sent.popleft().values):
            known = self._known.setdefault(answer.base_offset + index, value)
            assert known == value, f"offset {answer.base_offset + index} was acknowledged twice"
            self.acknowledged += 1

    def check(self, client: RawClient, _data_dir: Path) -> None:
        """What came since the last check, and the end of what was there then."""
        if not self._is_idempotent:
            self._unsure |= {value for item in self._sent for value in item.values}
            self._sent.clear()
        allowed = self._unsure | {value for item in self._sent for value in item.values}
        first = max(0, self._checked_to - 50)
        found = client.records(self._topic, self._partition, first)
        where, end = f"{self._topic}-{self._partition}", first + len(found)
        assert [record.offset for record in found] == list(range(first, end)), f"{where}: gaps"
        assert max(self._known, default=-1) < end, f"{where}: lost from {end} on"
        for record in found:
            known = self._known.get(record.offset)
            if known is None:
                assert record.value in allowed, f"{where}: {record} was never sent"
            else:
                assert record.value == known, f"{where}: {record} is not what was acknowledged"
        numbers = [int((record.value or b"").partition(b":")[0]) for record in found]
        assert numbers == sorted(set(numbers)), f"{where}: out of order, or twice"
        if self._is_idempotent and not first:
            assert numbers == list(range(end)), f"{where}: a batch was passed over"
        self._checked_to = end

    def check_all(self, client: RawClient, data_dir: Path) -> None:
        """From the beginning."""
        self._checked_to = 0
        self.check(client, data_dir)


class TopicMaker:
    """Makes topics of several partitions, and deletes them again."""

    PARTITIONS = 8

    def __init__(self, chance: Random) -> None:
        self.acknowledged = 0
        self._chance = chance
        self._number = 0
        self._there: set[str] = set()
        self._gone: set[str] = set()

    def run(self, client: RawClient) -> None:
        while True:
            if len(self._there) > self._chance.randrange(4):
                name = self._there.pop()
                assert client.delete(name) == 0
                self._gone.add(name)
            else:
                name = f"made-{self._number}"
                self._number += 1
                assert client.create(name, self.PARTITIONS) == 0
                self._there.add(name)
            self.acknowledged += 1

    def check(self, client: RawClient, data_dir: Path) -> None:
        topics = {name: count for name, count in client.topics().items() if name.startswith("made-")}
        assert self._there <= topics.keys(), "a topic that was made is gone"
        assert not self._gone & topics.keys(), "a topic that was deleted is back"
        assert set(topics.values()) <= {self.PARTITIONS}, "a topic is there in part"
        whole = {f"{name}-{index}" for name in topics for index in range(self.PARTITIONS)}
        assert {path.name for path in data_dir.glob("made-*")} == whole
        for name in topics:
            assert all(client.offset(name, partition=index) == 0 for index in range(self.PARTITIONS))
        self._there, self._gone = set(topics), set()


class Committer:
    """Commits ever larger offsets of a group."""

    def __init__(self, group: str) -> None:
        self.acknowledged = 0
        self._group = group
        self._sent = 0
        self._committed = 0

    def run(self, client: RawClient) -> None:
        client.call(FindCoordinatorRequest(key=self._group), FIND_COORDINATOR)  # makes the offsets topic
        while True:
            self._sent += 1
            item = OffsetCommitPartition(
                partition_index=0, committed_offset=self._sent, committed_metadata=f"n{self._sent}"
            )
            topics = [OffsetCommitTopic(name="t", partitions=[item])]
            answer = client.call(OffsetCommitRequest(group_id=self._group, topics=topics), OFFSET_COMMIT)
            error = answer.topics[0].partitions[0].error_code
            if error not in RETRY_LATER:
                assert error == 0, f"commit of {self._group}: error {error}"
                self._committed = self._sent
                self.acknowledged += 1

    def check(self, client: RawClient, _data_dir: Path) -> None:
        wanted = [OffsetFetchTopic(name="t", partition_indexes=[0])]
        answer = client.call(OffsetFetchRequest(group_id=self._group, topics=wanted), OFFSET_FETCH)
        if self._committed:
            found = answer.topics[0].partitions[0]
            assert (answer.error_code, found.error_code) == (0, 0)
            assert self._committed <= found.committed_offset <= self._sent
            assert found.metadata == f"n{found.committed_offset}"
