"""What a data directory knows of its topics: after a crash at any instant, with a damaged file or none."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.cluster import Cluster
from ottla.broker.embedded import EmbeddedBroker
from ottla.broker.settings.broker_config import BrokerConfig
from ottla.broker.storage.catalog import JOURNAL_BYTES_MIN, Catalog, Topic
from ottla.broker.storage.data_check import check
from ottla.log import partition_metadata
from ottla.log.file_system import REAL, FileSystem
from ottla.model.error_codes import Code
from ottla.model.errors import StorageError
from tests.broker.groups.group_calls import commit, committed, find
from tests.broker.traffic import fill, offset_at, one, produce, read_all, topic_id
from tests.broker.wire_client import Client
from tests.log.faulty_files import DyingFiles, Killed, QuickFiles

CATALOG, JOURNAL = "ottla.json", "ottla.journal"
CHANGES_MAX = 200
Work = Callable[[Cluster], object]


# --- crashes --------------------------------------------------------------------------------------------


@contextmanager
def dying_after(changes: int):  # type: ignore[no-untyped-def]
    """The one real file system of the process dies at the n-th change."""
    REAL.__class__ = DyingFiles
    REAL.changes_left, REAL.is_dead = changes, False  # type: ignore[attr-defined]
    try:
        yield
    finally:
        REAL.__class__ = FileSystem


def drafted(name: str, count: int = 1) -> Topic:
    return Topic(name, name.encode().ljust(16), ((0,),) * count, (0,) * count)


def run(path: Path, work: Work, changes: int | None = None) -> bool:
    """Do something to the cluster of a directory, without sockets; whether it was killed on the way."""

    async def main() -> bool:
        cluster = Cluster(BrokerConfig(data_dir=path))
        try:
            if changes is None:
                work(cluster)
            else:
                with dying_after(changes):
                    work(cluster)
        except Killed:
            return True
        finally:
            cluster.store.directory.abandon()
            cluster.runtime.end_threads()
        return False

    return asyncio.run(main())


def state(path: Path) -> dict[str, tuple[bytes, int, dict[str, str]]]:
    """Id, partitions and settings of the topics, all of which have their directories; there are no others."""
    found = {}

    def look(cluster: Cluster) -> None:
        for name, topic in cluster.store.catalog.topics.items():
            assert not topic.is_deleting
            assert len(cluster.store.partitions[name]) == topic.partition_count
            assert all(partition.log is not None for partition in cluster.store.partitions[name])
            found[name] = (topic.topic_id, topic.partition_count, dict(topic.overrides))
        assert {name for name, _ in cluster.store.directory.logs} == set(found)

    run(path, look)
    names = {f"{name}-{index}" for name, (_, count, _) in found.items() for index in range(count)}
    assert {item.name for item in path.iterdir() if item.is_dir()} == names
    return found


def at_every_change(tmp_path: Path, prepare: Work, work: Work) -> set[int]:
    """Kill `work` at each of its changes: it is left as before (0) or as after (1); which of them came."""
    start = tmp_path / "start"
    run(start, prepare)
    before = state(start)
    goal = tmp_path / "goal"
    shutil.copytree(start, goal)
    run(goal, work)
    after = state(goal)
    assert before != after
    survived: set[Any] = set()
    for changes in range(CHANGES_MAX):
        path = tmp_path / f"crash-{changes}"
        shutil.copytree(start, path)
        was_killed = run(path, work, changes)
        found = state(path)
        assert found in (before, after), f"killed at change {changes}: {found}"
        if not was_killed:
            assert found == after
            return survived
        survived.add(int(found == after))
    raise AssertionError("it never came to an end")


def make(name: str, count: int = 2, **settings: str) -> Work:
    overrides = {key.replace("_", "."): value for key, value in settings.items()}
    return lambda cluster: cluster.topics.create(name, [(0,)] * count, overrides, name.encode().ljust(16))


def test_a_creation_that_is_cut_short_happened_or_not(tmp_path: Path) -> None:
    assert at_every_change(tmp_path, make("other"), make("t", 3)) == {0, 1}


def test_the_first_creation_that_is_cut_short_happened_or_not(tmp_path: Path) -> None:
    assert at_every_change(tmp_path, lambda _: None, make("t", 3)) == {0, 1}


def test_a_first_change_that_was_refused_is_not_there_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object, path: Path) -> None:
        raise OSError(5, f"cannot flush {path}")

    catalog = Catalog(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(FileSystem, "sync_directory", fail)
        with pytest.raises(StorageError, match="cannot flush"):
            catalog.put([drafted("refused")])
    assert Catalog(tmp_path).topics == {}
    catalog.put([drafted("taken")])
    assert [*Catalog(tmp_path).topics] == ["taken"]


def test_a_deletion_that_is_cut_short_happened_or_not(tmp_path: Path) -> None:
    def both(cluster: Cluster) -> None:
        make("other")(cluster)
        make("t", 3)(cluster)

    assert at_every_change(tmp_path, both, lambda cluster: cluster.topics.delete("t")) == {0, 1}


def test_growth_that_is_cut_short_happened_or_not(tmp_path: Path) -> None:
    work: Work = lambda cluster: cluster.topics.grow("t", [(0,)] * 2)  # noqa: E731
    assert at_every_change(tmp_path, make("t", 1), work) == {0, 1}


def test_a_change_of_settings_that_is_cut_short_happened_or_not(tmp_path: Path) -> None:
    work: Work = lambda cluster: cluster.topics.configure("t", {"retention.ms": "5"})  # noqa: E731
    assert at_every_change(tmp_path, make("t", 1, retention_ms="7"), work) == {0}, "it is one line"


def test_producer_ids_are_reserved_before_they_are_given(tmp_path: Path) -> None:
    for changes in range(10):
        path = tmp_path / str(changes)
        given: list[int] = []
        run(path, lambda cluster: given.append(cluster.store.producer_ids.take()), changes)  # noqa: B023
        again: list[int] = []
        run(path, lambda cluster: again.append(cluster.store.producer_ids.take()))  # noqa: B023
        assert not set(given) & set(again), f"killed at change {changes}"


# --- the file -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"version": 99}', '{"version": 1, "topics": 3}', "\0\0\0", "null"]
)
def test_a_damaged_catalog_is_named_and_nothing_is_touched(tmp_path: Path, text: str) -> None:
    run(tmp_path, make("t"))
    (tmp_path / CATALOG).write_text(text)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(StorageError, match=r"ottla\.json.*ottla log repair"):
        EmbeddedBroker(tmp_path).start()
    assert sorted(tmp_path.rglob("*")) == before
    (tmp_path / CATALOG).unlink()
    assert set(state(tmp_path)) == {"t"}, "the remedy works"


def topics_of(path: Path) -> dict[str, int]:
    return {name: topic.partition_count for name, topic in Catalog(path).topics.items()}


def test_a_change_appends_a_line_and_leaves_the_rest_as_it_is(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    catalog.put([drafted("first")])
    whole, journal = (tmp_path / CATALOG).read_bytes(), tmp_path / JOURNAL
    for number in range(100):
        before = journal.read_bytes()
        catalog.put([drafted(f"t{number}")])
        assert journal.read_bytes().startswith(before)
    assert (tmp_path / CATALOG).read_bytes() == whole
    catalog.remove(["t7"])
    assert topics_of(tmp_path) == {"first": 1} | {f"t{number}": 1 for number in range(100) if number != 7}


def test_a_journal_that_is_mostly_dead_is_begun_anew(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path, QuickFiles())
    catalog.put([drafted("kept", 3)])
    sizes = []
    for _ in range(2000):
        catalog.put([drafted("changed")])
        sizes.append((tmp_path / JOURNAL).stat().st_size)
    assert max(sizes) < 2 * JOURNAL_BYTES_MIN
    assert topics_of(tmp_path) == {"kept": 3, "changed": 1}


def test_a_catalog_without_a_journal_is_read(tmp_path: Path) -> None:
    """As it was written before there were journals."""
    fields = '{"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "replicas": [[0]], "leader_epochs": [4], "overrides": {}'
    topics = f'{{"t": {fields}, "is_deleting": false}}}}'
    text = f'{{"version": 1, "producer_ids_end": 7, "broker_overrides": {{}}, "topics": {topics}}}'
    (tmp_path / CATALOG).write_text(text)
    catalog = Catalog(tmp_path)
    assert (catalog.producer_ids_end, catalog.topics["t"].leader_epochs) == (7, (4,))
    catalog.put([drafted("new")])
    assert topics_of(tmp_path) == {"t": 1, "new": 1}


def test_what_a_crash_left_of_a_line_is_cut(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    catalog.put([drafted("whole")])
    journal = tmp_path / JOURNAL
    start = journal.read_bytes()
    catalog.put([drafted("torn")])
    lines = journal.read_bytes()
    for end in range(len(start), len(lines)):
        journal.write_bytes(lines[:end])
        assert topics_of(tmp_path) == {"whole": 1}
        Catalog(tmp_path).put([drafted("next")])
        assert topics_of(tmp_path) == {"whole": 1, "next": 1}


@pytest.mark.parametrize("left", [None, b"", b"half a li", bytes(300)])
def test_a_journal_that_is_lost_is_told_once(
    tmp_path: Path, left: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    run(tmp_path, lambda cluster: cluster.topics.create("t", ((0,),), {}))
    run(tmp_path, lambda cluster: cluster.store.catalog.renew())
    run(tmp_path, lambda cluster: cluster.topics.configure("t", {"retention.ms": "1000"}))
    journal = tmp_path / JOURNAL
    if left is None:
        journal.unlink()
    else:
        journal.write_bytes(left)
    (finding,) = check(tmp_path).findings
    assert (finding.path, finding.actions) == (journal, ())
    assert "the last changes of topics and settings are lost" in finding.damage
    caplog.clear()
    run(tmp_path, lambda cluster: cluster.store.topic("t"))
    assert [line for line in caplog.messages if "ottla.journal" in line] == [finding.damage]
    caplog.clear()
    run(tmp_path, lambda cluster: cluster.store.topic("t"))
    assert [line for line in caplog.messages if "ottla.journal" in line] == []
    assert check(tmp_path).findings == []


def test_a_catalog_that_is_lost_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(tmp_path, lambda cluster: cluster.topics.create("t", ((0,),), {"retention.ms": "1000"}))
    (tmp_path / CATALOG).unlink()
    (finding,) = check(tmp_path).findings
    assert finding.path == tmp_path / CATALOG
    assert "the configs of topics and brokers are lost" in finding.damage
    for told in ([finding.damage], []):
        caplog.clear()
        run(tmp_path, lambda cluster: cluster.store.topic("t"))
        assert [line for line in caplog.messages if "ottla.json" in line] == told
    assert check(tmp_path).findings == []


def test_a_lost_journal_and_a_full_disk_keep_no_broker_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path, lambda cluster: cluster.topics.create("t", ((0,),), {}))
    run(tmp_path, lambda cluster: cluster.store.catalog.renew())
    (tmp_path / JOURNAL).write_bytes(b"")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Catalog, "_store_all", full)
    run(tmp_path, lambda cluster: cluster.store.catalog.losses)


def test_a_change_that_was_refused_is_not_there_after_a_restart(tmp_path: Path) -> None:
    class Full(QuickFiles):
        def sync(self, fd: int) -> None:
            raise OSError(28, f"No space left on device, file {fd}")

    catalog = Catalog(tmp_path)
    catalog.put([drafted("kept")])
    catalog._journal.file_system = Full()
    with pytest.raises(StorageError):
        catalog.put([drafted("refused"), drafted("too")])
    assert topics_of(tmp_path) == {"kept": 1}


def test_damage_in_the_middle_of_the_journal_is_named(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    for name in ("a", "b", "c"):
        catalog.put([drafted(name)])
    journal = tmp_path / JOURNAL
    data = bytearray(journal.read_bytes())
    data[len(data) // 2] ^= 4
    journal.write_bytes(data)
    with pytest.raises(StorageError, match=r"ottla\.journal, byte \d+: the checksum of a line"):
        Catalog(tmp_path)


def test_a_journal_of_an_older_catalog_is_ignored(tmp_path: Path) -> None:
    """A crash may come between the two files, when both are written anew; and a person may restore one."""
    Catalog(tmp_path).put([drafted("old")])
    journal = (tmp_path / JOURNAL).read_bytes()
    (tmp_path / CATALOG).unlink()
    assert topics_of(tmp_path) == {}
    Catalog(tmp_path).put([drafted("new")])
    (tmp_path / JOURNAL).write_bytes(journal)
    assert "old" not in topics_of(tmp_path)


def test_topics_keep_what_they_are_over_restarts(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker:
        broker.create_topic("first")  # the first change is stored in another way
        broker.create_topic("t", 2, config={"retention.ms": "1234567"})
        with Client.of(broker.bootstrap) as client:
            id_ = topic_id(client, "t")
            fill(client, "t", [one(b"kept")], 1)
        broker.stop()
        broker.start()
        with Client.of(broker.bootstrap) as client:
            assert topic_id(client, "t") == id_
            assert read_all(client, "t", 1) == [(0, b"kept")]
        assert broker._running().cluster.store.topic("t").overrides == {"retention.ms": "1234567"}


# --- directories without a catalog ----------------------------------------------------------------------


def test_every_partition_with_records_names_its_topic_as_kafka_does(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker, Client.of(broker.bootstrap) as client:
        broker.create_topic("t", 3)
        id_ = topic_id(client, "t")
        for index in range(2):
            fill(client, "t", [one(b"v")], index)
    assert not list((tmp_path / "t-2").iterdir()), "files come with the first record"
    for index in range(2):
        assert partition_metadata.read(tmp_path / f"t-{index}") == id_
        text = (tmp_path / f"t-{index}" / "partition.metadata").read_text()
        assert text.startswith("version: 0\ntopic_id: ")
        assert len(text) == len("version: 0\ntopic_id: ") + 22


def test_without_a_catalog_topics_keep_their_ids_records_and_offsets(tmp_path: Path) -> None:
    properties = {"offsets.topic.num.partitions": "3"}
    with EmbeddedBroker(tmp_path, properties=properties) as broker, Client.of(broker.bootstrap) as client:
        broker.create_topic("t", 2)
        id_ = topic_id(client, "t")
        fill(client, "t", [one(b"kept")], 1)
        find(client, "g")
        commit(client, "g", {("t", 1): 1})
    (tmp_path / CATALOG).unlink()
    with EmbeddedBroker(tmp_path) as broker, Client.of(broker.bootstrap) as client:
        assert topic_id(client, "t") == id_
        assert read_all(client, "t", 1) == [(0, b"kept")]
        assert offset_at(client, "t", -1, 1).leader_epoch == 1, "behind that of the records"
        find(client, "g")
        assert committed(client, "g") == {("t", 1): 1}, "found with three partitions, not with fifty"
        cluster = broker._running().cluster
        assert cluster.store.topic("__consumer_offsets").overrides["cleanup.policy"] == "compact"
        adopted = cluster.store.partition("t", 1)
        assert adopted.log is not None
        assert adopted.log.config.retention_ms == -1, "nothing is deleted whose settings are not known"


def test_a_directory_that_was_copied_by_hand_is_a_topic_of_its_own(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker:
        broker.create_topic("t")
        with Client.of(broker.bootstrap) as client:
            fill(client, "t", [one(b"v")])
    shutil.copytree(tmp_path / "t-0", tmp_path / "copy-0")
    with EmbeddedBroker(tmp_path) as broker, Client.of(broker.bootstrap) as client:
        ids = {name: topic_id(client, name) for name in ("t", "copy")}
        assert len(set(ids.values())) == 2
        assert read_all(client, "copy") == [(0, b"v")]
        assert produce(client, "copy", one()).base_offset == 1
        assert len(read_all(client, "t")) == 1
    assert partition_metadata.read(tmp_path / "copy-0") == ids["copy"]


@pytest.mark.parametrize(
    "text",
    ["", "version: 0", "version: 0\ntopic_id: ", "topic_id: !!!", "topic_id: AAAA", "topic_id: " + 22 * "A"],
)
def test_a_topic_whose_name_plate_cannot_be_read_gets_a_new_id(tmp_path: Path, text: str) -> None:
    run(tmp_path, make("t", 1))
    (tmp_path / CATALOG).unlink()
    (tmp_path / "t-0" / "partition.metadata").write_text(text)
    ((id_, count, _),) = state(tmp_path).values()
    assert (len(id_), any(id_), count) == (16, True, 1)
    assert partition_metadata.read(tmp_path / "t-0") == id_


def test_a_disk_that_takes_nothing_keeps_no_leader_and_no_broker_from_going(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    broker = EmbeddedBroker(tmp_path, brokers=2).start()
    broker.create_topic("t", 2, replication_factor=2)
    with Client.of(broker.bootstrap) as client:
        fill(client, "t", [one(b"kept")])
        with monkeypatch.context() as patch:
            journal = broker._running().cluster.store.catalog._journal
            patch.setattr(journal, "file_system", SimpleNamespace(replace_file=full, open=full))
            broker.stop_broker(1)
            assert produce(client, "t", one(), 1).error_code == Code.NONE, "led by the other one now"
            broker.stop()
    with EmbeddedBroker(tmp_path, brokers=2) as again, Client.of(again.bootstrap) as client:
        assert again._running().cluster.store.directory.was_clean
        assert read_all(client, "t") == [(0, b"kept")]
        led = again._running().cluster.store.partition("t", 1)
        assert led.log is not None
        assert led.leader_epoch == led.log.epochs.latest == 1, "an epoch never goes back"
    assert [line for line in caplog.messages if "leader-epoch-checkpoint" in line] == []
