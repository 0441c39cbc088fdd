"""The express lane of produce requests answers and stores exactly as the general way does.

One random script of requests and disturbances is played to a broker with the lane, then to one without. The
bytes that come back and the files that are left must be the same.
"""

from __future__ import annotations

import gzip
import random
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.broker.serving.express_lane import ExpressLane
from ottla.model.error_codes import Code
from ottla.records.record_bytes import legacy_message
from ottla.wire.api.produce import ProducePartition, ProduceRequest, ProduceTopic
from ottla.wire.frames import SIZE_ROOM, seal
from ottla.wire.headers import encode_request_header
from ottla.wire.schema import encode
from tests.broker.faults.batches import batch, sealed
from tests.broker.traffic import one, produce, produce_request, read_all
from tests.broker.wire_client import Client
from tests.scale import SEED, sized

NOW = 1_700_000_000_000
STEPS = 600
SEEDS = range(SEED, SEED + sized(6, 200))
TOPICS = ("a", "bb", "c" * 120)
# Around the places where a compact length gets another byte: a batch has 76 bytes more than its value.
SIZES = (0, 1, *range(46, 56), 100, *range(16_300, 16_312), 40_000)
CLIENT_IDS = (None, "", "client", "x" * 60)

TIMEOUTS_MS = (1000, 30_000)
FORMAT_2_SINCE = 3

Act = Callable[["Stage"], object]


class Stage:
    """A broker of two nodes with known topic ids and a clock that stands, and a connection to each node."""

    def __init__(self, data_dir: Path, ports: list[list[int]]) -> None:
        self.data_dir = data_dir
        self.broker = EmbeddedBroker(data_dir, brokers=2)
        self.broker._ports = ports
        self.cluster = self.broker.start()._running().cluster
        self.cluster.runtime.now_ms = lambda: NOW
        self.sockets = [
            socket.create_connection((host, int(port)), 30)
            for host, port in (address.split(":") for address in self.broker.bootstrap.split(","))
        ]

    def create(self, name: str, topic_id: bytes) -> None:
        """Make a topic; the first one stores old messages as they come."""
        settings = {"message.format.version": "0.10.0"} if name == TOPICS[0] else {}
        self.broker._call(lambda: self.cluster.topics.create(name, [(0,), (1,), (0,)], settings, topic_id))

    def ask(self, node: int, frames: list[bytes]) -> list[bytes]:
        """Send in one piece; the frames that come back."""
        self.sockets[node].sendall(b"".join(frames))
        with self.sockets[node].makefile("rb") as stream:
            return [stream.read(*struct.unpack(">i", stream.read(4))) for _ in frames]

    def logs(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self.data_dir)): path.read_bytes()
            for path in sorted(self.data_dir.glob("*-[0-9]/*.log"))
        }

    def play(self, script: list[Act]) -> tuple[list[object], dict[str, bytes]]:
        try:
            return [act(self) for act in script], self.logs()
        finally:
            for connection in self.sockets:
                connection.close()
            self.broker.close()


