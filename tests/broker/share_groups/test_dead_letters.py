"""Dead-letter queues of share groups: what is written, where, and when it is refused."""

from __future__ import annotations

import pytest

from ottla import EmbeddedBroker, PartitionConsumer
from tests.broker.real_clients import send
from tests.broker.share_groups.share_member import Member, batch, configure_group
from tests.waiting import PATIENCE_S

RELEASE, REJECT = 2, 3
ENABLED = {"errors.deadletterqueue.group.enable": "true"}
LIMIT = {"group.share.delivery.count.limit": "2"}


def prepare(broker: EmbeddedBroker, **settings: str) -> None:
    broker.create_topic("orders", 1)
    configure_group(broker.bootstrap, "share", errors_deadletterqueue_topic_name="dlq.orders", **settings)
    send(broker.bootstrap, "orders", [b"%d" % number for number in range(4)])


def letters(broker: EmbeddedBroker, count: int) -> list[tuple[bytes | None, dict[str, bytes | None]]]:
    """Value and headers of the first records of the queue."""
    found = []
    with PartitionConsumer(bootstrap_servers=broker.bootstrap, include_headers=True) as consumer:
        for message in consumer.consume_partition("dlq.orders", 0, "earliest").messages(PATIENCE_S):
            found.append((message.value, dict(message.headers)))
            if len(found) == count:
                break
    return found


@pytest.mark.parametrize("copies", [False, True])
def test_what_a_group_gives_up_is_written_with_its_reason(*, copies: bool) -> None:
    with EmbeddedBroker(properties=LIMIT) as broker:
        broker.create_topic("dlq.orders", 1, config=ENABLED)
        prepare(broker, errors_deadletterqueue_copy_record_enable=str(copies).lower())
        with Member(broker, ["orders"]) as member:
            assert member.acquire() == [(0, 0, 3, 1)]
            assert member.acknowledge(batch(0, 3, 1, REJECT, RELEASE, 1)) == 0
            assert member.acquire() == [(0, 2, 2, 2)]
            assert member.acknowledge(batch(2, 2, RELEASE)) == 0
        rejected, exhausted = letters(broker, 2)
    assert [rejected[0], exhausted[0]] == ([b"1", b"2"] if copies else [None, None])
    assert rejected[1] == {
        "__dlq.errors.topic": b"orders",
        "__dlq.errors.partition": b"0",
        "__dlq.errors.offset": b"1",
        "__dlq.errors.group": b"share",
        "__dlq.errors.delivery.count": b"1",
        "__dlq.errors.message": b"Offset rejected by client.",
    }
    assert exhausted[1]["__dlq.errors.offset"] == b"2"
    assert exhausted[1]["__dlq.errors.delivery.count"] == b"2"
    assert exhausted[1]["__dlq.errors.message"] == b"Offset delivery count exceeded the threshold."


def test_the_queue_is_created_if_the_broker_may() -> None:
    with EmbeddedBroker(properties={"errors.deadletterqueue.auto.create.topics.enable": "true"}) as broker:
        prepare(broker)
        with Member(broker, ["orders"]) as member:
            assert member.acquire() == [(0, 0, 3, 1)]
            assert member.acknowledge(batch(0, 3, REJECT)) == 0
        assert len(letters(broker, 4)) == 4


def test_a_topic_that_is_not_for_dead_letters_gets_none(caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("dlq.orders", 1)
        prepare(broker)
        with Member(broker, ["orders"]) as member:
            assert member.acquire() == [(0, 0, 3, 1)]
            assert member.acknowledge(batch(0, 3, REJECT)) == 0, "the group goes on without"
            assert member.acquire() == []
    assert "errors.deadletterqueue.group.enable is not true" in caplog.text
