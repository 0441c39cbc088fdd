"""Subscriptions to metrics of clients: the config resource CLIENT_METRICS (KIP-714).

They are checked, kept and described as in Kafka. No client is asked for metrics: without a plugin that takes
them, Kafka asks for none either.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ottla.broker.settings.setting import Setting, table
from ottla.broker.settings.topic_settings import ConfigRefused
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError
from ottla.model.property_table import INT, LIST

PATTERN_NAMES = (
    *("client_instance_id", "client_id", "client_software_name", "client_software_version"),
    *("client_source_address", "client_source_port"),
)

METRICS_SETTINGS = table(
    (
        Setting("interval.ms", INT, 300_000, "How often a client sends them.", unit="ms"),
        Setting("match", LIST, (), "Which clients: name=regular expression, all of them."),
        Setting("metrics", LIST, (), "What the names of the metrics begin with; * is all."),
    )
)
INTERVAL_MS_MIN, INTERVAL_MS_MAX = 100, 3_600_000


def check_subscription(overrides: Mapping[str, str]) -> None:
    """Raise ConfigRefused for overrides that a subscription cannot have, with Kafka's codes."""
    for name, text in overrides.items():
        row = METRICS_SETTINGS.get(name)
        if row is None:
            reason = f"{name} is not a setting of client metrics: {', '.join(METRICS_SETTINGS)}"
            raise ConfigRefused(Code.INVALID_REQUEST, reason)
        try:
            value = row.parse(text)
        except ConfigError as error:
            raise ConfigRefused(Code.INVALID_CONFIG, str(error)) from error
        if name == "interval.ms" and not INTERVAL_MS_MIN <= value <= INTERVAL_MS_MAX:
            reason = f"interval.ms={value}: it must be {INTERVAL_MS_MIN} to {INTERVAL_MS_MAX} (an hour)"
            raise ConfigRefused(Code.INVALID_REQUEST, reason)
        if name == "match":
            for pattern in value:
                _check_pattern(pattern)


def _check_pattern(text: str) -> None:
    name, equals, expression = text.partition("=")
    try:
        if not equals or name.strip() not in PATTERN_NAMES:
            raise ValueError(f"it must be NAME=EXPRESSION, and NAME one of {', '.join(PATTERN_NAMES)}")
        re.compile(expression.strip())
    except (ValueError, re.error) as error:
        raise ConfigRefused(Code.INVALID_CONFIG, f"match={text}: {error}") from error
