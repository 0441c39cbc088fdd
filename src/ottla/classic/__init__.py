"""Kafka's classic high-level consumer: groups that balance themselves through ZooKeeper.

`connector` is the public face. The logic of a member is pure: `member` decides, by `rebalancer` when and by
`attempt` what; `effects` are what it wants done, which `member_thread` performs. `stream` hands out messages,
as far as `gate` allows.
"""

from ottla.classic.assignors import RoundRobinVersion
from ottla.classic.connector import ConnectorMetrics, ConsumerConnector
from ottla.classic.errors import (
    ConsumerRebalanceFailed,
    ConsumerTimeout,
    ListenerFailed,
    MessageStreamsExist,
)
from ottla.classic.identity import ConsumerIdString, ConsumerThreadId
from ottla.classic.listener import ConsumerRebalanceListener
from ottla.classic.rebalancer import Health
from ottla.classic.stream import KafkaStream
from ottla.classic.topic_count import Blacklist, TopicFilter, Whitelist

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
    "ConsumerTimeout",
    "ConsumerRebalanceFailed",
    "MessageStreamsExist",
    "ListenerFailed",
]