class Script:
    """Random requests, of which a few shapes come again and again, and what happens between them."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._correlation = self._topics_made = 0
        self._sequences: dict[int, int] = {}
        self._kinds = [self._kind() for _ in range(6)]
        self._ids: dict[str, bytes] = {}

    def _kind(self) -> tuple[int, str | None, int, int]:
        """Version, client id, acks and timeout of a producer."""
        dice = self._dice
        return (
            dice.randrange(14),
            dice.choice(CLIENT_IDS),
            dice.choice([1, 1, 1, -1, -1, -1, 3]),
            dice.choice(TIMEOUTS_MS),
        )

    def acts(self) -> Iterator[Act]:
        for name in TOPICS:
            yield self._creation(name)
        done = 0
        while done < STEPS:
            yield from self._disturbance()
            frames = [self._frame() for _ in range(self._dice.choice([1, 1, 3, 10, 40]))]
            done += len(frames)
            node = self._dice.choice([0, 0, 0, 1])
            yield lambda stage, node=node, frames=frames: stage.ask(node, frames)

    def _creation(self, name: str) -> Act:
        self._topics_made += 1
        topic_id = self._ids[name] = self._topics_made.to_bytes(16, "big")
        return lambda stage: stage.create(name, topic_id)

    def _disturbance(self) -> Iterator[Act]:
        """Sometimes a topic goes and comes, a leader moves, a fault strikes."""
        dice, kind = self._dice, self._dice.random()
        name, partition, node = dice.choice(TOPICS), dice.randrange(3), dice.randrange(2)
        if kind < 0.05:
            yield lambda stage: stage.broker.delete_topic(name)
            yield self._creation(name)
        elif kind < 0.15:
            yield lambda stage: stage.broker.move_leader(name, partition, node)
        elif kind < 0.25:
            yield lambda stage: stage.broker.fail("Produce", Code.REQUEST_TIMED_OUT, times=2).left

    def _frame(self) -> bytes:
        dice = self._dice
        self._correlation = (self._correlation + dice.choice([1, 1, 1, 70_000])) & 0x7FFFFFFF
        count = 2 if dice.random() < 0.1 else 1
        version, client_id, acks, timeout_ms = dice.choice(self._kinds)
        records = self._messages if version < FORMAT_2_SINCE and dice.random() < 0.9 else self._records
        sent = []
        for name in dice.sample(TOPICS, count):
            places = dice.sample(range(4), count) if dice.random() < 0.5 else [dice.choice([0, 0, 0, 1, 2])]
            items = [ProducePartition(index=index, records=records()) for index in places]
            sent.append(ProduceTopic(name=name, topic_id=self._ids[name], partition_data=items))
        request = ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=sent)
        return frame_of(request, version, self._correlation, client_id)

    def _records(self) -> bytearray:
        dice = self._dice
        value = dice.randbytes(dice.choice(SIZES))
        data = batch((b"k", value), timestamp=NOW - dice.randrange(1000), **self._stamp())
        match dice.randrange(50):
            case 0:
                data[-1] ^= 1
            case 1:
                return data[:-3]
            case 2:
                return data + data
            case 3:
                data[22] |= 0x10  # transactional
                return sealed(data)
            case 4:
                return bytearray()
        return data

    def _messages(self) -> bytearray:
        """A few messages of an old format, sometimes compressed, cut or damaged."""
        dice, magic = self._dice, self._dice.randrange(2)
        plain = bytearray()
        for number in range(dice.choice([1, 1, 3, 150])):
            value = None if dice.random() < 0.1 else dice.randbytes(dice.choice(SIZES[:14]))
            plain += legacy_message(number, magic, 0, NOW - dice.randrange(1000), b"k", value)
        match dice.randrange(20):
            case 0:
                plain[-1] ^= 1
            case 1:
                return plain[:-3]
            case 2:
                return bytearray(legacy_message(0, magic, 1, NOW, None, gzip.compress(plain)))
            case 3:
                return plain + legacy_message(0, 1 - magic, 0, NOW, None, b"another format")
        return plain

    def _stamp(self) -> dict[str, Any]:
        """Often those of an idempotent producer, which sometimes repeats itself or leaves something out."""
        dice = self._dice
        if dice.random() < 0.75:
            return {}
        producer = dice.randrange(3)
        expected = self._sequences.get(producer, 0)
        sequence = max(0, expected + dice.choice([0, 0, 0, 0, -1, -2, 1]))
        self._sequences[producer] = max(expected, sequence + 1)
        return {"producer_id": producer, "producer_epoch": 0, "sequence": sequence}


def frame_of(request: ProduceRequest, version: int, correlation_id: int, client_id: str | None) -> bytes:
    header = encode_request_header(ProduceRequest.API, version, correlation_id, client_id)
    return b"".join(map(bytes, seal(encode(request, version, SIZE_ROOM + header))))


class Lane:
    """The lane under observation; closed, nothing goes through it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_open = True
        self.taken = self.asked = 0
        take = ExpressLane.take

        def watched(express: ExpressLane, frame: memoryview, sequence: int) -> bool:
            took = self.is_open and take(express, frame, sequence)
            self.asked += 1
            self.taken += took
            return took

        monkeypatch.setattr(ExpressLane, "take", watched)


