"""Consumers that share partitions in a group, by the coordinator protocol of Kafka 0.9 and later.

Applications use `GroupConsumer`. The pure core is `assignors`, `balance`, `leadership`,
`member_config`, `member_state`, `member_times`, `member_requests` and `member`; threads and sockets are in
`membership_thread`, `topic_watch` and `commits`.
"""

from ottla.consumer.coordinated.group_consumer import GroupConsumer
from ottla.consumer.coordinated.group_consumer_config import GROUP_PROPERTIES
from ottla.consumer.coordinated.rebalancing import RebalanceListener

__all__ = ["GroupConsumer", "RebalanceListener", "GROUP_PROPERTIES"]
