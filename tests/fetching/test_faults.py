"""Leaders that move, brokers that die, connections that break: nothing lost, nothing twice, order kept."""

from __future__ import annotations

import errno
import logging
import random
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from ottla import EmbeddedBroker
from ottla.client.client_config import ClientConfig
from ottla.client.interruption import Interruption
from ottla.fetching import fetcher
from ottla.fetching.engine import FetchEngine
from ottla.fetching.feed import PartitionFeed
from ottla.fetching.fetch_config import FetchConfig
from ottla.fetching.fetch_errors import Reaction
from ottla.fetching.inbox import Inbox
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.model.topic_partition import TopicAndPartition
from tests.both_faces import FACES, Loop
from tests.faulty_line import FaultyLine
from tests.fetching.conftest import Engines, configs_of
from tests.fetching.loop_engine import LoopEngine
from tests.fetching.traffic import Ledger, Writer
from tests.waiting import PATIENCE_S, wait_for

PATIENCE_MS = PATIENCE_S * 1000
PARTITIONS = 6


@pytest.fixture
def three() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(brokers=3) as cluster:
        cluster.create_topic("t", PARTITIONS, replication_factor=3)
        yield cluster


@pytest.fixture(params=FACES)
def engine(engine: Engines, broker: EmbeddedBroker, request: pytest.FixtureRequest) -> Iterator[Engines]:
    """Makes engines of both faces."""
    if request.param == "threads":
        yield engine
        return
    with ExitStack() as stack:
        loop = stack.enter_context(closing(Loop()))

        def make(client: dict[str, object] | None = None, *, bootstrap: str = "", **fetch: object) -> Any:
            configs = configs_of(bootstrap or broker.bootstrap, client, fetch)
            return stack.enter_context(closing(LoopEngine(*configs, loop)))

        yield make


def inbox_for(reader: FetchEngine | LoopEngine) -> Any:
    """An inbox for several feeds of an engine."""
    return reader.new_inbox() if isinstance(reader, LoopEngine) else Inbox()


def places(count: int = PARTITIONS) -> list[TopicAndPartition]:
    return [TopicAndPartition("t", number) for number in range(count)]


def reactions(feed: PartitionFeed) -> list[Reaction]:
    found = []
    while (report := feed.errors.poll(0)) is not None:
        found.append(report.reaction)
    return found


def while_reading(
    cluster: EmbeddedBroker,
    make: Engines,
    disturb: Callable[[random.Random], None],
    seed: int,
    **settings: object,
) -> FetchEngine:
    """Write and read all partitions while something happens again and again; then all must be there."""
    chance = random.Random(seed)
    reader, ledger = make(bootstrap=cluster.bootstrap, **settings), Ledger()
    inbox = inbox_for(reader)
    for place in places():
        reader.add(place, 0, inbox=inbox)
    with Writer(cluster.bootstrap) as writer:
        for _ in range(12):
            for place in places():
                writer.write(place, 200, size=chance.choice([20, 200]), at_once=50)
            disturb(chance)
            chunk = inbox.poll(100)
            if chunk is not None:
                ledger.enter(chunk)
        cluster.heal()
        ledger.read(inbox.poll, writer.ends)
    return reader


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_leaders_move_all_the_time(three: EmbeddedBroker, engine: Engines, seed: int) -> None:
    def move(chance: random.Random) -> None:
        for _ in range(3):
            three.move_leader("t", chance.randrange(PARTITIONS), chance.randrange(3))

    reader = while_reading(three, engine, move, seed, fetch_message_max_bytes=5000)
    assert any(Reaction.MOVE in reactions(feed) for feed in reader.feeds.values())


@pytest.mark.parametrize("seed", [4, 5])
def test_brokers_stop_and_start(three: EmbeddedBroker, engine: Engines, seed: int) -> None:
    down: list[int] = []

    def toggle(chance: random.Random) -> None:
        if down:
            three.start_broker(down.pop())
        else:
            down.append(chance.randrange(3))
            three.stop_broker(down[0])

    while_reading(three, engine, toggle, seed, fetch_message_max_bytes=5000)


@pytest.mark.parametrize("seed", [6, 7])
def test_fetches_fail_in_all_kinds_of_ways(three: EmbeddedBroker, engine: Engines, seed: int) -> None:
    codes = [
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.LEADER_NOT_AVAILABLE,
        Code.FENCED_LEADER_EPOCH,
        Code.UNKNOWN_LEADER_EPOCH,
        Code.UNKNOWN_TOPIC_ID,
        Code.KAFKA_STORAGE_ERROR,
        Code.REQUEST_TIMED_OUT,
        Code.OFFSET_NOT_AVAILABLE,
    ]

    def fail(chance: random.Random) -> None:
        match chance.randrange(4):
            case 0:
                three.drop("Fetch", times=2)
            case 1:
                three.drop("Fetch", handled=True)
            case 2:
                three.delay("Fetch", 0.03, times=3)
            case 3:
                three.fail("Fetch", chance.choice(codes), times=3)

    while_reading(three, engine, fail, seed, fetch_message_max_bytes=5000)


