"""Consumers of share groups (KIP-932): members share the records of a partition, and answer for each of them.

Applications use `ShareConsumer`. The pure core is `held_records` and `share_member`; `share_membership` and
`share_fetcher` are conversations, which the blocking and the asyncio consumer run; `heartbeats` is a thread.
"""

from ottla.consumer.share.share_config import SHARE_PROPERTIES
from ottla.consumer.share.share_consumer import ShareConsumer

__all__ = ["SHARE_PROPERTIES", "ShareConsumer"]
