"""Fetch sessions (KIP-227): a reader of 1,000 partitions of which few have news, by CPU time.

Broker and reader are in this process, and both count. Ten of the partitions have a record at the reader's
offset; the others are at their end. A session names nothing and is told of ten partitions; a full fetch names
all and is told of all. The figures are fetches a CPU second, and the bytes of a request and of its answer.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

from benchmarks.harness import FULL, Better, Case, Effort, Peer, benchmark, rate
from ottla import EmbeddedBroker, Producer
from ottla.wire.api.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.client_connection import ClientConnection, ReceivedResponse

TOPIC, PARTITIONS, BUSY = "many", 1_000, 10
FETCHES, FEW_FETCHES = 500, 100
VERSION = 12


class _Reader:
    """A connection that fetches all partitions from their beginning."""

    def __init__(self, bootstrap: str) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)))
        self._wire = ClientConnection(client_id="benchmark")
        wanted = [FetchPartition(partition=index, partition_max_bytes=1 << 16) for index in range(PARTITIONS)]
        self._everything = [FetchTopic(topic=TOPIC, partitions=wanted)]
        self.request_bytes = self.answer_bytes = 0  # of the last fetch

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def full_fetches(self, count: int) -> Callable[[], None]:
        """Fetch everything, again and again."""

        def work() -> None:
            for _ in range(count):
                _check(self._fetched(FetchRequest(topics=self._everything)), PARTITIONS)

        return work

    def session_fetches(self, count: int) -> Callable[[], None]:
        """Begin a session, and fetch in it."""

        def work() -> None:
            first = self._fetched(FetchRequest(topics=self._everything, session_epoch=0))
            for epoch in range(1, count):
                request = FetchRequest(session_id=first.session_id, session_epoch=epoch)
                _check(self._fetched(request), BUSY)
            self._fetched(FetchRequest(session_id=first.session_id, session_epoch=-1))

        return work

    def full_fetch(self) -> None:
        """Fetch everything once."""
        self.full_fetches(1)()

    def session_fetch(self) -> None:
        """Fetch once in a session that has begun."""
        first = self._fetched(FetchRequest(topics=self._everything, session_epoch=0))
        _check(self._fetched(FetchRequest(session_id=first.session_id, session_epoch=1)), BUSY)

    def _fetched(self, request: FetchRequest) -> FetchResponse:
        self.request_bytes = self.answer_bytes = 0
        for part in self._wire.send(request, version=VERSION).parts:
            self._socket.sendall(part)
            self.request_bytes += len(part)
        event: Any = None
        while event is None:
            count = self._socket.recv_into(self._wire.get_buffer())
            self.answer_bytes += count
            self._wire.received(count)
            event = self._wire.next_event()
        if not isinstance(event, ReceivedResponse) or not isinstance(event.message, FetchResponse):
            raise AssertionError(f"the broker answers {event}")
        return event.message


def _check(response: FetchResponse, count: int) -> None:
    told = sum(len(topic.partitions) for topic in response.responses)
    if response.error_code or told != count:
        raise AssertionError(f"error {response.error_code}, {told} partitions instead of {count}")


@benchmark("sessions")
def sessions(effort: Effort) -> Iterator[Case]:
    """Incremental fetches beside full ones."""
    fetches = FETCHES if effort is FULL else FEW_FETCHES
    with EmbeddedBroker() as broker:
        broker.create_topic(TOPIC, PARTITIONS)
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for index in range(BUSY):
                producer.send(TOPIC, b"news", partition=index)
        with closing(_Reader(broker.bootstrap)) as ours, closing(_Reader(broker.bootstrap)) as theirs:
            yield Case(
                f"fetch, {PARTITIONS:,} partitions, {BUSY} with records",
                "fetches/CPU s",
                rate(ours.session_fetches(fetches), fetches),
                [Peer("full fetches", measure=rate(theirs.full_fetches(fetches), fetches))],
                effort.process_rounds,
            )
            ours.session_fetch()
            theirs.full_fetch()
            for what, mine, full in (
                ("request", ours.request_bytes, theirs.request_bytes),
                ("answer", ours.answer_bytes, theirs.answer_bytes),
            ):
                yield Case(
                    f"fetch, {PARTITIONS:,} partitions, {BUSY} with records: its {what}",
                    "bytes",
                    lambda mine=mine: mine,  # type: ignore[misc]
                    [Peer("full fetches", measure=lambda full=full: full)],  # type: ignore[misc]
                    rounds=1,
                    better=Better.LESS,
                    is_warmed=False,
                )