def test_a_moved_partition_goes_on_at_its_new_leader_where_it_was(
    three: EmbeddedBroker, engine: Engines
) -> None:
    place = places()[0]
    with Writer(three.bootstrap) as writer:
        writer.write(place, 100)
        reader = engine(bootstrap=three.bootstrap)
        feed, ledger = reader.add(place, 0), Ledger()
        ledger.read(feed.poll, writer.ends)
        source = feed.info().source
        assert source is not None
        new_leader = (source.broker.broker_id + 1) % 3
        three.move_leader("t", 0, new_leader)
        writer.write(place, 100)
        ledger.read(feed.poll, writer.ends)
    source = feed.info().source
    assert source is not None
    assert (source.broker.broker_id, source.init_offset) == (new_leader, 100)
    report = feed.errors.poll(0)
    assert report is not None
    assert "t-0 at offset 100: NOT_LEADER_OR_FOLLOWER (6)" in str(report.error)


def test_a_broker_that_is_stopped_and_started_again_is_found_again(
    broker: EmbeddedBroker, topic: str, engine: Engines
) -> None:
    place = TopicAndPartition(topic, 0)
    with Writer(broker.bootstrap) as writer:
        feed, ledger = engine().add(place, 0), Ledger()
        for _ in range(3):
            writer.write(place, 50)
            ledger.read(feed.poll, writer.ends)
            broker.stop()
            report = feed.errors.poll(PATIENCE_MS)
            assert report is not None
            assert report.reaction is Reaction.MOVE
            broker.start()
        writer.write(place, 50)
        ledger.read(feed.poll, writer.ends)


# --- connections


@pytest.fixture
def proxied() -> Iterator[tuple[EmbeddedBroker, FaultyLine]]:
    """A broker that is reached through a proxy only."""
    with FaultyLine() as proxy:
        advertised = f"PLAINTEXT://127.0.0.1:{proxy.port}"
        with EmbeddedBroker(properties={"advertised.listeners": advertised}) as broker:
            proxy.target = ("127.0.0.1", broker.port)
            broker.create_topic("t", PARTITIONS)
            yield broker, proxy


def test_connections_are_cut_in_the_middle_of_answers(
    proxied: tuple[EmbeddedBroker, FaultyLine], engine: Engines
) -> None:
    chance = random.Random(8)
    _, proxy = proxied
    bootstrap = f"127.0.0.1:{proxy.port}"
    with Writer(bootstrap) as writer:
        for place in places():
            writer.write(place, 5000, size=100, at_once=500)
        reader, ledger = engine(bootstrap=bootstrap, fetch_message_max_bytes=20_000), Ledger()
        inbox = inbox_for(reader)
        for place in places():
            reader.add(place, 0, inbox=inbox)
        for _ in range(10):
            proxy.cut_after(chance.randrange(1, 100_000))
            before = proxy.cuts
            while proxy.cuts == before and sum(ledger.nexts.values()) < 5000 * PARTITIONS:
                chunk = inbox.poll(1000)
                if chunk is not None:
                    ledger.enter(chunk)
        ledger.read(inbox.poll, writer.ends)
    assert proxy.cuts >= 5
    assert any(Reaction.MOVE in reactions(feed) for feed in reader.feeds.values())


def test_a_connection_that_is_half_open_is_given_up_after_the_timeout(
    proxied: tuple[EmbeddedBroker, FaultyLine], engine: Engines
) -> None:
    _, proxy = proxied
    bootstrap = f"127.0.0.1:{proxy.port}"
    place = places()[0]
    with Writer(bootstrap) as writer:
        writer.write(place, 10)
        feed, ledger = engine({"request.timeout.ms": 300}, bootstrap=bootstrap).add(place, 0), Ledger()
        ledger.read(feed.poll, writer.ends)
        writer.close()
        proxy.silence()
        report = feed.errors.poll(PATIENCE_MS)
        assert report is not None
        assert "no answer to Fetch" in str(report.error)
        with Writer(bootstrap) as other:
            other.ends = writer.ends
            other.write(place, 10)
            ledger.read(feed.poll, other.ends)


# --- offsets that are gone


