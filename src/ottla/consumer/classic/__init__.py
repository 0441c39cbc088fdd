"""Kafka's classic high-level consumer: groups that balance themselves through ZooKeeper.

`connector` and `stream` are the public face, `membership` has the threads behind it. The logic of a member is
pure: `member` decides, with `rebalancer` (when) and `attempt` (what); it yields `effects`, which
`member_thread` performs. `stream_queue` hands out messages as long as `gate` is open.
"""

from ottla.consumer.classic.assignors import RoundRobinVersion
from ottla.consumer.classic.connector import ConsumerConnector
from ottla.consumer.classic.identity import ConsumerIdString, ConsumerThreadId
from ottla.consumer.classic.member_thread import ConsumerRebalanceListener
from ottla.consumer.classic.membership import ConnectorMetrics
from ottla.consumer.classic.stream import KafkaStream
from ottla.consumer.classic.topic_count import Blacklist, TopicFilter, Whitelist
from ottla.consumer.reading.health import Health

__all__ = [
    "ConsumerConnector",
    "KafkaStream",
    "Whitelist",
    "Blacklist",
    "TopicFilter",
    "ConsumerRebalanceListener",
    "ConsumerIdString",
    "ConsumerThreadId",
    "ConnectorMetrics",
    "Health",
    "RoundRobinVersion",
]
