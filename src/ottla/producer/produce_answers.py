"""What a Produce response says about each batch, and which brokers lead instead."""

from __future__ import annotations

from ottla.model.cluster_view import BrokerNode, LeaderHint
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, RemoteProtocolError
from ottla.producer.batches import ProducerBatch
from ottla.producer.dispatcher import AcceptedBatch, BatchAnswer
from ottla.wire.api.produce import ProducePartitionResponse, ProduceResponse


def batch_answers(
    broker_id: int, batches: list[ProducerBatch], response: ProduceResponse
) -> list[BatchAnswer]:
    """Return the answer for each batch of the request."""
    responses = {
        (topic.name, partition.index): partition
        for topic in response.responses
        for partition in topic.partition_responses
    }
    return [
        BatchAnswer(batch, _result(broker_id, batch, responses.get((batch.topic, batch.partition))))
        for batch in batches
    ]


def _result(
    broker_id: int, batch: ProducerBatch, response: ProducePartitionResponse | None
) -> AcceptedBatch | KafkaError | RemoteProtocolError:
    if response is None:
        return RemoteProtocolError(f"broker {broker_id} says nothing of {batch}")
    if response.error_code in {Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER}:
        return AcceptedBatch(response.base_offset, response.log_append_time_ms)
    context = f"{batch}, broker {broker_id}"
    if response.error_message:
        context = f"{context} ({response.error_message})"
    reasons = {
        fault.batch_index: fault.batch_index_error_message or response.error_message or ""
        for fault in response.record_errors
    }
    return KafkaError(response.error_code, context, reasons)


def leader_hints(response: ProduceResponse) -> tuple[list[LeaderHint], list[BrokerNode]]:
    """Return the leaders that newer brokers name in an error (KIP-951), so that they need not be
    looked up.
    """
    hints = [
        LeaderHint(topic.name, partition.index, leader.leader_id, leader.leader_epoch)
        for topic in response.responses
        for partition in topic.partition_responses
        if (leader := partition.current_leader).leader_id >= 0
    ]
    nodes = [BrokerNode(node.node_id, node.host, node.port, node.rack) for node in response.node_endpoints]
    return hints, nodes
