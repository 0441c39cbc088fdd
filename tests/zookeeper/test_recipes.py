"""Compositions over the port, with another client or our own lost answer in the way."""

from __future__ import annotations

import pytest

from ottla.zookeeper import recipes
from ottla.zookeeper.memory_session import MemorySession, MemoryZooKeeper
from ottla.zookeeper.session import CreateMode, SessionLimits
from ottla.zookeeper.zookeeper_errors import NodeExists, SessionLost, ZooKeeperConnectionLost

OWNER = "/consumers/g/owners/t/0"


@pytest.fixture
def ensemble() -> MemoryZooKeeper:
    return MemoryZooKeeper()


def connected(ensemble: MemoryZooKeeper) -> MemorySession:
    session = ensemble.session()
    session.connect()
    return session


def test_claim_makes_the_node_and_may_be_repeated(ensemble: MemoryZooKeeper) -> None:
    session = connected(ensemble)
    for _ in range(2):
        recipes.claim_ephemeral(session, OWNER, b"g_a-0")
    assert session.get(OWNER).stat.ephemeral_owner == session.session_id


def test_claim_survives_a_lost_answer(ensemble: MemoryZooKeeper) -> None:
    session = connected(ensemble)
    session.ensure("/consumers/g/owners/t")
    session.lose_next_answer()
    with pytest.raises(ZooKeeperConnectionLost):
        recipes.claim_ephemeral(session, OWNER, b"g_a-0")
    session.resume()
    recipes.claim_ephemeral(session, OWNER, b"g_a-0")
    assert session.get(OWNER).data == b"g_a-0"


def test_claim_refuses_what_another_session_holds_even_with_the_same_data(ensemble: MemoryZooKeeper) -> None:
    first, second = connected(ensemble), connected(ensemble)
    recipes.claim_ephemeral(first, OWNER, b"g_a-0")
    for data in (b"g_a-0", b"g_b-0"):
        with pytest.raises(NodeExists):
            recipes.claim_ephemeral(second, OWNER, data)
    with pytest.raises(NodeExists):
        recipes.claim_ephemeral(first, OWNER, b"g_a-1")


def test_claim_refuses_a_leftover_of_our_former_session(ensemble: MemoryZooKeeper) -> None:
    session = connected(ensemble)
    recipes.claim_ephemeral(session, OWNER, b"g_a-0")
    session.suspend()
    session.close()
    session.connect()
    with pytest.raises(NodeExists):
        recipes.claim_ephemeral(session, OWNER, b"g_a-0")


class RenewedOnCreate(MemorySession):
    """Its session expires just before the node is made, and the new one makes it."""

    def create(self, path: str, data: bytes = b"", mode: CreateMode = CreateMode.PERSISTENT) -> str:
        self.expire()
        self.resume()
        self.resume()
        return super().create(path, data, mode)


def test_claim_takes_back_what_another_session_of_ours_made(ensemble: MemoryZooKeeper) -> None:
    connected(ensemble).ensure("/consumers/g/owners/t")
    session = RenewedOnCreate(ensemble, 6000, SessionLimits())
    session.connect()
    with pytest.raises(SessionLost, match="changed during the claim"):
        recipes.claim_ephemeral(session, OWNER, b"g_a-0")
    assert session.exists(OWNER) is None


def test_release_deletes_only_our_own(ensemble: MemoryZooKeeper) -> None:
    first, second = connected(ensemble), connected(ensemble)
    recipes.claim_ephemeral(first, OWNER, b"g_a-0")
    assert not recipes.release_ephemeral(second, OWNER, b"g_a-0")
    assert not recipes.release_ephemeral(first, OWNER, b"g_a-1")
    assert recipes.release_ephemeral(first, OWNER, b"g_a-0")
    assert not recipes.release_ephemeral(first, OWNER, b"g_a-0")


def test_write_makes_or_replaces(ensemble: MemoryZooKeeper) -> None:
    session = connected(ensemble)
    for data in (b"1", b"2"):
        recipes.write_persistent(session, "/consumers/g/offsets/t/0", data)
        assert session.get("/consumers/g/offsets/t/0").data == data


def test_missing_nodes_are_empty_or_none(ensemble: MemoryZooKeeper) -> None:
    session = connected(ensemble)
    assert recipes.read_if_present(session, "/a") is None
    assert recipes.children_if_present(session, "/a") == ()
    assert not recipes.delete_if_present(session, "/a")
    session.create("/a", b"1", CreateMode.EPHEMERAL)
    found = recipes.read_if_present(session, "/a")
    assert found is not None
    assert found.data == b"1"
    assert recipes.delete_if_present(session, "/a")


def test_delete_tree(ensemble: MemoryZooKeeper) -> None:
    session = connected(ensemble)
    for path in ("/a/b/c", "/a/b/d", "/a/e", "/ab"):
        session.create_with_parents(path)
    recipes.delete_tree(session, "/a")
    recipes.delete_tree(session, "/a")
    assert ensemble.tree.paths() == ("/", "/ab")
