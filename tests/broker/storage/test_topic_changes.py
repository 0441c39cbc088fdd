"""Changes of topics in slices, and what may happen between two of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path

import pytest

from ottla.broker.cluster import Cluster
from ottla.broker.settings.broker_config import BrokerConfig
from ottla.broker.storage.catalog import Catalog
from ottla.broker.storage.partition import NO_LEADER
from ottla.broker.storage.runtime import SlicedWork
from ottla.broker.storage.topic_store import FLUSHED_PARTITIONS, SLICE_PARTITIONS, exhausted
from ottla.log.file_system import FileSystem
from ottla.model.address import Address
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError


def on_a_cluster(path: Path, work: Callable[[Cluster], object]) -> None:
    """Do something to the cluster of a directory, without sockets; then it is killed."""

    async def main() -> None:
        cluster = Cluster(BrokerConfig(data_dir=path))
        try:
            cluster.leaders.join({0: Address("localhost", 9092)})
            work(cluster)
        finally:
            cluster.store.directory.abandon()
            cluster.runtime.end_threads()

    asyncio.run(main())


def test_a_topic_that_was_created_meanwhile_is_not_created_again(tmp_path: Path) -> None:
    """CreateTopics drafts, and creates in a later slice: in between a client may have named the topic."""

    def work(cluster: Cluster) -> None:
        topics = cluster.topics
        names = ["t", "t_t", "other"]
        drafts = [topics.draft(name, topics.spread(1, 1), {}) for name in names]
        first = [topics.create(name, topics.spread(3, 1), {}) for name in ("t", "t.t")]
        failed = exhausted(topics.creation(drafts))
        codes = {name: error.code for name, error in failed.items()}
        assert codes == {"t": Code.TOPIC_ALREADY_EXISTS, "t_t": Code.INVALID_TOPIC_EXCEPTION}
        assert [cluster.store.topic(topic.name) for topic in first] == first
        assert {name: len(some) for name, some in cluster.store.partitions.items()} == {
            "t": 3,
            "t.t": 3,
            "other": 1,
        }

    on_a_cluster(tmp_path, work)


def test_a_deletion_that_a_kill_cuts_short_is_finished_by_the_next_start(tmp_path: Path) -> None:
    """Otherwise the topic would be back, with some of its partitions empty."""

    def work(cluster: Cluster) -> None:
        cluster.topics.create("t", cluster.topics.spread(2 * SLICE_PARTITIONS, 1), {})
        next(cluster.topics.deletion(["t"]))

    on_a_cluster(tmp_path, work)
    assert any(tmp_path.glob("t-*")), "nothing was left to do"
    on_a_cluster(tmp_path, lambda _: None)
    assert not Catalog(tmp_path).topics
    assert not [path.name for path in tmp_path.glob("t-*") if not path.name.endswith("-delete")]


def test_a_leader_that_changes_while_its_topic_grows_has_an_epoch_after_a_crash(tmp_path: Path) -> None:
    """The catalog had fewer epochs than partitions, and no broker could start with it."""

    def work(cluster: Cluster) -> None:
        topics = cluster.topics
        topics.create("t", topics.spread(2, 1), {})
        growth = topics.growth(topics.grown("t", topics.spread(2 * SLICE_PARTITIONS, 1, first=2)))
        next(growth)
        for leader in (NO_LEADER, 0):
            cluster.leaders.lead([(cluster.store.partition("t", 1), leader)])
        exhausted(growth)

    on_a_cluster(tmp_path, work)
    topic = Catalog(tmp_path).topics["t"]
    assert topic.leader_epochs == (0, 2, *[0] * (2 * SLICE_PARTITIONS))
    on_a_cluster(tmp_path, lambda cluster: cluster.store.partition("t", topic.partition_count - 1))


def test_a_topic_that_cannot_grow_is_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Directories of the slices before the failure stayed, and became a topic when theirs was deleted."""
    make = FileSystem.make_directory

    def full(files: FileSystem, path: Path) -> None:
        if path.name == f"t-{SLICE_PARTITIONS + 10}":
            raise OSError(28, "No space left on device")
        make(files, path)

    def work(cluster: Cluster) -> None:
        topics = cluster.topics
        topics.create("t", topics.spread(2, 1), {})
        growth = topics.growth(topics.grown("t", topics.spread(2 * SLICE_PARTITIONS, 1, first=2)))
        next(growth)
        for leader in (NO_LEADER, 0):
            cluster.leaders.lead([(cluster.store.partition("t", 1), leader)])
        with monkeypatch.context() as patch:
            patch.setattr(FileSystem, "make_directory", full)
            assert exhausted(growth)["t"].code == Code.KAFKA_STORAGE_ERROR
        assert len(cluster.store.partitions["t"]) == 2
        assert cluster.store.topic("t").leader_epochs == (0, 2)
        assert sorted(cluster.store.directory.logs) == [("t", 0), ("t", 1)]
        topics.delete("t")

    on_a_cluster(tmp_path, work)
    on_a_cluster(tmp_path, lambda cluster: cluster.store.topic("t") if cluster.store.partitions else None)


def test_long_work_of_one_client_does_not_keep_that_of_another_waiting() -> None:
    def forever(ended: asyncio.Event) -> Generator[None, None, str]:
        while not ended.is_set():
            yield
        return "long"

    def short(ended: asyncio.Event) -> Generator[None, None, str]:
        yield
        ended.set()
        return "short"

    async def main() -> list[str]:
        work, ended = SlicedWork(asyncio.get_running_loop()), asyncio.Event()
        both: list[Awaitable[str]] = [work.add(forever(ended)), work.add(short(ended))]
        await work.idle()
        return [await one for one in both]

    assert asyncio.run(main()) == ["long", "short"]


def test_a_work_that_fails_is_no_work_of_others() -> None:
    def broken() -> Generator[None, None, str]:
        yield
        raise KafkaError(Code.INVALID_REQUEST)

    def whole() -> Generator[None, None, str]:
        yield
        return "whole"

    async def main() -> None:
        work = SlicedWork(asyncio.get_running_loop())
        failed, done = work.add(broken()), work.add(whole())
        assert await done == "whole"
        with pytest.raises(KafkaError):
            await failed

    asyncio.run(main())


def test_new_directories_are_flushed_before_their_topic_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records that were flushed into them could be gone after a power cut. One wait is for many of them."""
    calls: list[str] = []
    make, flush = FileSystem.make_directory, FileSystem.sync_directory

    def noted_make(files: FileSystem, path: Path) -> None:
        calls.append(path.name)
        make(files, path)

    def noted_flush(files: FileSystem, path: Path) -> None:
        if path == tmp_path:
            calls.append("flush")
        flush(files, path)

    def work(cluster: Cluster) -> None:
        monkeypatch.setattr(FileSystem, "make_directory", noted_make)
        monkeypatch.setattr(FileSystem, "sync_directory", noted_flush)
        cluster.topics.create("first", cluster.topics.spread(1, 1), {})  # writes the catalog, too
        calls.clear()
        count = FLUSHED_PARTITIONS + SLICE_PARTITIONS + 1
        creation = cluster.topics.creation([cluster.topics.draft("t", cluster.topics.spread(count, 1), {})])
        for _ in creation:
            assert "t" not in cluster.store.partitions
        wanted = [f"t-{index}" for index in range(count)]
        assert calls == [*wanted[:FLUSHED_PARTITIONS], "flush", *wanted[FLUSHED_PARTITIONS:], "flush"]

    on_a_cluster(tmp_path, work)
