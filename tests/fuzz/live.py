"""python -m tests.fuzz.live [--count N] [--seed S]: hostile frames over live connections to a broker.

Kafka's own requests of every API and version, and requests for a topic that exists, are damaged and sent over
several connections at once. An honest client sends and reads records beside them. It must hold that

- the broker's process lives, logs no error that nobody has foreseen, and stays below `MEMORY_MB_MAX`;
- every honest record is acked, and read once and in order.

Frame number n of a seed is always the same. How long honest acks took is printed.
"""

from __future__ import annotations

import argparse
import secrets
import select
import socket
import struct
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from ottla import Producer, replay
from ottla.model.closing import Closing
from ottla.wire.api.api_versions import ApiVersionsRequest
from ottla.wire.api.create_partitions import CreatePartitionsRequest
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.join_group import JoinGroupProtocol, JoinGroupRequest
from ottla.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.api.metadata import MetadataRequest, MetadataTopic
from ottla.wire.headers import encode_request_header
from ottla.wire.registry import apis
from ottla.wire.schema import Request, encode
from tests.broker.faults.batches import batch
from tests.broker.faults.broker_process import BrokerProcess
from tests.broker.faults.raw_client import RawClient, fetch_request, produce_request
from tests.fuzz.mutations import INT32, mutated, spliced
from tests.wire.messages import rows

CONNECTIONS = 8
BURSTS = (1, 1, 2, 8)
"""How many frames are sent before an answer is read."""
ANSWER_S = 0.1
"""A broker may keep a fetch or a join for minutes: frames are given up if nothing was answered for so long,
and other requests, sent after that, were. A broker that gets no processor for a while has kept nothing."""
PINGS = 2
"""The answer to the first may have been decided before the broker has read what lay there already."""
MEMORY_MB_MAX = 600
HONEST, TARGET = "honest", "target"
HONEST_PAUSE_S = 0.005
RARE = (CreateTopicsRequest, CreatePartitionsRequest)
"""Each that succeeds leaves files: one in `RARE_ONE_IN` is sent."""
RARE_ONE_IN = 50


@dataclass
class Outcome:
    """What came of the frames, and of the honest client."""

    seed: int
    frames: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    ack_ms: list[float] = field(default_factory=list)
    peak_mb: float = 0.0
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        count = self.frames.total()
        p50, p99, most = np.percentile(self.ack_ms or [0], [50, 99, 100])
        return (
            f"{count:,} frames in {self.seconds:.0f} s ({count / max(self.seconds, 1e-9):,.0f} a second):"
            f" {', '.join(f'{word} {number:,}' for word, number in sorted(self.frames.items()))}\n"
            f"honest records: {len(self.ack_ms):,}, acks after {p50:.1f} ms (median), {p99:.1f} ms (p99),"
            f" {most:.1f} ms (longest); the broker had {self.peak_mb:.0f} MB at most; --seed {self.seed}"
        )


# ---- frames


@cache
def _requests() -> list[tuple[bytes, bytes]]:
    """Header and body of every request that is damaged."""
    of_kafka = [
        (encode_request_header(row.kind.API, row.version, 1, "fuzz"), row.data)
        for row in rows()
        if row.data is not None and issubclass(row.kind, Request) and row.kind not in RARE
    ]
    live = [request for _ in range(len(of_kafka) // 20) for request in _live_requests()]
    return of_kafka + live


@cache
def _rare_requests() -> list[tuple[bytes, bytes]]:
    return [
        (encode_request_header(row.kind.API, row.version, 1, "fuzz"), row.data)
        for row in rows()
        if row.data is not None and row.kind in RARE
    ]


@cache
def _live_requests() -> list[tuple[bytes, bytes]]:
    """Requests for a topic that exists, which get deeper into the broker."""
    produced = bytes(batch((b"key", b"value"), (None, b"value"), (b"key", None)))
    times = [ListOffsetsPartition(partition_index=0, timestamp=when) for when in (-1, -2, 0)]
    member = JoinGroupRequest(
        group_id="fuzz",
        session_timeout_ms=6000,
        rebalance_timeout_ms=6000,
        protocol_type="consumer",
        protocols=[JoinGroupProtocol(name="range", metadata=bytes(20))],
    )
    requests: list[tuple[Request[Any], int]] = [
        (produce_request(TARGET, produced), 3),
        (produce_request(TARGET, produced), 12),
        (produce_request(TARGET, produced, acks=0), 8),
        (fetch_request(TARGET), 4),
        (fetch_request(TARGET), 12),
        (ListOffsetsRequest(topics=[ListOffsetsTopic(name=TARGET, partitions=times)]), 7),
        (MetadataRequest(topics=[MetadataTopic(name=TARGET)]), 9),
        (member, 5),
        (member, 9),
    ]
    return [
        (
            encode_request_header(request.API, version, 1, "fuzz"),
            b"".join(map(bytes, encode(request, version))),
        )
        for request, version in requests
    ]


def frame(seed: int, number: int) -> bytes:
    """The bytes of a frame: a request as it is, damaged, or spliced, behind a size that may lie."""
    chance = Random(f"{seed}:{number}")
    is_rare = chance.randrange(len(apis()) * RARE_ONE_IN) == 0
    header, body = chance.choice(_rare_requests() if is_rare else _requests())
    fate = chance.random()
    if fate < 0.6:
        content = header + mutated(body, chance)
    elif fate < 0.75:
        content = header + body
    elif fate < 0.9:
        content = mutated(header + body, chance)
    else:
        content = header + spliced(body, chance.choice(_requests())[1], chance)
    size = len(content) if chance.random() < 0.98 else chance.choice(INT32)
    return struct.pack(">i", size) + content


# ---- connections


class _Hostile(Closing):
    """A connection that sends bursts of frames and reads what comes, until nothing comes."""

    def __init__(self, port: int, pings: RawClient) -> None:
        self._port = port
        self._pings = pings
        self._socket: socket.socket | None = None

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def send(self, frames: list[bytes]) -> Counter[str]:
        """What became of the frames: `answered`; `closed`, the one after which the broker hung up; `kept`.

        Those behind the one that closed the connection are not counted: the broker never saw them.
        """
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), 60)
        answers = _AnswerCounter()
        is_open = True
        try:
            self._socket.sendall(b"".join(frames))
            while is_open and answers.count < len(frames) and self._has_news(self._socket):
                data = self._socket.recv(1 << 20)
                is_open = bool(data)
                answers.take(data)
        except OSError:
            is_open = False
        outcome = Counter(answered=answers.count)
        if not is_open:
            self.close()
            outcome["closed"] += 1
        elif answers.count < len(frames):
            self.close()
            outcome["kept"] += len(frames) - answers.count
        return outcome

    def _has_news(self, connection: socket.socket) -> bool:
        """Whether an answer comes before the broker has had some time, and has answered later requests."""
        if _is_readable(connection, ANSWER_S):
            return True
        for _ in range(PINGS):
            self._pings.call(ApiVersionsRequest(), 0)
        return _is_readable(connection, 0.0)


