"""How a produced record set is refused: the error that its producer gets, and the rule on timestamps."""

from __future__ import annotations

from ottla.log.batch_header import NO_TIMESTAMP
from ottla.log.config import LogConfig, TimestampType
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError


def refused(code: Code, at: int, what: str) -> KafkaError:
    """The error for the entry at byte `at` of a record set."""
    return KafkaError(code, f"record set, byte {at}: {what}")


def check_timestamp(timestamp: int, at: int, config: LogConfig, now_ms: int) -> None:
    """Refuse a create time that is too far from the broker's clock."""
    if timestamp == NO_TIMESTAMP or config.message_timestamp_type is TimestampType.LOG_APPEND_TIME:
        return
    if timestamp < NO_TIMESTAMP:
        raise refused(Code.INVALID_TIMESTAMP, at, f"timestamp {timestamp} is negative")
    if now_ms - timestamp > config.message_timestamp_before_max_ms:
        limit = f"message.timestamp.before.max.ms {config.message_timestamp_before_max_ms}"
        raise refused(
            Code.INVALID_TIMESTAMP, at, f"timestamp {timestamp} is further than {limit} before {now_ms}"
        )
    if timestamp - now_ms > config.message_timestamp_after_max_ms:
        limit = f"message.timestamp.after.max.ms {config.message_timestamp_after_max_ms}"
        raise refused(
            Code.INVALID_TIMESTAMP, at, f"timestamp {timestamp} is further than {limit} after {now_ms}"
        )
