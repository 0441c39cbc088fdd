"""Where a share group begins in a partition that it has never read (share.auto.offset.reset)."""

from __future__ import annotations

import re

from ottla.log.partition_log import PartitionLog
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError

_DURATION = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
_FACTORS = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}


def duration_ms(text: str) -> int:
    """Return an ISO 8601 duration such as P1DT2H in milliseconds. Raises KafkaError 40."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        raise KafkaError(Code.INVALID_CONFIG, f"{text!r} is not a duration such as PT1H or P1DT12H")
    return int(sum(float(number) * _FACTORS[unit] for unit, number in match.groupdict().items() if number))


def start_offset(log: PartitionLog, reset: str, now_ms: int) -> int:
    """Return the offset for "earliest", "latest" or "by_duration:PT1H". Reads the log, so a thread calls it.

    Raises KafkaError or StorageError.
    """
    if reset == "earliest":
        return log.start_offset
    if reset == "latest":
        return log.high_watermark
    from ottla.log.time_lookup import offset_for_timestamp

    time_and_offset = offset_for_timestamp(log, now_ms - duration_ms(reset.partition(":")[2]))
    return log.high_watermark if time_and_offset is None else time_and_offset[1]
