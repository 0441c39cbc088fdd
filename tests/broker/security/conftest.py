"""Certificates and one broker with every kind of listener, for all tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.broker.embedded import EmbeddedBroker
from tests.broker.security.secured import add_scram_user, properties
from tests.client.certificates import Certificates, make_certificates


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def secured(certificates: Certificates) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(properties=properties(certificates), brokers=2) as broker:
        add_scram_user(broker.bootstrap)
        yield broker
