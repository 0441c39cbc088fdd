"""The cluster as ZooKeeper has it: reads /brokers into a ClusterView, as Metadata responses give it.

For classic consumers and tools with brokers before 4.0, whose settings have zookeeper.connect and no broker.
Znodes are read one after the other, so the view is not of one moment: a znode that vanishes meanwhile counts
as missing. A znode that cannot be decoded is logged and left out.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Iterable
from types import MappingProxyType

from ottla.model.address import Address
from ottla.model.cluster_view import (
    NO_CONTROLLER,
    NO_LEADER,
    NO_TOPIC_ID,
    BrokerNode,
    ClusterView,
    PartitionView,
    TopicView,
)
from ottla.model.error_codes import Code
from ottla.model.errors import BrokerUnreachable
from ottla.model.topic_partition import INTERNAL_TOPICS
from ottla.security.security_protocol import SecurityProtocol
from ottla.zookeeper import paths
from ottla.zookeeper.broker_znodes import decode_broker, decode_cluster_id, decode_controller
from ottla.zookeeper.recipes import broker_ids, read_if_present, topic_names
from ottla.zookeeper.session import ZooKeeperSession
from ottla.zookeeper.topic_znodes import TopicAssignment, decode_assignment, decode_partition_state
from ottla.zookeeper.zookeeper_errors import ZnodeError

log = logging.getLogger(__name__)


class ZooKeeperMetadata:
    """Reads through a session that it does not own. Raises ZooKeeperError.

    `protocol` chooses among the endpoints of a broker.
    """

    def __init__(
        self, session: ZooKeeperSession, *, protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    ) -> None:
        self._session = session
        self._protocol = protocol

    def bootstrap(self) -> tuple[Address, ...]:
        """The addresses of the brokers, as for bootstrap.servers. Raises BrokerUnreachable if none runs."""
        addresses = tuple(node.address for node in self.brokers().values())
        if not addresses:
            raise BrokerUnreachable(
                f"ZooKeeper has no broker with a {self._protocol} endpoint: none runs, or the chroot of "
                "zookeeper.connect is not the brokers'"
            )
        return addresses

    def brokers(self) -> dict[int, BrokerNode]:
        """The registered brokers by id."""
        nodes = ((broker_id, self._broker(broker_id)) for broker_id in broker_ids(self._session))
        return {broker_id: node for broker_id, node in nodes if node is not None}

    def view(self, topics: Iterable[str] | None = None, *, now_ms: float = 0.0) -> ClusterView:
        """Brokers, controller, and these topics or all. A missing topic has error 3."""
        is_whole = topics is None
        names = topic_names(self._session) if topics is None else topics
        brokers = self.brokers()
        return ClusterView(
            brokers=MappingProxyType(brokers),
            topics=MappingProxyType({name: self.topic(name) for name in names}),
            controller_id=self._controller(),
            cluster_id=self._cluster_id(),
            fetched_at_ms=now_ms,
            is_whole=is_whole,
        )

    def topic(self, name: str) -> TopicView:
        """Return one topic; with error 3 if it is missing, -1 if its znode cannot be decoded."""
        path = paths.topic(name)
        znode = read_if_present(self._session, path)
        if znode is None:
            return TopicView(name, error=Code.UNKNOWN_TOPIC_OR_PARTITION)
        try:
            assignment = decode_assignment(path, znode.data)
        except ZnodeError as error:
            log.warning("topic left out: %s", error)
            return TopicView(name, error=Code.UNKNOWN_SERVER_ERROR)
        return TopicView(
            name,
            _topic_id(assignment),
            tuple(
                self._partition(name, index, replicas)
                for index, replicas in sorted(assignment.partitions.items())
            ),
            is_internal=name in INTERNAL_TOPICS,
        )

    def _partition(self, topic: str, index: int, replicas: tuple[int, ...]) -> PartitionView:
        path = paths.partition_state(topic, index)
        znode = read_if_present(self._session, path)
        if znode is not None:
            try:
                state = decode_partition_state(path, znode.data)
            except ZnodeError as error:
                log.warning("partition left without a leader: %s", error)
            else:
                has_leader = state.leader >= 0
                return PartitionView(
                    index,
                    state.leader if has_leader else NO_LEADER,
                    state.leader_epoch,
                    replicas,
                    state.isr,
                    Code.NONE if has_leader else Code.LEADER_NOT_AVAILABLE,
                )
        return PartitionView(index, NO_LEADER, replicas=replicas, error=Code.LEADER_NOT_AVAILABLE)

    def _broker(self, broker_id: int) -> BrokerNode | None:
        path = paths.broker(broker_id)
        znode = read_if_present(self._session, path)
        if znode is None:
            return None
        try:
            registration = decode_broker(path, znode.data)
        except ZnodeError as error:
            log.warning("broker left out: %s", error)
            return None
        for endpoint in registration.endpoints:
            if endpoint.protocol == self._protocol:
                return BrokerNode(broker_id, endpoint.host, endpoint.port, registration.rack)
        log.info("broker %d has no %s endpoint", broker_id, self._protocol)
        return None

    def _controller(self) -> int:
        znode = read_if_present(self._session, paths.CONTROLLER)
        try:
            return decode_controller(paths.CONTROLLER, znode.data).broker_id if znode else NO_CONTROLLER
        except ZnodeError as error:
            log.warning("no controller: %s", error)
            return NO_CONTROLLER

    def _cluster_id(self) -> str | None:
        znode = read_if_present(self._session, paths.CLUSTER_ID)
        try:
            return decode_cluster_id(paths.CLUSTER_ID, znode.data) if znode else None
        except ZnodeError as error:
            log.warning("no cluster id: %s", error)
            return None


def _topic_id(assignment: TopicAssignment) -> bytes:
    try:
        topic_id = base64.urlsafe_b64decode((assignment.topic_id or "") + "==")
    except binascii.Error:
        return NO_TOPIC_ID
    return topic_id if len(topic_id) == len(NO_TOPIC_ID) else NO_TOPIC_ID
