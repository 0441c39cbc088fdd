"""Names of topics and groups."""

from __future__ import annotations

import re

import pytest

from ottla.broker.embedded import EmbeddedBroker


def name_after_test(request: pytest.FixtureRequest) -> str:
    """The name of the test, with only what a topic or a group may be called."""
    return re.sub(r"[^A-Za-z0-9-]+", "-", request.node.name).strip("-")


def new_topic(broker: EmbeddedBroker, request: pytest.FixtureRequest, partitions: int) -> str:
    """Make a topic, named after the test."""
    name = name_after_test(request)
    broker.create_topic(name, partitions)
    return name
