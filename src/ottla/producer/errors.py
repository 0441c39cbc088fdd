"""What a producer reports besides a broker's own errors (KafkaError) and lost connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.model.errors import OttlaError

if TYPE_CHECKING:
    from ottla.producer.deliveries import BatchDelivery


class BufferFull(OttlaError):
    """`buffer.memory` was full for `max.block.ms`: the brokers take less than is handed in. Nothing was lost.

    `delivery` has the rows of a batch that had been accepted before, the first `accepted` ones; None for a
    single record, which was not accepted.
    """

    def __init__(self, message: str, delivery: BatchDelivery | None = None, accepted: int = 0) -> None:
        super().__init__(message)
        self.delivery = delivery
        self.accepted = accepted


class RecordTooLarge(OttlaError, ValueError):
    """A record is larger than `max.request.size` or `buffer.memory`; it was not accepted."""


class DeliveryExpired(OttlaError):
    """`delivery.timeout.ms` is over. The message says whether the records may be in the log all the same."""


class ProducerClosed(OttlaError):
    """The producer is closed, or was closed before the records could be sent."""
