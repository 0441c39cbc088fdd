"""The cluster as ZooKeeper tells it: /brokers read into the ClusterView that Metadata answers give as well.

For classic consumers and tools on brokers before 4.0, whose settings have zookeeper.connect and no broker.
Reads are one by one and not of one moment; a znode that vanishes between two of them counts as not there, and
one that cannot be read is logged and left out.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Iterable
from types import MappingProxyType

from ottla.client.config import SecurityProtocol
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
from ottla.zookeeper import paths
from ottla.zookeeper.broker_znodes import decode_broker, decode_cluster_id, decode_controller
from ottla.zookeeper.errors import ZnodeError
from ottla.zookeeper.recipes import broker_ids, read_if_present, topic_names
from ottla.zookeeper.session import ZooKeeperSession
from ottla.zookeeper.topic_znodes import TopicAssignment, decode_assignment, decode_partition_state

log = logging.getLogger(__name__)


class ZooKeeperMetadata:
    """Reads through a session that it does not own. Raises what the session raises (ZooKeeperError).

    `protocol` chooses among the endpoints of a broker.
    """

    def __init__(
        self, session: ZooKeeperSession, *, protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    ) -> None:
        self._session = session
        self._protocol = protocol

    def bootstrap(self) -> tuple[Address, ...]:
        """Where the brokers listen: what bootstrap.servers would say. Raises BrokerUnreachable if nowhere."""
        addresses = tuple(node.address for node in self.brokers().values())
        if not addresses:
            raise BrokerUnreachable(
                f"ZooKeeper knows of no broker with a {self._protocol} endpoint: none runs, or the chroot of "
                "zookeeper.connect is not the brokers'"
            )
        return addresses

    def brokers(self) -> dict[int, BrokerNode]:
        """The registered brokers by id."""
        found = ((number, self._broker(number)) for number in broker_ids(self._session))
        return {number: node for number, node in found if node is not None}

    def view(self, topics: Iterable[str] | None = None, *, now_ms: float = 0.0) -> ClusterView:
        """Brokers, controller, and these topics or all. A topic that is not there carries error 3."""
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
        """One topic; error 3 if there is none, -1 if its znode cannot be read."""
        path = paths.topic(name)
        found = read_if_present(self._session, path)
        if found is None:
            return TopicView(name, error=Code.UNKNOWN_TOPIC_OR_PARTITION)
        try:
            assignment = decode_assignment(path, found.data)
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
        found = read_if_present(self._session, path)
        if found is not None:
            try:
                state = decode_partition_state(path, found.data)
            except ZnodeError as error:
                log.warning("partition left without a leader: %s", error)
            else:
                leads = state.leader >= 0
                return PartitionView(
                    index,
                    state.leader if leads else NO_LEADER,
                    state.leader_epoch,
                    replicas,
                    state.isr,
                    Code.NONE if leads else Code.LEADER_NOT_AVAILABLE,
                )
        return PartitionView(index, NO_LEADER, replicas=replicas, error=Code.LEADER_NOT_AVAILABLE)

    def _broker(self, broker_id: int) -> BrokerNode | None:
        path = paths.broker(broker_id)
        found = read_if_present(self._session, path)
        if found is None:
            return None
        try:
            registration = decode_broker(path, found.data)
        except ZnodeError as error:
            log.warning("broker left out: %s", error)
            return None
        for endpoint in registration.endpoints:
            if endpoint.protocol == self._protocol:
                return BrokerNode(broker_id, endpoint.host, endpoint.port, registration.rack)
        log.info("broker %d has no %s endpoint", broker_id, self._protocol)
        return None

    def _controller(self) -> int:
        found = read_if_present(self._session, paths.CONTROLLER)
        try:
            return decode_controller(paths.CONTROLLER, found.data).broker_id if found else NO_CONTROLLER
        except ZnodeError as error:
            log.warning("no controller: %s", error)
            return NO_CONTROLLER

    def _cluster_id(self) -> str | None:
        found = read_if_present(self._session, paths.CLUSTER_ID)
        try:
            return decode_cluster_id(paths.CLUSTER_ID, found.data) if found else None
        except ZnodeError as error:
            log.warning("no cluster id: %s", error)
            return None


def _topic_id(assignment: TopicAssignment) -> bytes:
    try:
        found = base64.urlsafe_b64decode((assignment.topic_id or "") + "==")
    except binascii.Error:
        return NO_TOPIC_ID
    return found if len(found) == len(NO_TOPIC_ID) else NO_TOPIC_ID
