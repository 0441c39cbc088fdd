"""Brokers with their settings."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ottla.admin import Admin, broker_resource
from ottla.console.app import console_of
from ottla.console.paging import part_of


async def brokers(request: Request) -> Response:
    """GET /brokers"""
    console = console_of(request)
    cluster = await run_in_threadpool(console.reader.ask, Admin.describe_cluster)
    leads: dict[int, int] = {}
    for topic in console.sampler.snapshot.topics.values():
        for part in topic.partitions:
            if part.leader is not None:
                leads[part.leader] = leads.get(part.leader, 0) + 1
    return console.page(request, "brokers.html", cluster=cluster, leads=leads)


async def broker(request: Request) -> Response:
    """GET /brokers/ID: its settings"""
    console = console_of(request)
    number = request.path_params["broker"]
    settings = await run_in_threadpool(
        console.reader.ask, lambda admin: admin.describe_configs(broker_resource(number))
    )
    wanted = request.query_params.get("q", "")
    rows = [(name, entry) for name, entry in sorted(settings.items()) if wanted.lower() in name]
    part = part_of(rows, request.query_params.get("page", ""))
    return console.page(request, "broker.html", broker=number, part=part, q=wanted)


ROUTES = [Route("/brokers", brokers), Route("/brokers/{broker:int}", broker)]
