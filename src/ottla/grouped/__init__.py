"""Consumers whose partitions a group gives them: the coordinator protocol of Kafka 0.9 and later.

`GroupConsumer` is what applications hold. The pure core is `consumer_protocol`, `assignors`, `balance`,
`leadership`, `member_state`, `member_times`, `member_requests` and `member`; threads and sockets are in
`membership_thread`, `topic_watch` and `commits`.
"""

from ottla.grouped.config import GROUP_PROPERTIES
from ottla.grouped.errors import ConsumerClosed, PartitionsLost
from ottla.grouped.group_consumer import GroupConsumer
from ottla.grouped.listener import RebalanceListener

__all__ = ["GroupConsumer", "RebalanceListener", "PartitionsLost", "ConsumerClosed", "GROUP_PROPERTIES"]
