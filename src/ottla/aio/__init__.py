"""The clients for asyncio: the same names, arguments and semantics as the blocking ones, with `await`.

    async with aio.PartitionConsumer(bootstrap_servers="127.0.0.1:9092") as consumer:
        reader = await consumer.consume_partition("orders", 0, "earliest")
        async for message in reader:
            ...

They are a second driver of the same cores, not threads around the blocking clients. A client belongs to the
event loop in which it was made.
"""

from ottla.aio.admin import Admin
from ottla.aio.group_consumer import GroupConsumer
from ottla.aio.partition_consumer import PartitionConsumer, PartitionReader
from ottla.aio.producer import BatchDelivery, Delivery, Producer
from ottla.aio.rebalancing import RebalanceListener
from ottla.aio.share_consumer import ShareConsumer

__all__ = [
    "Admin",
    "BatchDelivery",
    "Delivery",
    "GroupConsumer",
    "PartitionConsumer",
    "PartitionReader",
    "Producer",
    "RebalanceListener",
    "ShareConsumer",
]
