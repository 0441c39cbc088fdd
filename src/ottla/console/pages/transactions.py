"""Transactions: open ones with their age, those that hang, and all transactional ids."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ottla.admin import Admin, TransactionDescription
from ottla.console.app import Console, console_of
from ottla.console.paging import part_of
from ottla.model.errors import AdminErrors, ConfigError, OttlaError

T = TypeVar("T")
TOPICS_MAX = 50
"""How many topics are searched for hanging transactions: each of their partitions is a request."""
OPEN_MAX = 50
MINUTES = 15


async def transactions(request: Request) -> Response:
    """GET /transactions?q=&minutes=&page="""
    console = console_of(request)
    wanted, minutes = request.query_params.get("q", ""), request.query_params.get("minutes", "")
    if minutes and not (minutes.isdecimal() and len(minutes) < 8):
        raise ConfigError(f"minutes {minutes!r:.20}: a number from 0 on is wanted")
    silent_minutes = int(minutes) if minutes else MINUTES
    values = await run_in_threadpool(_values, console, wanted, silent_minutes * 60.0)
    part = part_of(values.pop("listed"), request.query_params.get("page", ""))
    return console.page(request, "transactions.html", part=part, q=wanted, minutes=silent_minutes, **values)


def _values(console: Console, wanted: str, silent_s: float) -> dict[str, Any]:
    """Return what the page shows. What brokers refuse to tell is left out, and `errors` say why."""
    errors: list[str] = []

    def known(call: Callable[[Admin], tuple[T, ...]]) -> tuple[T, ...]:
        try:
            return console.reader.ask(call)
        except OttlaError as error:
            errors.append(str(error))
            return ()

    listed = known(lambda admin: admin.list_transactions())
    ids = [transaction.transactional_id for transaction in listed if transaction.state == "Ongoing"][
        :OPEN_MAX
    ]
    names = [
        name
        for name, topic in console.sampler.snapshot.topics.items()
        if not topic.is_internal and wanted.lower() in name.lower()
    ]
    looked = names[:TOPICS_MAX]
    described = known(lambda admin: _described(admin, ids)) if ids else ()
    hanging = (
        known(lambda admin: admin.find_hanging_transactions(looked, longer_than=silent_s)) if looked else ()
    )
    now_ms = time.time() * 1000
    return {
        "listed": listed,
        "open": [
            (
                transaction,
                None if transaction.started_ms is None else max(0.0, now_ms - transaction.started_ms) / 1000,
            )
            for transaction in described
        ],
        "hanging": hanging,
        "looked": len(looked),
        "topics": len(names),
        "errors": errors,
    }


def _described(admin: Admin, ids: list[str]) -> tuple[TransactionDescription, ...]:
    """Return the descriptions of the ids that still exist."""
    try:
        return tuple(admin.describe_transactions(ids).values())
    except AdminErrors as error:
        return tuple(error.results.values())


ROUTES = [Route("/transactions", transactions)]
