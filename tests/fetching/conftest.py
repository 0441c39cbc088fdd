"""A broker that the tests of a module share, a topic for each test, a writer, engines that end with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from ottla import EmbeddedBroker
from ottla.client.client_config import ClientConfig
from ottla.fetching.engine import FetchEngine
from ottla.fetching.fetch_config import FetchConfig
from tests.fetching.traffic import Writer
from tests.naming import new_topic

Engines = Callable[..., FetchEngine]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as one:
        yield one


@pytest.fixture
def topic(broker: EmbeddedBroker, request: pytest.FixtureRequest) -> str:
    """A new topic with three partitions, named after the test."""
    return new_topic(broker, request, 3)


@pytest.fixture
def writer(broker: EmbeddedBroker) -> Iterator[Writer]:
    with Writer(broker.bootstrap) as one:
        yield one


def configs_of(
    bootstrap: str, client: dict[str, object] | None, fetch: dict[str, object]
) -> tuple[ClientConfig, FetchConfig]:
    """Of engines that do not wait long for brokers."""
    given = {"bootstrap.servers": bootstrap, **(client or {})}
    settings = {"fetch_wait_max_ms": 50, "refresh_leader_backoff_ms": 20, **fetch}
    return ClientConfig.from_properties(given), FetchConfig.from_properties(settings)


@pytest.fixture
def engine(broker: EmbeddedBroker) -> Iterator[Engines]:
    """Makes engines: settings of fetching by name, those of the client as a dictionary."""
    with ExitStack() as stack:

        def make(
            client: dict[str, object] | None = None, *, bootstrap: str = "", **fetch: object
        ) -> FetchEngine:
            configs = configs_of(bootstrap or broker.bootstrap, client, fetch)
            return stack.enter_context(FetchEngine(*configs))

        yield make
