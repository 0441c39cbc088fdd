"""Print docs/broker-settings.md, made from the tables of settings; a test compares it with the file."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from ottla.broker.settings.broker_table import BROKER_SETTINGS
from ottla.broker.settings.setting import Setting, UpdateMode
from ottla.broker.settings.topic_table import TOPIC_SETTINGS
from ottla.model.property_table import INT_MAX, LONG_MAX, text_of

HEAD = """# Settings of the broker

Made by `python tools/broker_settings.py` from the tables that the broker itself reads; a test keeps it so.
Names, meanings and defaults are Kafka 3.9's unless a row says otherwise; `ottla.*` are this broker's own.
Admin clients can change *live* settings while the broker runs; the changes survive a restart.

Give them in a file (`ottla broker start --config server.properties`), by `--set name=value`, or to
`EmbeddedBroker` as `properties={"num.partitions": 3}` or as keywords in snake_case: `num_partitions=3`.

A property that is not on this page is an error that names the nearest one, so that misspellings are noticed.
Settings of Kafka that have no meaning here (replication, controllers, thread pools, …) are accepted and named
at the start: you can use a `server.properties` of Kafka. A listener with TLS or SASL, an authorizer and a
policy are refused, since ignoring them would be unsafe.
"""

BROKERS = """
## Settings of the broker

| property | default | live | meaning |
|---|---|---|---|
"""

TOPICS = """
## Settings of a topic

All of them are live. The broker's property in the second column is the default of topics that do not set it.

| property | broker's | default | meaning |
|---|---|---|---|
"""

MAXIMA = {INT_MAX: "no limit", LONG_MAX: "no limit"}


def page() -> str:
    """The whole page."""
    defaults_of_topics = {row.broker_names[0] for row in TOPIC_SETTINGS.values() if row.broker_names}
    brokers = (row for row in BROKER_SETTINGS.values() if row.name not in defaults_of_topics)
    return HEAD + BROKERS + "".join(_broker_rows(brokers)) + TOPICS + "".join(_topic_rows())


def _broker_rows(settings: Iterable[Setting]) -> Iterable[str]:
    for row in settings:
        live = "" if row.update is UpdateMode.READ_ONLY else "yes"
        yield f"| `{row.name}` | {_default(row)} | {live} | {row.doc} |\n"


def _topic_rows() -> Iterable[str]:
    for row in TOPIC_SETTINGS.values():
        broker = f"`{row.broker_names[0]}`" if row.broker_names else ""
        yield f"| `{row.name}` | {broker} | {_default(row)} | {row.doc} |\n"


def _default(row: Setting) -> str:
    if row.default is None or text_of(row.default) == "":
        return ""
    if isinstance(row.default, int) and row.default in MAXIMA:
        return MAXIMA[row.default]
    return f"`{text_of(row.default)}`"


if __name__ == "__main__":
    sys.stdout.write(page())