def _is_readable(connection: socket.socket, seconds: float) -> bool:
    return bool(select.select([connection], [], [], seconds)[0])


class _AnswerCounter:
    """Counts whole frames in a stream."""

    def __init__(self) -> None:
        self.count = 0
        self._rest = bytearray()

    def take(self, data: bytes) -> None:
        self._rest += data
        while len(self._rest) >= 4 and len(self._rest) >= (end := 4 + int.from_bytes(self._rest[:4])):
            del self._rest[:end]
            self.count += 1


def _bombard(port: int, seed: int, worker: int, count: int) -> Counter[str]:
    """Send frames until the broker has taken `count`; returns what became of them."""
    chance = Random(f"{seed}:{worker}")
    number = worker
    outcome: Counter[str] = Counter()
    with RawClient(port) as pings, _Hostile(port, pings) as hostile:
        while (left := count - outcome.total()) > 0:
            burst = min(left, chance.choice(BURSTS))
            frames = [frame(seed, number + at * CONNECTIONS) for at in range(burst)]
            number += burst * CONNECTIONS
            outcome += hostile.send(frames)
    return outcome


# ---- the honest client


class _Honest(Closing):
    """Sends a numbered record every few milliseconds, and reads all of them at the end."""

    def __init__(self, bootstrap: str, outcome: Outcome) -> None:
        self._bootstrap = bootstrap
        self._outcome = outcome
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def _send(self) -> None:
        try:
            with Producer(bootstrap_servers=self._bootstrap, linger_ms=0) as producer:
                while not self._stopping.wait(HONEST_PAUSE_S):
                    start = time.perf_counter()
                    producer.send(HONEST, b"%d" % len(self._outcome.ack_ms)).result(60)
                    self._outcome.ack_ms.append((time.perf_counter() - start) * 1000)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
            self._outcome.failures.append(f"an honest record was not taken: {error!r}")

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()


def check_honest(bootstrap: str, outcome: Outcome) -> None:
    """Compare the records that are stored with those that were acked."""
    messages = replay(HONEST, bootstrap_servers=bootstrap).messages()
    stored = [int(message.value or b"-1") for message in messages]
    if stored != [*range(len(outcome.ack_ms))]:
        outcome.failures.append(f"{len(outcome.ack_ms)} records were acked, stored: {stored}")


def run(count: int, seed: int, directory: Path) -> Outcome:
    """Send `count` frames to a broker with its data in `directory`; `failures` says what did not hold."""
    outcome = Outcome(seed)
    with BrokerProcess(directory / "data", {"auto.create.topics.enable": "false"}) as broker:
        with broker.client() as client:
            for topic in (HONEST, TARGET):
                client.create(topic, 1)
        honest = _Honest(f"127.0.0.1:{broker.port}", outcome)
        start = time.perf_counter()
        try:
            with honest:
                shares = [len(range(worker, count, CONNECTIONS)) for worker in range(CONNECTIONS)]
                with ThreadPoolExecutor(CONNECTIONS) as workers:
                    bombard = partial(_bombard, broker.port, seed)
                    outcome.frames = sum(workers.map(bombard, range(CONNECTIONS), shares), Counter())
                outcome.seconds = time.perf_counter() - start
            check_honest(f"127.0.0.1:{broker.port}", outcome)
            outcome.peak_mb = broker.peak_mb
        except OSError as error:
            outcome.failures.append(f"the broker is gone: {error!r}")
        if outcome.frames.total() != count:
            outcome.failures.append(f"only {outcome.frames.total()} frames were sent")
        if outcome.peak_mb > MEMORY_MB_MAX:
            outcome.failures.append(f"the broker took {outcome.peak_mb:.0f} MB")
        if broker.surprises:
            outcome.failures.append("the broker's log:\n" + "\n".join(broker.log.splitlines()[-60:]))
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.live", description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000, help="frames (1,000,000)")
    parser.add_argument("--seed", type=int, help="repeat a run; random if not given")
    options = parser.parse_args()
    seed = secrets.randbits(32) if options.seed is None else options.seed
    with tempfile.TemporaryDirectory(prefix="ottla-fuzz-") as directory:
        outcome = run(options.count, seed, Path(directory))
    sys.stdout.write("\n".join([str(outcome), *outcome.failures]) + "\n")
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    sys.exit(main())
