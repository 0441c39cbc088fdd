"""How a produced record set is refused: the error that its producer gets, and the rule on timestamps."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.log.log_config import LogConfig, MessageTimestampType
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.model.record_layout import NO_TIMESTAMP


def refused(code: Code, at: int, what: str) -> KafkaError:
    """The error for the entry at byte `at` of a record set."""
    return KafkaError(code, f"record set, byte {at}: {what}")


def records_refused(code: Code, at: int, errors: Mapping[int, str]) -> KafkaError:
    """The error for the batch at byte `at`, of which these records are refused; the others fail with them."""
    first = next(iter(errors))
    what = f"{len(errors):,} records are refused; the first is record {first}: {errors[first]}"
    return KafkaError(code, f"record set, byte {at}: {what}", errors)


def check_timestamp(timestamp: int, at: int, config: LogConfig, now_ms: int) -> None:
    """Refuse a create time that is too far from the broker's clock."""
    fault = timestamp_fault(timestamp, config, now_ms)
    if fault:
        raise refused(Code.INVALID_TIMESTAMP, at, fault)


def timestamp_fault(timestamp: int, config: LogConfig, now_ms: int) -> str:
    """Why a create time is refused; "" if it is not."""
    if timestamp == NO_TIMESTAMP or config.message_timestamp_type is MessageTimestampType.LOG_APPEND_TIME:
        return ""
    if timestamp < NO_TIMESTAMP:
        return f"timestamp {timestamp} is negative"
    if now_ms - timestamp > config.message_timestamp_before_max_ms:
        limit = f"message.timestamp.before.max.ms {config.message_timestamp_before_max_ms}"
        return f"timestamp {timestamp} is further than {limit} before {now_ms}"
    if timestamp - now_ms > config.message_timestamp_after_max_ms:
        limit = f"message.timestamp.after.max.ms {config.message_timestamp_after_max_ms}"
        return f"timestamp {timestamp} is further than {limit} after {now_ms}"
    return ""
