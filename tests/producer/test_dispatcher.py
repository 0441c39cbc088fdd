"""Whom the dispatcher wakes: a thread that it forgets sleeps until the records have expired."""

from __future__ import annotations

from ottla.client.clock import MONOTONIC
from ottla.client.network_errors import NetworkErrors
from ottla.model.cluster_view import BrokerNode, ClusterView, PartitionView, TopicView
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.producer.batches import ProducerBatch
from ottla.producer.dispatcher import AcceptedBatch, BatchAnswer, Dispatcher
from ottla.producer.producer_config import ProducerConfig
from ottla.producer.producer_state import ProducerParts
from ottla.producer.sequences import EPOCH_MAX, Identity
from tests.producer.simulated_cluster import TOPIC, part

CONFIG = ProducerConfig.from_properties({"bootstrap.servers": "127.0.0.1:1", "linger.ms": 0})
LATER_MS = 1e12


class IdleSender:
    """A sender that notes that it was woken."""

    def __init__(self) -> None:
        self.is_woken = False

    def start(self) -> None:
        """Nothing runs."""

    def wake(self) -> None:
        self.is_woken = True

    def stop(self) -> None:
        """Nothing runs."""


class Dispatching:
    """A dispatcher whose senders do nothing, and the partitions 0 and 1 of a topic."""

    def __init__(self, epoch: int = 0) -> None:
        self.state = ProducerParts.new(CONFIG, MONOTONIC, NetworkErrors(MONOTONIC.now_ms))
        self.senders: dict[int, IdleSender] = {}
        self.dispatcher = Dispatcher(self.state, self._sender)
        self.dispatcher.identified(Identity(9, epoch))
        self.led_by(1)

    def _sender(self, broker_id: int, _: Dispatcher) -> IdleSender:
        return self.senders.setdefault(broker_id, IdleSender())

    def led_by(self, leader: int) -> None:
        """One broker leads both partitions."""
        nodes = {number: BrokerNode(number, "127.0.0.1", number) for number in (1, 2)}
        topic = TopicView(TOPIC, partitions=(PartitionView(0, leader), PartitionView(1, leader)))
        self.dispatcher.leaders_changed(ClusterView(nodes, {TOPIC: topic}))

    def send(self, *partitions: int) -> None:
        assert self.dispatcher.submit(TOPIC, [(number, [part([number], 0.0)]) for number in partitions])

    def take(self, broker_id: int = 1) -> list[ProducerBatch]:
        return self.dispatcher.next_batches(broker_id, LATER_MS)

    def answer(self, broker_id: int, batch: ProducerBatch, result: AcceptedBatch | KafkaError) -> None:
        self.dispatcher.answered(broker_id, [BatchAnswer(batch, result)], LATER_MS)


def test_a_new_leader_is_woken_when_the_old_one_has_answered() -> None:
    one = Dispatching()
    one.send(0)
    (batch,) = one.take()
    one.send(0)
    one.led_by(2)
    assert one.take(2) == [], "the first batch is in flight to the old leader"
    one.senders[2].is_woken = False
    one.answer(1, batch, AcceptedBatch(0))
    assert one.senders[2].is_woken
    assert len(one.take(2)) == 1


def test_another_id_is_asked_for_even_if_other_partitions_can_be_sent() -> None:
    one = Dispatching(epoch=EPOCH_MAX)
    one.send(0)
    (batch,) = one.take()
    one.answer(1, batch, KafkaError(Code.INVALID_RECORD))
    one.send(0, 1)
    one.state.metadata_wanted.clear()
    assert [batch.partition for batch in one.take()] == [1]
    assert one.dispatcher.questions().wants_identity
    assert one.state.metadata_wanted.is_set()
