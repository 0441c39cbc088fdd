"""Three brokers of Apache Kafka 0.9: a leader is killed, another one leads, the first comes back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from ottla.client.metadata import ClusterMetadata
from ottla.fetching.engine import FetchEngine
from ottla.fetching.feed import PartitionFeed
from ottla.fetching.fetch_config import FetchConfig
from ottla.fetching.fetch_errors import Reaction
from ottla.fetching.inbox import Inbox
from ottla.model.topic_partition import TopicAndPartition
from tests.fetching.real_traffic import client, write
from tests.fetching.traffic import Ledger
from tests.scale import nightly
from tests.waiting import wait_for
from tools.peers import KAFKA_0_9, RealKafka, Unavailable

BROKERS, COUNT = 3, 500
PROPERTIES = {
    "num.partitions": "3",
    "default.replication.factor": str(BROKERS),
    "min.insync.replicas": "2",
    "unclean.leader.election.enable": "false",  # what was written stays written
    "controlled.shutdown.enable": "false",  # the last ones would look for other leaders for long
}


@pytest.fixture
def brokers() -> Iterator[dict[int, RealKafka]]:
    """By their ids."""
    with ExitStack() as stack:
        first: RealKafka | None = None
        found = {}
        try:
            for number in range(1, BROKERS + 1):
                one = RealKafka(KAFKA_0_9, properties=PROPERTIES, joins=first, broker_id=number)
                found[number] = stack.enter_context(one)
                first = first or one
        except Unavailable as error:
            pytest.skip(f"three brokers of Kafka {KAFKA_0_9} cannot be run here: {error}")
        yield found


def is_replicated(metadata: ClusterMetadata, topic: str) -> bool:
    """Whether every partition could lose any broker."""
    rows = metadata.refresh([topic]).topics[topic].partitions
    return bool(rows) and all(len(row.isr) == BROKERS for row in rows)


def leader_of(feed: PartitionFeed) -> int:
    source = feed.info().source
    return source.broker.broker_id if source else -1


@nightly("three brokers of Apache Kafka with a ZooKeeper")
def test_the_leader_is_killed_and_comes_back(brokers: dict[int, RealKafka]) -> None:
    config = client(*brokers.values())
    with ClusterMetadata(config) as metadata:
        wait_for(lambda: len(metadata.refresh(["t"]).brokers) == BROKERS)
        wait_for(lambda: is_replicated(metadata, "t"))
        ends = write(config, "t", COUNT, magic=0)
        inbox, ledger, place = Inbox(), Ledger(), TopicAndPartition("t", 0)
        with FetchEngine(config, FetchConfig(fetch_message_max_bytes=20_000)) as engine:
            feeds = {one: engine.add(one, 0, inbox=inbox) for one in ends}
            ledger.read(inbox.poll, ends)
            killed = leader_of(feeds[place])
            brokers[killed].kill()
            ledger.read(inbox.poll, write(config, "t", COUNT, magic=0, first=COUNT))
            assert killed not in map(leader_of, feeds.values())
            report = feeds[place].errors.poll(0)
            assert report is not None
            assert (report.reaction, report.offset) == (Reaction.MOVE, COUNT)

            brokers[killed].start()
            wait_for(lambda: is_replicated(metadata, "t"))
            ledger.read(inbox.poll, write(config, "t", COUNT, magic=0, first=2 * COUNT))
            assert ledger.nexts == dict.fromkeys(ends, 3 * COUNT)