@pytest.fixture
def lane(monkeypatch: pytest.MonkeyPatch) -> Lane:
    return Lane(monkeypatch)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_stream_of_requests_has_the_same_answers_and_leaves_the_same_logs(
    tmp_path: Path, lane: Lane, seed: int
) -> None:
    script = list(Script(seed).acts())
    fast = Stage(tmp_path / "fast", [])
    ports = list(fast.broker._ports)
    answers, logs = fast.play(script)
    assert lane.taken > lane.asked / 10, f"seed {seed}: {lane.taken} of {lane.asked} took the lane"
    lane.is_open = False
    general_answers, general_logs = Stage(tmp_path / "general", ports).play(script)
    for number, (one_answer, other) in enumerate(zip(answers, general_answers, strict=True)):
        assert one_answer == other, f"OTTLA_SEED={seed}: act {number} of the script is answered otherwise"
    assert logs == general_logs, f"OTTLA_SEED={seed}"
    assert sum(map(len, logs.values())) > 100_000


@pytest.mark.parametrize("version", range(14))
def test_the_second_request_of_a_kind_takes_the_lane(
    lane: Lane, client: Client, topic: str, version: int
) -> None:
    for number in range(3):
        produce(client, topic, one(b"x" * 50 * number), version=version)
    assert lane.taken == 2
    produce(client, topic, one(), 1, version=version)
    assert lane.taken == 2, "another partition is another kind"


@pytest.mark.parametrize("version", [5, 9, 13])
def test_acks_0_never_takes_it(lane: Lane, client: Client, topic: str, version: int) -> None:
    for acks in (-1, 0, -1, 0):
        request = produce_request(client, {(topic, 0): one(b"%d" % acks)}, version, acks)
        client.send(request, version)
        if acks:
            client.receive()
    produce(client, topic, one(), version=version)
    assert lane.taken == 2
    assert [value for _, value in read_all(client, topic)] == [b"-1", b"0", b"-1", b"0", b"v"]


def test_bytes_behind_the_request_do_not_confuse_it(
    broker: EmbeddedBroker, lane: Lane, client: Client, topic: str
) -> None:
    """Tags that we do not know may follow the records; a shape learned from such a request fits nothing."""
    request = produce_request(client, {(topic, 0): one(b"x" * 40)}, 9)
    plain = frame_of(request, 9, 1, "c")
    tagged = plain[4:-1] + b"\x01\x63\x03abc"
    tagged = struct.pack(">i", len(tagged)) + tagged
    with socket.create_connection(("127.0.0.1", broker.port), 30) as connection:
        answers = []
        for sent in (tagged, tagged, plain, plain, tagged):
            connection.sendall(sent)
            with connection.makefile("rb") as stream:
                answers.append(stream.read(*struct.unpack(">i", stream.read(4))))
    assert len({len(answer) for answer in answers}) == 1
    assert [value for _, value in read_all(client, topic)] == 5 * [b"x" * 40]


@contextmanager
def full_disk(broker: EmbeddedBroker, topic: str) -> Iterator[None]:
    """Nothing can be written to partition 0."""
    log: Any = broker._running().cluster.store.partition(topic, 0).log

    class Full:
        def __getattr__(self, name: str) -> object:
            return getattr(log.file_system, name)

        def write_all(self, *_: object) -> int:
            raise OSError(28, "No space left on device")

    file = log.active.file
    file._file_system, real = Full(), file._file_system
    try:
        yield
    finally:
        file._file_system = real


def test_a_failed_write_is_told_and_nothing_is_kept(
    broker: EmbeddedBroker, lane: Lane, client: Client, topic: str
) -> None:
    for _ in range(2):
        produce(client, topic, one())
    with full_disk(broker, topic):
        answer = produce(client, topic, one())
    assert lane.taken == 2
    assert (answer.error_code, answer.base_offset) == (Code.KAFKA_STORAGE_ERROR, -1)
    assert produce(client, topic, one()).base_offset == 2


def test_a_failed_write_with_acks_0_closes_the_connection(
    broker: EmbeddedBroker, client: Client, topic: str
) -> None:
    with full_disk(broker, topic), Client.of(broker.bootstrap) as doomed:
        doomed.send(produce_request(client, {(topic, 0): one()}, 9, 0), 9)
        with pytest.raises(ConnectionResetError):
            doomed.receive()
    assert produce(client, topic, one()).base_offset == 0
