"""What the tree in memory adds to the contract: faults on demand, and the same run every time."""

from __future__ import annotations

import random

import pytest

from ottla.zookeeper.memory_session import MemorySession, MemoryZooKeeper, WatchDelivery
from ottla.zookeeper.session import CreateMode, SessionState, WatchEvent, WatchKind
from ottla.zookeeper.zookeeper_errors import NoNode, SessionLost, ZooKeeperConnectionLost, ZooKeeperError


def connected(ensemble: MemoryZooKeeper) -> MemorySession:
    session = ensemble.session()
    session.connect()
    return session


def test_a_lost_answer_hides_a_change_that_was_made() -> None:
    ensemble = MemoryZooKeeper()
    session = connected(ensemble)
    session.lose_next_answer()
    with pytest.raises(ZooKeeperConnectionLost, match="before the answer"):
        session.create("/a", b"", CreateMode.EPHEMERAL)
    assert session.state is SessionState.SUSPENDED
    assert ensemble.tree.ephemerals(session.session_id) == ("/a",)
    session.resume()
    assert session.exists("/a") is not None


def test_a_lost_answer_hides_an_error_too() -> None:
    session = connected(MemoryZooKeeper())
    session.lose_next_answer()
    with pytest.raises(ZooKeeperConnectionLost):
        session.get("/none")
    session.resume()
    with pytest.raises(NoNode):
        session.get("/none")


def test_expiry_is_learnt_step_by_step() -> None:
    ensemble = MemoryZooKeeper()
    session = connected(ensemble)
    session.create("/a", b"", CreateMode.EPHEMERAL)
    session.suspend()
    assert "/a" in ensemble.tree.paths()
    first = session.session_id
    session.expire()
    assert "/a" not in ensemble.tree.paths()
    assert (session.state, session.session_id) == (SessionState.SUSPENDED, first)
    session.resume()
    assert (session.state, session.session_id) == (SessionState.LOST, 0)
    with pytest.raises(SessionLost):
        session.exists("/a")
    session.resume()
    assert session.state is SessionState.CONNECTED
    assert session.session_id > first
    session.resume()


def test_a_suspended_client_that_closes_leaves_its_session_to_the_servers() -> None:
    ensemble = MemoryZooKeeper()
    session = connected(ensemble)
    session.create("/a", b"", CreateMode.EPHEMERAL)
    left = session.session_id
    session.suspend()
    session.close()
    assert "/a" in ensemble.tree.paths()
    assert ensemble.is_alive(left)
    ensemble.end(left)
    ensemble.end(left)
    assert ensemble.tree.paths() == ("/",)


def test_events_wait_for_delivery_or_for_the_next_operation() -> None:
    ensemble = MemoryZooKeeper(WatchDelivery.ON_DEMAND)
    watcher, writer = connected(ensemble), connected(ensemble)
    told: list[WatchEvent] = []
    watcher.exists("/a", told.append)
    writer.create("/a")
    assert (told, watcher.undelivered_count) == ([], 1)
    watcher.deliver()
    assert told == [WatchEvent(WatchKind.CREATED, "/a")]
    watcher.exists("/a", told.append)
    writer.set("/a", b"1")
    assert len(told) == 1
    assert watcher.get("/a").data == b"1"
    assert told[1:] == [WatchEvent(WatchKind.CHANGED, "/a")]


def test_ephemerals_of_a_dead_session_go_in_one_change() -> None:
    ensemble = MemoryZooKeeper()
    dying, watcher = connected(ensemble), connected(ensemble)
    for name in ("/b", "/a", "/c"):
        dying.create(name, b"", CreateMode.EPHEMERAL)
    told: list[WatchEvent] = []
    watcher.children("/", told.append)
    for name in ("/a", "/b", "/c"):
        watcher.exists(name, told.append)
    dying.expire()
    assert watcher.children("/") == ()
    assert told.count(WatchEvent(WatchKind.CHILDREN, "/")) == 1
    assert len(told) == 4


def run(seed: int) -> list[object]:
    """Random operations and faults; everything that could be seen of them."""
    choose = random.Random(seed)
    ensemble = MemoryZooKeeper(choose.choice(list(WatchDelivery)))
    sessions = [connected(ensemble) for _ in range(3)]
    seen: list[object] = []
    for _ in range(150):
        session, path = choose.choice(sessions), choose.choice(["/a", "/b", "/a/c"])
        action = choose.choice(
            [
                lambda s, p: s.create(p, b"1", choose.choice(list(CreateMode))),
                lambda s, p: s.get(p, seen.append),
                lambda s, p: s.children(p, seen.append),
                lambda s, p: s.set(p, b"2"),
                lambda s, p: s.delete(p),
                lambda s, _: s.suspend(),
                lambda s, _: s.resume(),
                lambda s, _: s.expire(),
                lambda s, _: s.lose_next_answer(),
                lambda s, _: s.deliver(),
            ]
        )
        try:
            seen.append(action(session, path))
        except ZooKeeperError as error:
            seen.append(repr(error))
        live = {s.session_id for s in sessions if ensemble.is_alive(s.session_id)}
        owners = {stat.ephemeral_owner for p in ensemble.tree.paths() if (stat := ensemble.tree.stat(p))}
        assert owners - {0} <= live
    return [*seen, ensemble.tree.paths()]


@pytest.mark.parametrize("seed", range(50))
def test_the_same_seed_gives_the_same_run(seed: int) -> None:
    assert run(seed) == run(seed)
