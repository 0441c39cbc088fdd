"""Memory has a total: greedy clients reach a limit, small ones are served meanwhile.

The broker has a small budget (64 MB), so that the tests are short; its parts are in the metrics.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.broker.serving.answer_writer import UntakenAnswers
from ottla.broker.serving.client_quotas import ClientQuotas, QuotaLimits
from ottla.broker.serving.traffic import Traffic
from ottla.broker.storage.memory import MemoryBudget
from ottla.log import file_range
from ottla.log.reading import ColdRead
from ottla.log.segment_file import SegmentFile
from ottla.wire.api.api_versions import ApiVersionsRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.init_producer_id import InitProducerIdRequest
from ottla.wire.api.join_group import JoinGroupProtocol, JoinGroupRequest
from tests.broker.faults.batches import batch
from tests.broker.faults.broker_process import BrokerProcess
from tests.broker.faults.raw_client import FETCH, RawClient, fetch_request, frame
from tests.waiting import wait_for

TOTAL_MB = 64
GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, NO_ERROR = 81, 25, 0
BATCH_BYTES = 900_000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    properties = {"ottla.memory.max.bytes": TOTAL_MB << 20, "socket.request.max.bytes": 16 << 20}
    with EmbeddedBroker(tmp_path, properties=properties) as broker:
        broker.create_topic("small")
        broker.create_topic("large")
        yield broker


def share(broker: EmbeddedBroker, name: str) -> Any:
    return broker._running().cluster.memory.shares[name]


def filled(port: int, megabytes: int) -> None:
    with RawClient(port) as client:
        for _ in range(megabytes):
            assert client.produce("large", batch((b"k", b"x" * BATCH_BYTES))).error_code == 0


def unread(port: int, count: int, stack: ExitStack) -> list[RawClient]:
    """Connections that ask for much, and read nothing."""
    readers = [stack.enter_context(RawClient(port, receive_buffer=4096)) for _ in range(count)]
    for reader in readers:
        reader.send(frame(fetch_request("large", 0, 0, 32 << 20), FETCH) * 3)
    return readers


def test_answers_that_nobody_reads_have_a_limit_and_others_are_served(broker: EmbeddedBroker) -> None:
    filled(broker.port, 24)
    answers = share(broker, "answers")
    with ExitStack() as stack:
        unread(broker.port, 40, stack)
        wait_for(lambda: answers.used > answers.limit // 2)
        with RawClient(broker.port) as client:
            for _ in range(50):
                offset = client.produce("small", batch((b"k", b"v"))).base_offset
                assert client.fetch("small", offset).records, "small answers pass at the limit"
        assert answers.used < answers.limit + 2 * BATCH_BYTES
        with RawClient(broker.port) as client:
            wait_for(lambda: client.fetch("large", 5, max_bytes=8 << 20).records, "a large one gets its turn")

        def one_more() -> int:
            unread(broker.port, 1, stack)
            return int(answers.refused)

        wait_for(one_more, "stalled readers are cut")
    wait_for(lambda: not answers.used, "nothing is counted of those who left")


def test_a_large_answer_counts_whole_until_its_last_byte_was_sent() -> None:
    untaken = UntakenAnswers()
    untaken.wrote(8 << 20)
    assert untaken.progressed(1)
    assert untaken.held_bytes == 8 << 20
    untaken.wrote(10)
    assert not untaken.progressed(11)
    assert untaken.held_bytes == (8 << 20) + 10
    assert untaken.progressed(10)
    assert untaken.held_bytes == 10


def test_a_connection_that_was_cut_counts_until_its_memory_is_free(broker: EmbeddedBroker) -> None:
    """Else one turn of the loop, with hundreds of connections, fills memory that is not free yet."""
    filled(broker.port, 24)
    answers, memory = share(broker, "answers"), broker._running().cluster.memory

    def cut() -> tuple[int, int]:
        for connection in memory._holders():
            connection.answers.count()  # what its peer took until now is no progress later
            connection.answers.stalled_since = float("-inf")
        used, answers.limit = answers.used, answers.used // 2
        memory._looked_at = float("-inf")
        memory._make_room()
        return used, answers.used

    with ExitStack() as stack:
        unread(broker.port, 40, stack)
        wait_for(lambda: answers.used > answers.limit // 2)
        before, after = broker._call(cut)
        assert answers.refused > 0
        assert after >= before
        wait_for(lambda: answers.used < before, "free a turn or two later")
    wait_for(lambda: not answers.used)


def test_small_answers_that_nobody_reads_count_too(broker: EmbeddedBroker) -> None:
    """Without any fetch: such peers are cut, though each of their answers is small."""
    answers = share(broker, "answers")
    broker._call(lambda: setattr(answers, "limit", 128 << 10))  # of each peer some 200 KB stay here
    questions = frame(ApiVersionsRequest(), 0) * 100
    with ExitStack() as stack:
        askers = [stack.enter_context(RawClient(broker.port, receive_buffer=4096)) for _ in range(2)]
        rest = dict.fromkeys(askers, questions)
        for asker in askers:
            asker.socket.setblocking(False)

        def ask_more() -> bool:
            for asker in askers:
                with suppress(OSError):  # its turn comes again, or it was cut
                    rest[asker] = rest[asker][asker.socket.send(rest[asker]) :] or questions
            return answers.refused > 0

        wait_for(ask_more, lambda: f"{answers.used:,} of {answers.limit:,} bytes", pause=0.001)
    wait_for(lambda: not answers.used)


def test_answers_that_threads_still_read_from_disk_count_too(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is in the page cache, and the disk is slow: many requests wait for a thread."""
    filled(broker.port, 8)
    answers, disk, sizes = share(broker, "answers"), threading.Event(), list[int]()
    read = ColdRead.read

    def read_slowly(ticket: ColdRead) -> bytes:
        disk.wait()
        data = read(ticket)
        sizes.append(len(data))
        return data

    monkeypatch.setattr(SegmentFile, "read_now", nothing_in_memory)
    monkeypatch.setattr(file_range, "_is_cached", lambda *_: False)
    monkeypatch.setattr(ColdRead, "read", read_slowly)
    with ExitStack() as stack:
        stack.callback(disk.set)
        unread(broker.port, 60, stack)
        wait_for(lambda: answers.used > answers.limit // 2)
        with RawClient(broker.port) as client:
            assert client.produce("small", batch((b"k", b"v"))).error_code == 0, "all have been asked for"
        assert answers.used < 2 * answers.limit
    wait_for(lambda: not answers.used)
    assert 0 < sum(sizes) < 3 * answers.limit, "not 8 MB for each of them"


def nothing_in_memory(*_arguments: object) -> bytes:
    raise BlockingIOError


def test_brokers_of_one_process_take_requests_again_when_another_has_freed_its_own() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        budget = MemoryBudget(TOTAL_MB << 20, 1 << 20, 1 << 20, loop)
        store: Any = None  # which only admission needs
        quotas = ClientQuotas(QuotaLimits({}))
        one, other = Traffic(store, budget, quotas), Traffic(store, budget, quotas)
        other.hold(budget.requests.limit)
        one.hold(1)
        assert one.is_flooded
        other.hold(-budget.requests.limit)
        while one.is_flooded:
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(main(), 120))


