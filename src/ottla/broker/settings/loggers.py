"""The config resource BROKER_LOGGER: the level of each logger of the broker.

Loggers are those of Python's `logging` below `ottla`, levels have Kafka's names. A change is not kept
through a restart, as in Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ottla.broker.settings.topic_settings import ConfigRefused
from ottla.model.error_codes import Code

ROOT = "ottla"
LEVELS = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_NAMES = {number: name for name, number in LEVELS.items() if name != "TRACE"}


def logger_levels() -> dict[str, str]:
    """Return the level in force of each logger, by name."""
    known = [name for name in list(logging.root.manager.loggerDict) if name.startswith(f"{ROOT}.")]
    return {name: _level(name) for name in sorted([ROOT, *known])}


def _level(name: str) -> str:
    number = logging.getLogger(name).getEffectiveLevel()
    return next((text for least, text in sorted(_NAMES.items()) if number <= least), "FATAL")


def check_levels(levels: Mapping[str, str], known: Mapping[str, str]) -> None:
    """Raise ConfigRefused for an unknown logger or level."""
    for name, level in levels.items():
        if name not in known:
            raise ConfigRefused(Code.INVALID_CONFIG, f"logger {name} does not exist")
        if level not in LEVELS:
            reason = f"{name}={level}: a level is one of {', '.join(LEVELS)}"
            raise ConfigRefused(Code.INVALID_CONFIG, reason)


def apply_levels(levels: Mapping[str, str]) -> None:
    """Set loggers to levels. Loggers that are not named follow the logger above them again."""
    for name, before in logger_levels().items():
        if name not in levels:
            logging.getLogger(name).setLevel(logging.NOTSET)
        elif levels[name] != before:
            logging.getLogger(name).setLevel(LEVELS[levels[name]])