def test_a_reader_that_retention_overtakes_goes_on_at_the_logs_start(
    topic: str, writer: Writer, engine: Engines
) -> None:
    place = TopicAndPartition(topic, 0)
    writer.write(place, 200, size=100)
    feed = engine(
        auto_offset_reset="smallest", fetch_message_max_bytes=2000, queued_max_message_chunks=1
    ).add(place, 0)
    ledger = Ledger()
    wait_for(lambda: feed.info().queued_chunks == 1)
    feed.pause()  # a reader that is slow
    overtaken = feed.info().fetched_offset
    assert overtaken < 150
    writer.delete_before(place, 150)
    ledger.read(feed.poll, {place: overtaken})
    feed.resume()
    Ledger(150).read(feed.poll, {place: 200})
    report = feed.errors.poll(0)
    assert report is not None
    assert (report.reaction, report.offset) == (Reaction.RESET, overtaken)


def test_without_a_reset_the_reader_is_told(topic: str, writer: Writer, engine: Engines) -> None:
    place = TopicAndPartition(topic, 0)
    writer.write(place, 100)
    writer.delete_before(place, 50)
    feed = engine(auto_offset_reset="none").add(place, 10)
    with pytest.raises(
        KafkaError, match=r"at offset 10, and auto\.offset\.reset is none.*OFFSET_OUT_OF_RANGE"
    ):
        feed.poll(PATIENCE_MS)
    feed.seek(50)
    Ledger(50).read(feed.poll, {place: 100})


def test_an_offset_beyond_the_end_goes_where_the_policy_says(
    topic: str, writer: Writer, engine: Engines
) -> None:
    place = TopicAndPartition(topic, 0)
    writer.write(place, 10)
    feed = engine(auto_offset_reset="largest").add(place, 1000)
    wait_for(lambda: feed.position == 10)
    writer.write(place, 5)
    Ledger(10).read(feed.poll, {place: 15})


def test_an_error_that_nothing_cures_reaches_the_reader_and_the_others_go_on(
    broker: EmbeddedBroker, topic: str, writer: Writer, engine: Engines
) -> None:
    refused, place = TopicAndPartition(topic, 0), TopicAndPartition(topic, 1)
    for one in (refused, place):
        writer.write(one, 10)
    broker.fail(
        "Fetch",
        Code.TOPIC_AUTHORIZATION_FAILED,
        when=lambda request: [one.partition for one in request.topics[0].partitions] == [0],
    )
    reader = engine()
    failed = reader.add(refused, 0)
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
        failed.poll(PATIENCE_MS)
    Ledger().read(reader.add(place, 0).poll, {place: 10})
    failed.seek(0)
    Ledger().read(failed.poll, {refused: 10})


def test_no_broker_at_all_is_told_and_waited_for() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and nobody listens
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        config = ClientConfig.from_properties({"bootstrap.servers": address})
        with FetchEngine(config, FetchConfig(refresh_leader_backoff_ms=10)) as reader:
            report = reader.add(TopicAndPartition("t", 0), 0).errors.poll(PATIENCE_MS)
            assert report is not None
            assert report.reaction is Reaction.MOVE
            assert address in str(report.error)


@pytest.mark.parametrize("engine", ["threads"], indirect=True)
def test_many_partitions_without_a_broker_ask_together_and_are_told_of_once(
    engine: Engines, caplog: pytest.LogCaptureFixture
) -> None:
    """Not on a loop: there the test adds one partition a turn, and each turn asks again."""
    with EmbeddedBroker() as gone:
        gone.create_topic("t", 50)
        bootstrap = gone.bootstrap
    caplog.set_level(logging.DEBUG, logger="ottla.fetching")
    reader = engine(bootstrap=bootstrap)
    feeds = [reader.add(place, 0) for place in places(50)]

    def told() -> list[logging.LogRecord]:
        return [one for one in list(caplog.records) if "no leader to read from" in one.getMessage()]

    wait_for(lambda: len(told()) >= 8)
    assert [one.levelno for one in told()].count(logging.WARNING) == 1
    assert "and 49 more" in told()[-1].getMessage()
    assert all(feed.errors.poll(0) is not None for feed in feeds)


@pytest.mark.parametrize("engine", ["threads"], indirect=True)
def test_a_machine_without_descriptors_for_another_fetcher_is_told_and_tried_again(
    broker: EmbeddedBroker, topic: str, writer: Writer, engine: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that finds leaders must not die of it: nothing would be read any more, in silence."""
    place = TopicAndPartition(topic, 0)
    writer.write(place, 3)
    problem = OSError(errno.EMFILE, "Too many open files")

    def out_of_descriptors() -> Interruption:
        monkeypatch.undo()
        raise problem

    reader = engine()
    monkeypatch.setattr(fetcher, "Interruption", out_of_descriptors)
    feed = reader.add(place, 0)
    with pytest.raises(OSError, match="Too many open files"):
        feed.poll(PATIENCE_MS)
    wait_for(lambda: feed.failure is None, "it is tried again")
    chunk = feed.poll(PATIENCE_MS)
    assert chunk is not None
    assert chunk.batch.num_rows == 3
