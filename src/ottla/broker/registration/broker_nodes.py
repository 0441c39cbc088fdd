"""The nodes of the cluster itself: roots, cluster id, brokers, controller and its epoch.

    /brokers/ids/0       ephemeral, version 2
    /controller          ephemeral, version 1; deleting it causes another election, as in Kafka
    /controller_epoch    one higher with each election

A registration has version 2: 0.9.0.0 reads nothing newer (KAFKA-3100), 0.8 looks only for the host and port
that are in all of them, and 0.9.0.1 to 3.9 read every version by its fields. Later versions add a rack, names
of listeners and features, and this broker has none of these. One session holds the nodes of all brokers here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ottla.broker.registration.reads import WatchedReads
from ottla.broker.registration.view import RegisteredBrokers
from ottla.broker.storage.partition import NO_LEADER
from ottla.zookeeper import paths, recipes
from ottla.zookeeper.broker_znodes import (
    BrokerRegistration,
    Controller,
    Endpoint,
    decode_broker,
    decode_cluster_id,
    decode_controller,
    decode_controller_epoch,
    encode_broker,
    encode_cluster_id,
    encode_controller,
    encode_controller_epoch,
)
from ottla.zookeeper.session import ZooKeeperSession
from ottla.zookeeper.zookeeper_errors import NodeExists, ZnodeError, ZooKeeperError

log = logging.getLogger(__name__)

Address = tuple[str, int]

FIRST_EPOCH = 1


class Conflict(ZooKeeperError):
    """A node that must be ours belongs to another session: another broker's, or ours from before a crash."""


class BrokerNodes:
    """Used by one thread."""

    def __init__(self, session: ZooKeeperSession, reads: WatchedReads, now_ms: Callable[[], int]) -> None:
        self._session = session
        self._reads = reads
        self._now_ms = now_ms
        self._registered: dict[int, tuple[Address, bytes]] = {}
        self._controller: tuple[int, bytes] | None = None
        self._former_sessions: set[int] = set()
        self._session_id = 0
        self.controller_epoch = 0

    def begin_session(self) -> None:
        """Forget what is registered: there is a new session."""
        if self._session_id:
            self._former_sessions.add(self._session_id)
        self._session_id = self._session.session_id
        self._registered.clear()
        self._controller = None

    def make_roots(self) -> None:
        """Create the nodes that every broker expects."""
        for path in (*paths.PERSISTENT_ROOTS, *paths.LATER_PERSISTENT_ROOTS):
            self._session.ensure(path)

    def agree_on_cluster(self, cluster_id: str) -> str:
        """Return the cluster id in ZooKeeper; if it has none, store `cluster_id`."""
        try:
            self._session.create_with_parents(paths.CLUSTER_ID, encode_cluster_id(cluster_id))
        except NodeExists:
            return decode_cluster_id(paths.CLUSTER_ID, self._session.get(paths.CLUSTER_ID).data)
        return cluster_id

    def publish(self, view: RegisteredBrokers) -> None:
        """Register the brokers that are up and no others. Raises Conflict."""
        for broker_id in self._registered.keys() - view.addresses.keys():
            self._release(broker_id)
        for broker_id, address in view.addresses.items():
            if broker_id in self._registered and self._registered[broker_id][0] != address:
                self._release(broker_id)
            if broker_id not in self._registered:
                self._register(broker_id, address)
        self._elect(view.controller_id)

    def _register(self, broker_id: int, address: Address) -> None:
        endpoint = Endpoint(*address)
        data = encode_broker(BrokerRegistration((endpoint,), self._now_ms()))
        self._claim(paths.broker(broker_id), data)
        self._registered[broker_id] = (address, data)

    def _release(self, broker_id: int) -> None:
        recipes.release_ephemeral(self._session, paths.broker(broker_id), self._registered[broker_id][1])
        del self._registered[broker_id]

    def _elect(self, broker_id: int) -> None:
        held = self._controller
        stat = self._reads.exists(paths.CONTROLLER)
        if held is not None and (stat is None or stat.ephemeral_owner != self._session.session_id):
            held = self._controller = None  # it was deleted, or another session has it
        if held is not None and held[0] != broker_id:
            recipes.release_ephemeral(self._session, paths.CONTROLLER, held[1])
            held = self._controller = None
        if held is None and broker_id != NO_LEADER:
            data = encode_controller(Controller(broker_id, self._now_ms()))
            self._claim(paths.CONTROLLER, data)
            self._next_epoch()
            self._controller = (broker_id, data)
            # The watch on the old node has fired; watch the new node.
            self._reads.exists(paths.CONTROLLER)

    def _next_epoch(self) -> None:
        znode = recipes.read_if_present(self._session, paths.CONTROLLER_EPOCH)
        if znode is None:
            self._session.create(paths.CONTROLLER_EPOCH, encode_controller_epoch(FIRST_EPOCH))
            self.controller_epoch = FIRST_EPOCH
            return
        epoch = decode_controller_epoch(paths.CONTROLLER_EPOCH, znode.data) + 1
        self._session.set(paths.CONTROLLER_EPOCH, encode_controller_epoch(epoch), znode.stat.version)
        self.controller_epoch = epoch

    def _claim(self, path: str, data: bytes) -> None:
        try:
            recipes.claim_ephemeral(self._session, path, data)
            return
        except NodeExists:
            # Watched: the claim is tried again as soon as the node goes.
            stat = self._reads.exists(path)
        owner = stat.ephemeral_owner if stat is not None else 0
        if owner not in {self._session.session_id, *self._former_sessions}:
            raise Conflict(self._conflict(path))
        # A session that we have lost may live on at the servers for a while, and its nodes with it.
        recipes.delete_if_present(self._session, path)
        recipes.claim_ephemeral(self._session, path, data)

    def _conflict(self, path: str) -> str:
        znode = recipes.read_if_present(self._session, path)
        owner = f"session {znode.stat.ephemeral_owner:#x}" if znode else "a session that has just gone"
        if znode is not None:
            owner = f"{_description(path, znode.data)} ({owner})"
        return (
            f"{path} in ZooKeeper belongs to {owner}. Brokers of other processes cannot share a cluster with "
            "this one: stop that one, or give this one a chroot (zookeeper.connect=host:2181/name)"
        )


def _description(path: str, data: bytes) -> str:
    try:
        if path == paths.CONTROLLER:
            return f"broker {decode_controller(path, data).broker_id}"
        return "a broker at " + ", ".join(map(str, decode_broker(path, data).endpoints))
    except ZnodeError:
        return "a broker that cannot be read"
