"""Share consumers of others on our broker: Kafka's own of 4.4, and librdkafka's."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from confluent_kafka import ShareConsumer

from ottla import EmbeddedBroker
from ottla.broker.share_groups.core.records import ShareKey, partition_for
from ottla.model.topic_partition import SHARE_STATE_TOPIC
from tests.broker.real_clients import send
from tests.broker.share_groups.share_member import Member, batch, configure_group
from tests.kafka_programs import dump_log, run_program
from tests.waiting import wait_for
from tools.peer_cache import KAFKA_4

PROGRAM = Path(__file__).with_name("ShareSteps.java")


def test_kafkas_own_share_consumer_and_admin() -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("orders", 1)
        send(broker.bootstrap, "orders", [b"%d" % number for number in range(10)])
        lines = run_program(PROGRAM, broker.bootstrap).splitlines()
    values = ", ".join(f"{number}:1" for number in range(10))
    deliveries = ", ".join(f"{number}={2 if number == 3 else 1}" for number in range(10))
    assert lines == [
        f"implicit [{values}]",
        "described Stable 1 [orders-0]",
        f"explicit {{{deliveries}}}",
        "listed [explicit Share Empty, implicit Share Empty]",
        "altered 7 lag 3",
        "left 0",
    ]


def test_kafkas_dump_tool_reads_the_stored_state(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker:
        broker.create_topic("orders", 1)
        configure_group(broker.bootstrap, "share")
        send(broker.bootstrap, "orders", [b"%d" % number for number in range(10)])
        with Member(broker, ["orders"]) as member:
            assert member.acquire() == [(0, 0, 9, 1)]
            assert member.acknowledge(batch(2, 4, 1), batch(5, 5, 3), batch(6, 6, 2)) == 0
            key = ShareKey("share", *member.assigned[0])
    name = f"{SHARE_STATE_TOPIC}-{partition_for(key, 50)}/00000000000000000000.log"
    arguments = "--share-group-state-decoder", "--files", str(tmp_path / name)
    lines = dump_log(KAFKA_4, *arguments).splitlines()
    payloads = [json.loads(line.split(" payload: ")[1]) for line in lines if " payload: " in line]
    told = payloads[2]["data"]
    assert told["startOffset"] == 0
    assert told["deliveryCompleteCount"] == 4
    assert [
        (one["firstOffset"], one["lastOffset"], one["deliveryState"], one["deliveryCount"])
        for one in told["stateBatches"]
    ] == [(2, 4, 2, 1), (5, 5, 4, 1), (6, 6, 0, 1)]


def test_librdkafkas_share_consumers_share_a_partition_and_one_is_lost() -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("orders", 1)
        configure_group(broker.bootstrap, "share")
        settings = {"bootstrap.servers": broker.bootstrap, "group.id": "share"}
        explicit = {"share.acknowledgement.mode": "explicit", "max.poll.records": 5}
        holder = ShareConsumer({**settings, **explicit})
        reader = ShareConsumer({**settings})
        try:
            for consumer in (holder, reader):
                consumer.subscribe(["orders"])
            send(broker.bootstrap, "orders", [b"%d" % number for number in range(100)])
            held = {message.value() for message in wait_for(lambda: list(holder.poll(0.5)))}
            holder.close()  # without an answer for what it holds
            seen: Counter[bytes | None] = Counter()

            def read_all() -> bool:
                seen.update(message.value() for message in reader.poll(0.5) if message.error() is None)
                return len(seen) == 100

            wait_for(read_all)
            assert held
            assert set(seen.values()) == {1}, "each was delivered once"
        finally:
            reader.close()
