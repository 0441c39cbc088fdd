"""Print docs/broker-settings.md, made from the tables of settings; a test compares it with the file."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from ottla.broker.settings.broker_table import BROKER_SETTINGS
from ottla.broker.settings.setting import INT_MAX, LONG_MAX, Setting, UpdateMode, text_of
from ottla.broker.settings.topic_table import TOPIC_SETTINGS

HEAD = """# Settings of the broker

Made by `python tools/broker_settings.py` from the tables that the broker itself reads; a test keeps it so.
Names, meanings and defaults are Kafka 3.9's unless a row says otherwise; `ottla.*` are this broker's own.
*Live* settings can be changed by admin clients while the broker runs, and stay changed over a restart.

A property that is not here is refused with the nearest name, so that a slip of the pen is noticed. Kafka's
own that have no meaning here (replication, controllers, thread pools, …) are taken and named at the start:
bring your `server.properties`. A listener with TLS or SASL, an authorizer, a policy are refused: they must
not be ignored.
"""

BROKERS = """
## Of the broker

| property | default | live | meaning |
|---|---|---|---|
"""

TOPICS = """
## Of a topic

All of them are live. The broker's property in the second column is the default of topics that do not say.

| property | broker's | default | meaning |
|---|---|---|---|
"""

MAXIMA = {INT_MAX: "no limit", LONG_MAX: "no limit"}


def page() -> str:
    """The whole page."""
    own_synonyms = {row.synonyms[0] for row in TOPIC_SETTINGS.values() if row.synonyms}
    brokers = (row for row in BROKER_SETTINGS.values() if row.name not in own_synonyms)
    return HEAD + BROKERS + "".join(_broker_rows(brokers)) + TOPICS + "".join(_topic_rows())


def _broker_rows(settings: Iterable[Setting]) -> Iterable[str]:
    for row in settings:
        live = "" if row.update is UpdateMode.READ_ONLY else "yes"
        yield f"| `{row.name}` | {_default(row)} | {live} | {row.doc} |\n"


def _topic_rows() -> Iterable[str]:
    for row in TOPIC_SETTINGS.values():
        broker = f"`{row.synonyms[0]}`" if row.synonyms else ""
        yield f"| `{row.name}` | {broker} | {_default(row)} | {row.doc} |\n"


def _default(row: Setting) -> str:
    if row.default is None or text_of(row.default) == "":
        return ""
    if isinstance(row.default, int) and row.default in MAXIMA:
        return MAXIMA[row.default]
    return f"`{text_of(row.default)}`"


if __name__ == "__main__":
    sys.stdout.write(page())
