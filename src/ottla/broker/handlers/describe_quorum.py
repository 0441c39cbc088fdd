"""DescribeQuorum, key 55: which brokers keep the metadata of the cluster.

Versions: 0 to 2. 1 adds times, 2 where the voters listen.
Behaviour: the brokers of one process share a catalog on disk, and there is no quorum. The answer is that of
a Kafka with one controller, which is what clients take the first broker for: it leads and votes, the others
watch. The catalog has no offsets; the answer has the number of topics instead.
"""

from __future__ import annotations

from ottla.broker.serving.handler import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.wire.api.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    QuorumListener,
    QuorumNode,
    QuorumPartition,
    QuorumReplica,
    QuorumTopic,
)

METADATA_TOPIC = "__cluster_metadata"
NODES_SINCE = 2


def handle(inquiry: Inquiry, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Describe the first broker as the only controller."""
    topics = [
        QuorumTopic(
            topic_name=topic.topic_name,
            partitions=[
                _partition(inquiry)
                if (topic.topic_name, part.partition_index) == (METADATA_TOPIC, 0)
                else QuorumPartition(
                    partition_index=part.partition_index,
                    error_code=Code.UNKNOWN_TOPIC_OR_PARTITION,
                    error_message=f"only partition 0 of {METADATA_TOPIC} has a quorum",
                )
                for part in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    nodes = [_node(inquiry)] if inquiry.version >= NODES_SINCE else []
    return DescribeQuorumResponse(error_message=None, topics=topics, nodes=nodes)


def _partition(inquiry: Inquiry) -> QuorumPartition:
    broker, now_ms = inquiry.broker, inquiry.broker.runtime.now_ms()
    end = len(broker.store.catalog.topics)
    leader = broker.leaders.controller_id
    replicas = {
        broker_id: QuorumReplica(
            replica_id=broker_id,
            log_end_offset=end,
            last_fetch_timestamp=now_ms,
            last_caught_up_timestamp=now_ms,
        )
        for broker_id in broker.leaders.brokers
    }
    return QuorumPartition(
        error_message=None,
        leader_id=leader,
        leader_epoch=1,
        high_watermark=end,
        current_voters=[replicas[leader]],
        observers=[replica for broker_id, replica in replicas.items() if broker_id != leader],
    )


def _node(inquiry: Inquiry) -> QuorumNode:
    leaders = inquiry.broker.leaders
    address = leaders.brokers[leaders.controller_id]
    listener = QuorumListener(name="CONTROLLER", host=address.host, port=address.port)
    return QuorumNode(node_id=leaders.controller_id, listeners=[listener])


def refuse(_request: DescribeQuorumRequest, error: Code, _version: int) -> DescribeQuorumResponse:
    """One error for the whole request."""
    return DescribeQuorumResponse(error_code=error, error_message=error.text)


HANDLER = Handler(handle, refuse)