def test_five_hundred_connections_that_never_read(tmp_path: Path) -> None:
    """With the default budget, in a process of its own."""
    with BrokerProcess(tmp_path / "data", {}) as broker:
        with broker.client() as client:
            client.create("small")
            client.create("large")
        filled(broker.port, 8)
        with ExitStack() as stack:
            unread(broker.port, 500, stack)
            with broker.client() as client:
                for _ in range(20):
                    offset = client.produce("small", batch((b"k", b"v"))).base_offset
                    assert client.fetch("small", offset).records
            assert broker.peak_mb < 256
        assert [line for line in broker.surprises if "memory is short" not in line] == []


def test_requests_that_never_end_have_a_limit_and_others_are_served(broker: EmbeddedBroker) -> None:
    requests = share(broker, "requests")
    half = (15 << 20).to_bytes(4, "big") + bytes(10 << 20)
    with ExitStack() as stack:
        senders = [stack.enter_context(RawClient(broker.port)) for _ in range(8)]
        for sender in senders:
            sender.socket.setblocking(False)
        left = {sender: memoryview(half) for sender in senders}

        def send_more() -> bool:
            for sender, rest in list(left.items()):
                try:
                    left[sender] = rest[sender.socket.send(rest) :]
                except BlockingIOError:
                    continue
                except OSError:
                    del left[sender]  # cut
            return requests.refused > 0

        with RawClient(broker.port) as client:
            assert not send_more()
            wait_for(lambda: client.produce("small", batch((b"k", b"v"))).error_code == 0 and send_more())
        assert requests.used <= requests.limit + (16 << 20)
    wait_for(lambda: not requests.used)


def join(client: RawClient, group: str, size: int, member_id: str = "") -> Any:
    protocol = JoinGroupProtocol(name="range", metadata=bytes(size))
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=1_800_000,
        rebalance_timeout_ms=1_800_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[protocol],
    )
    return client.call(request, 3)


def test_members_with_too_much_metadata_are_refused(broker: EmbeddedBroker) -> None:
    groups = share(broker, "groups")
    with RawClient(broker.port) as client:
        client.call(FindCoordinatorRequest(key="first", key_type=0), 2)
        wait_for(lambda: join(client, "first", 10).error_code == NO_ERROR)
        for number in range(10):
            assert join(client, f"greedy{number}", 12 << 20).error_code == GROUP_MAX_SIZE_REACHED
        assert groups.used < 1 << 20
        codes = [join(client, f"large{number}", 1_000_000).error_code for number in range(12)]
        assert codes == sorted(codes)
        assert set(codes) == {NO_ERROR, GROUP_MAX_SIZE_REACHED}, "a limit on the sum"
        assert groups.used <= groups.limit
        assert join(client, "usual", 500).error_code == NO_ERROR, "small joins pass at the limit"


def test_producers_have_a_limit_and_go_on_when_they_are_forgotten(broker: EmbeddedBroker) -> None:
    producers = share(broker, "producers")
    broker._call(lambda: setattr(producers, "limit", 100 * 1024))
    now = 1_700_000_000_000
    with RawClient(broker.port) as client:
        first = client.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), 2)
        for number in range(300):
            id_ = first.producer_id + number
            data = batch((b"k", b"v"), producer_id=id_, producer_epoch=0, sequence=0, timestamp=now + number)
            assert client.produce("small", data).error_code == NO_ERROR
        assert producers.refused > 0
        assert producers.used <= producers.limit
        again = batch((b"k", b"v"), producer_id=first.producer_id, producer_epoch=0, sequence=1)
        assert client.produce("small", again).error_code == NO_ERROR
