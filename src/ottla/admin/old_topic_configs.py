"""The topic settings of Kafka 0.9, checked as its tools check them.

A wrong setting in ZooKeeper would stop brokers from reading any later change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ottla.model.did_you_mean import hint
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError

INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1
_MESSAGE_BYTES_MIN = 14

Check = Callable[[str], bool]


def _number(least: int, most: int) -> Check:
    def is_right(text: str) -> bool:
        digits = text.strip().removeprefix("-").removeprefix("+")
        return digits.isascii() and digits.isdigit() and least <= int(text) <= most

    return is_right


def _is_ratio(text: str) -> bool:
    try:
        return 0.0 <= float(text) <= 1.0
    except ValueError:
        return False


def _one_of(*choices: str) -> Check:
    return lambda text: text.strip() in choices


def _is_flag(text: str) -> bool:
    return text.strip().lower() in {"true", "false"}


_FROM_ZERO = _number(0, LONG_MAX)
_INT_FROM_ZERO = _number(0, INT_MAX)
_ANY_LONG = _number(-LONG_MAX - 1, LONG_MAX)

CHECKS: Mapping[str, Check] = {
    "cleanup.policy": _one_of("compact", "delete"),
    "compression.type": _one_of("uncompressed", "snappy", "lz4", "gzip", "producer"),
    "delete.retention.ms": _FROM_ZERO,
    "file.delete.delay.ms": _FROM_ZERO,
    "flush.messages": _FROM_ZERO,
    "flush.ms": _FROM_ZERO,
    "index.interval.bytes": _INT_FROM_ZERO,
    "max.message.bytes": _INT_FROM_ZERO,
    "min.cleanable.dirty.ratio": _is_ratio,
    "min.insync.replicas": _number(1, INT_MAX),
    "preallocate": _is_flag,
    "retention.bytes": _ANY_LONG,
    "retention.ms": _ANY_LONG,
    "segment.bytes": _number(_MESSAGE_BYTES_MIN, INT_MAX),
    "segment.index.bytes": _INT_FROM_ZERO,
    "segment.jitter.ms": _FROM_ZERO,
    "segment.ms": _FROM_ZERO,
    "unclean.leader.election.enable": _is_flag,
}


def check_names(names: Mapping[str, object]) -> None:
    """Raise KafkaError for a name that Kafka 0.9 does not know."""
    for name in names:
        if name not in CHECKS:
            near = hint(name, CHECKS, otherwise=f"; known are {', '.join(CHECKS)}")
            raise KafkaError(Code.INVALID_CONFIG, f"{name} is not a topic setting of Kafka 0.9{near}")


def check_configs(configs: Mapping[str, str]) -> None:
    """Raise KafkaError for a name or a value that Kafka 0.9 would not take."""
    check_names(configs)
    for name, value in configs.items():
        if not CHECKS[name](value):
            raise KafkaError(Code.INVALID_CONFIG, f"{name}={value!r} is not allowed in Kafka 0.9")
