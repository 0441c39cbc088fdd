"""What every ZooKeeperSession promises: the same tests on a real server and on the tree in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.model.errors import ConfigError
from ottla.zookeeper.session import (
    CheckOperation,
    CreateMode,
    CreateOperation,
    DeleteOperation,
    SessionLimits,
    SessionState,
    SetOperation,
    WatchEvent,
    WatchKind,
    ZooKeeperSession,
)
from ottla.zookeeper.zookeeper_errors import (
    BadVersion,
    LimitExceeded,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionClosed,
    ZooKeeperConnectionLost,
)
from tests.zookeeper.ensembles import Ensemble, MemoryEnsemble, RealEnsemble
from tests.zookeeper.flags import Notes


@pytest.fixture(params=["memory", "real"])
def ensemble(request: pytest.FixtureRequest) -> Iterator[Ensemble]:
    made: Ensemble
    if request.param == "memory":
        made = MemoryEnsemble()
    else:
        made = RealEnsemble(request.getfixturevalue("zookeeper_server"))
    yield made
    made.close()


@pytest.fixture
def session(ensemble: Ensemble) -> Iterator[ZooKeeperSession]:
    with ensemble.session() as connected:
        yield connected


@pytest.fixture
def other(ensemble: Ensemble) -> Iterator[ZooKeeperSession]:
    with ensemble.session() as connected:
        yield connected


def event(kind: WatchKind, path: str) -> list[WatchEvent]:
    return [WatchEvent(kind, path)]


def test_nothing_connects_before_it_is_asked_to(ensemble: Ensemble) -> None:
    session = ensemble.session()
    assert (session.state, session.session_id, session.session_timeout_ms) == (SessionState.LOST, 0, 0)
    with pytest.raises(SessionClosed, match="call connect"):
        session.get("/a")
    session.close()


def test_connect_gives_a_session_and_close_ends_it(ensemble: Ensemble) -> None:
    session, states = ensemble.session(), Notes[SessionState]()
    session.add_listener(states)
    session.add_listener(states)
    session.connect()
    session.connect()
    assert session.state is SessionState.CONNECTED
    assert session.session_id != 0
    assert session.session_timeout_ms > 0
    session.close()
    session.close()
    assert session.state is SessionState.LOST
    assert session.session_id == 0
    assert states.told == [SessionState.CONNECTED, SessionState.LOST]
    with pytest.raises(SessionClosed):
        session.children("/")


def test_a_removed_listener_hears_nothing(ensemble: Ensemble) -> None:
    session, states = ensemble.session(), Notes[SessionState]()
    session.add_listener(states)
    session.remove_listener(states)
    session.remove_listener(states)
    with session:
        assert states.told == []


def test_a_closed_session_can_connect_again_as_a_new_one(ensemble: Ensemble) -> None:
    session = ensemble.session()
    with session:
        first = session.session_id
        session.create("/mine", b"", CreateMode.EPHEMERAL)
    with session:
        assert session.session_id not in {0, first}
        assert session.exists("/mine") is None


def test_a_node_is_read_as_it_was_written(session: ZooKeeperSession) -> None:
    assert session.create("/a", b"\x00data\xff") == "/a"
    node = session.get("/a")
    assert node.data == b"\x00data\xff"
    assert (node.stat.version, node.stat.data_bytes, node.stat.children_count) == (0, 6, 0)
    assert node.stat.ephemeral_owner == 0
    assert node.stat.created_zxid == node.stat.modified_zxid > 0
    assert session.exists("/a") == node.stat


def test_empty_data_is_empty(session: ZooKeeperSession) -> None:
    session.create("/a")
    assert session.get("/a").data == b""


def test_a_node_is_made_once_and_below_a_parent(session: ZooKeeperSession) -> None:
    session.create("/a")
    with pytest.raises(NodeExists, match="/a: the node exists already") as raised:
        session.create("/a", b"again")
    assert raised.value.path == "/a"
    with pytest.raises(NoNode, match="/b/c: no such node"):
        session.create("/b/c")
    assert session.get("/a").data == b""


def test_parents_are_made_where_they_are_missing(session: ZooKeeperSession) -> None:
    assert session.create_with_parents("/a/b/c", b"1") == "/a/b/c"
    assert session.create_with_parents("/a/b/d", b"2", CreateMode.EPHEMERAL) == "/a/b/d"
    assert session.get("/a/b").data == b""
    assert session.children("/a/b") == ("c", "d")
    with pytest.raises(NodeExists):
        session.create_with_parents("/a/b/c")


def test_ensure_is_content_with_what_is_there(session: ZooKeeperSession) -> None:
    session.create("/a", b"kept")
    for _ in range(2):
        session.ensure("/a/b/c")
    session.ensure("/")
    assert session.get("/a").data == b"kept"
    assert session.get("/a/b/c").data == b""


def test_children_are_sorted_names(session: ZooKeeperSession) -> None:
    for name in ("b", "10", "a", "9"):
        session.create(f"/{name}")
    assert session.children("/") == ("10", "9", "a", "b")
    with pytest.raises(NoNode):
        session.children("/none")


def test_set_is_conditional_on_the_version(session: ZooKeeperSession) -> None:
    session.create("/a", b"0")
    stat = session.set("/a", b"11", 0)
    assert (stat.version, stat.data_bytes) == (1, 2)
    assert stat.modified_zxid > stat.created_zxid
    with pytest.raises(BadVersion, match="/a"):
        session.set("/a", b"2", 0)
    assert session.set("/a", b"3").version == 2
    assert session.get("/a").data == b"3"
    with pytest.raises(NoNode):
        session.set("/none", b"")


def test_delete_is_conditional_and_spares_parents(session: ZooKeeperSession) -> None:
    session.create_with_parents("/a/b")
    with pytest.raises(NotEmpty):
        session.delete("/a")
    with pytest.raises(BadVersion):
        session.delete("/a/b", 7)
    session.delete("/a/b", 0)
    session.delete("/a")
    assert session.exists("/a") is None
    with pytest.raises(NoNode):
        session.delete("/a")


def test_sequential_nodes_are_numbered_by_the_children_ever_made(session: ZooKeeperSession) -> None:
    sequential = CreateMode.PERSISTENT_SEQUENTIAL
    session.create("/a")
    assert session.create("/a/n_", b"", sequential) == "/a/n_0000000000"
    session.create("/a/plain")
    session.delete("/a/plain")
    assert session.create("/a/n_", b"", sequential) == "/a/n_0000000002"
    session.delete("/a/n_0000000002")
    made = session.create("/a/other_", b"", CreateMode.EPHEMERAL_SEQUENTIAL)
    assert made == "/a/other_0000000003"
    stat = session.exists("/a")
    assert stat is not None
    assert (stat.children_count, stat.children_version) == (2, 6)


def test_ephemerals_belong_to_their_session_and_have_no_children(
    session: ZooKeeperSession, other: ZooKeeperSession
) -> None:
    session.create("/a", b"", CreateMode.EPHEMERAL)
    stat = other.exists("/a")
    assert stat is not None
    assert stat.ephemeral_owner == session.session_id != other.session_id
    with pytest.raises(NoChildrenForEphemerals):
        other.create("/a/b")
    session.close()
    assert other.exists("/a") is None


def test_watches_fire_once_with_the_change(session: ZooKeeperSession, other: ZooKeeperSession) -> None:
    created, changed, deleted, children = (Notes[WatchEvent]() for _ in range(4))
    assert session.exists("/a", created) is None
    other.create("/a")
    assert created.await_count(1) == event(WatchKind.CREATED, "/a")
    session.get("/a", changed)
    session.children("/a", children)
    other.set("/a", b"1")
    assert changed.await_count(1) == event(WatchKind.CHANGED, "/a")
    other.create("/a/b")
    assert children.await_count(1) == event(WatchKind.CHILDREN, "/a")
    other.delete("/a/b")
    session.exists("/a", deleted)
    other.delete("/a")
    assert deleted.await_count(1) == event(WatchKind.DELETED, "/a")
    assert [len(notes.told) for notes in (created, changed, children)] == [1, 1, 1]


def test_a_watch_on_children_tells_the_end_of_their_parent(
    session: ZooKeeperSession, other: ZooKeeperSession
) -> None:
    session.create("/a")
    children = Notes[WatchEvent]()
    session.children("/a", children)
    other.delete("/a")
    assert children.await_count(1) == event(WatchKind.DELETED, "/a")


def test_reading_a_missing_node_leaves_no_watch(session: ZooKeeperSession) -> None:
    missing, sentinel = Notes[WatchEvent](), Notes[WatchEvent]()
    with pytest.raises(NoNode):
        session.get("/a", missing)
    with pytest.raises(NoNode):
        session.children("/a", missing)
    session.exists("/b", sentinel)
    session.create("/a")
    session.set("/a", b"1")
    session.create("/b")
    sentinel.await_count(1)
    assert missing.told == []


def test_one_function_as_two_watches_fires_twice(session: ZooKeeperSession) -> None:
    session.create("/a")
    notes = Notes[WatchEvent]()
    session.get("/a", notes)
    session.exists("/a", notes)
    session.set("/a", b"1")
    assert notes.await_count(2) == event(WatchKind.CHANGED, "/a") * 2


def test_the_event_comes_before_the_data_is_seen(session: ZooKeeperSession, other: ZooKeeperSession) -> None:
    """Own reads wait for nothing here: the watch is armed before the read, so no change can be missed."""
    session.create("/a", b"0")
    notes = Notes[WatchEvent]()
    session.get("/a", notes)
    other.set("/a", b"1")
    notes.await_count(1)
    assert session.get("/a").data == b"1"


def test_a_closed_session_fires_no_watch(ensemble: Ensemble, other: ZooKeeperSession) -> None:
    notes = Notes[WatchEvent]()
    with ensemble.session() as session:
        session.exists("/a", notes)
    other.create("/a")
    assert notes.told == []


def test_a_transaction_is_done_whole(session: ZooKeeperSession) -> None:
    session.create("/a", b"0")
    session.create("/gone")
    paths = session.commit(
        [
            CheckOperation("/a", 0),
            CreateOperation("/b", b"new", CreateMode.EPHEMERAL),
            SetOperation("/a", b"1", 0),
            CreateOperation("/a/n_", b"", CreateMode.PERSISTENT_SEQUENTIAL),
            DeleteOperation("/gone"),
        ]
    )
    assert paths == ("/a", "/b", "/a", "/a/n_0000000000", "/gone")
    assert session.get("/a").data == b"1"
    assert session.get("/b").stat.ephemeral_owner == session.session_id
    assert session.children("/") == ("a", "b")
    zxids = {session.get("/a").stat.modified_zxid, session.get("/b").stat.created_zxid}
    assert len(zxids) == 1
    assert session.commit([]) == ()


@pytest.mark.parametrize(
    ("failing", "error"),
    [
        (CreateOperation("/a"), NodeExists),
        (CreateOperation("/none/b"), NoNode),
        (SetOperation("/a", b"x", 5), BadVersion),
        (DeleteOperation("/none"), NoNode),
        (CheckOperation("/a", 3), BadVersion),
    ],
    ids=str,
)
def test_a_transaction_is_not_done_at_all(
    session: ZooKeeperSession, failing: CreateOperation, error: type[Exception]
) -> None:
    session.create("/a", b"0")
    session.create("/a/b")
    before = session.exists("/a"), session.exists("/a/b")
    changed = Notes[WatchEvent]()
    session.get("/a", changed)
    operations: list[Any] = [
        SetOperation("/a", b"1"),
        DeleteOperation("/a/b"),
        CreateOperation("/a/c"),
        failing,
        CreateOperation("/d"),
    ]
    with pytest.raises(error, match=failing.path):
        session.commit(operations)
    assert (session.exists("/a"), session.exists("/a/b")) == before
    assert session.children("/a") == ("b",)
    assert session.exists("/d") is None
    assert changed.told == []
    session.create("/a/n_", b"", CreateMode.PERSISTENT_SEQUENTIAL)
    assert session.children("/a") == ("b", "n_0000000001")


def test_limits_are_refused_before_anything_is_sent(ensemble: Ensemble, other: ZooKeeperSession) -> None:
    limits = SessionLimits(data_bytes_max=10, children_max=2, operations_max=3)
    other.create_with_parents("/big", b"x" * 11)
    other.create("/many")
    for name in "abc":
        other.create(f"/many/{name}")
    with ensemble.session(limits) as session:
        session.create("/a", b"x" * 10)
        for refused in (
            lambda: session.create("/b", b"x" * 11),
            lambda: session.set("/a", b"x" * 11),
            lambda: session.get("/big"),
            lambda: session.children("/many"),
            lambda: session.commit([CheckOperation("/a", 0)] * 4),
            lambda: session.commit([SetOperation("/a", b"12345"), SetOperation("/a", b"12345")]),
        ):
            with pytest.raises(LimitExceeded, match="limit of"):
                refused()
        assert session.get("/a").stat.version == 0
        assert session.exists("/b") is None


def test_the_largest_data_passes(session: ZooKeeperSession) -> None:
    data = bytes(1_000_000)
    session.create("/a", data)
    assert session.get("/a").data == data


@pytest.mark.parametrize("path", ["", "a", "/a/", "//a", "/a/../b", "/a/.", "/nul\0", "/half\ud800"])
def test_what_is_no_path_is_refused(session: ZooKeeperSession, path: str) -> None:
    for refused in (
        session.create,
        session.get,
        session.exists,
        session.children,
        session.delete,
        session.ensure,
        session.create_with_parents,
    ):
        with pytest.raises(ConfigError):
            refused(path)
    with pytest.raises(ConfigError):
        session.set(path, b"")
    with pytest.raises(ConfigError):
        session.commit([DeleteOperation(path)])


def test_the_root_stays(session: ZooKeeperSession) -> None:
    for refused in (session.create, session.delete):
        with pytest.raises(ConfigError, match="root"):
            refused("/")
    assert session.exists("/") is not None


def test_a_cut_suspends_and_the_same_session_comes_back(ensemble: Ensemble) -> None:
    states, armed = Notes[SessionState](), [Notes[WatchEvent]() for _ in range(3)]
    with ensemble.session() as session:
        session.create("/mine", b"1", CreateMode.EPHEMERAL)
        session.add_listener(states)
        session.get("/mine", armed[0])
        session.exists("/none", armed[1])
        session.children("/", armed[2])
        session_id = session.session_id
        ensemble.cut(session)
        assert session.state is SessionState.SUSPENDED
        assert session.session_id == session_id
        with pytest.raises(ZooKeeperConnectionLost, match="nothing was sent"):
            session.set("/mine", b"2")
        for notes, path in zip(armed, ("/mine", "/none", "/"), strict=True):
            assert notes.await_count(1) == event(WatchKind.INTERRUPTED, path)
        ensemble.mend(session)
        assert states.told == [SessionState.SUSPENDED, SessionState.CONNECTED]
        assert session.session_id == session_id
        node = session.get("/mine")
        assert (node.data, node.stat.ephemeral_owner) == (b"1", session_id)
        session.set("/mine", b"3")
        assert [len(notes.told) for notes in armed] == [1, 1, 1]


def test_an_expired_session_loses_its_ephemerals_and_a_new_one_begins(
    ensemble: Ensemble, other: ZooKeeperSession
) -> None:
    states, gone, armed = Notes[SessionState](), Notes[WatchEvent](), Notes[WatchEvent]()
    with ensemble.session() as session:
        session.create("/mine", b"", CreateMode.EPHEMERAL)
        session.create("/kept")
        other.exists("/mine", gone)
        session.get("/kept", armed)
        session.add_listener(states)
        session_id = session.session_id
        ensemble.expire(session)
        assert gone.await_count(1) == event(WatchKind.DELETED, "/mine")
        assert armed.await_count(1) == event(WatchKind.INTERRUPTED, "/kept")
        assert states.told == [SessionState.SUSPENDED, SessionState.LOST, SessionState.CONNECTED]
        assert session.session_id not in {0, session_id}
        assert session.children("/") == ("kept",)
        session.create("/mine", b"", CreateMode.EPHEMERAL)
        found = other.exists("/mine")
        assert found is not None
        assert found.ephemeral_owner == session.session_id
