"""The overview: health, throughput, lag, and what needs a look."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ottla.console.app import Console, console_of
from ottla.console.sampler import GROUP, TOPIC

SHOWN = 8


def values(console: Console) -> dict[str, Any]:
    """What the overview shows."""
    sampler = console.sampler
    snapshot = sampler.snapshot
    lags = sorted(((lag.total, name) for name, lag in snapshot.lags.items()), reverse=True)[:SHOWN]
    growing = sorted(
        ((rate, name) for name in snapshot.topics if (rate := sampler.rate(f"{TOPIC}{name}")) is not None),
        reverse=True,
    )
    return {
        "snapshot": snapshot,
        "partitions": sum(len(topic.partitions) for topic in snapshot.topics.values()),
        "bytes": sum(snapshot.sizes.values()) if snapshot.sizes else None,
        "lagging": [(name, total, sampler.points(f"{GROUP}{name}")) for total, name in lags],
        "busy": [(name, rate, sampler.rates(f"{TOPIC}{name}")) for rate, name in growing[:SHOWN]],
        "throughput": sampler.rates("records"),
        "lag": sampler.points("lag"),
        "total_lag": sum(lag.total for lag in snapshot.lags.values()),
    }


async def overview(request: Request) -> Response:
    """GET /"""
    console = console_of(request)
    return console.page(request, "overview.html", **{**values(console)})


ROUTES = [Route("/", overview)]
