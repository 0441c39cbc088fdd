"""Fixtures that pytest-asyncio runs. The plugin loads this module where pytest-asyncio is loaded."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from ottla.testing.pytest_plugin import LOOP_BROKER_BY_SCOPE, LOOP_SCOPES, loop_broker

if TYPE_CHECKING:
    from ottla.broker.loop_broker import LoopBroker


def _fixture(scope: Any) -> Any:
    """A broker for each test, on the loop of this scope."""

    async def broker(pytestconfig: pytest.Config) -> AsyncIterator[LoopBroker]:
        async with loop_broker(pytestconfig) as running:
            yield running

    return pytest_asyncio.fixture(broker, loop_scope=scope, name=LOOP_BROKER_BY_SCOPE.format(scope))


globals().update({f"broker_of_{scope}": _fixture(scope) for scope in LOOP_SCOPES})
