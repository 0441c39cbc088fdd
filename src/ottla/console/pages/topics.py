"""Topics: the list, and one of them with its partitions, settings and readers."""

from __future__ import annotations

from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from ottla.admin import ConfigSource, topic_resource
from ottla.console.app import Console, console_of
from ottla.console.paging import part_of
from ottla.console.sampler import TOPIC
from ottla.model.errors import ConfigError, OttlaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.producer.producer import Producer

SORTS = ("name", "partitions", "records", "size", "rate")


async def topics(request: Request) -> Response:
    """GET /topics?q=&sort=&page="""
    console = console_of(request)
    snapshot = console.sampler.snapshot
    wanted, sort = request.query_params.get("q", ""), request.query_params.get("sort", "name")
    has_internal = request.query_params.get("internal") == "1"
    rows = [
        (
            name,
            topic,
            snapshot.records(name),
            snapshot.bytes(name),
            console.sampler.rate(f"{TOPIC}{name}") or 0.0,
        )
        for name, topic in snapshot.topics.items()
        if wanted.lower() in name.lower() and (has_internal or not topic.is_internal)
    ]
    keys = {
        "partitions": lambda row: -len(row[1].partitions),
        "records": lambda row: -row[2],
        "size": lambda row: -(row[3] or 0),
        "rate": lambda row: -row[4],
    }
    rows.sort(key=keys.get(sort, lambda row: row[0]))
    part = part_of(rows, request.query_params.get("page", ""))
    return console.page(
        request,
        "topics.html",
        part=part,
        q=wanted,
        sort=sort,
        sorts=SORTS,
        has_internal=has_internal,
        lines={row[0]: console.sampler.rates(f"{TOPIC}{row[0]}") for row in part.rows},
    )


async def topic(request: Request) -> Response:
    """GET /topics/NAME"""
    console = console_of(request)
    name = request.path_params["topic"]
    values = await run_in_threadpool(_values, console, name)
    partitions = part_of(values.pop("rows"), request.query_params.get("page", ""))
    return console.page(request, "topic.html", topic=name, partitions=partitions, **values)


def _values(console: Console, name: str) -> dict[str, Any]:
    described = console.reader.ask(lambda admin: admin.describe_topics(name))
    first = console.reader.ask(lambda admin: admin.list_offsets(name, "earliest"))
    end = console.reader.ask(lambda admin: admin.list_offsets(name, "latest"))
    snapshot = console.sampler.snapshot
    try:
        settings = console.reader.ask(lambda admin: admin.describe_configs(topic_resource(name)))
    except OttlaError:
        settings = {}
    rows = [
        (
            part,
            first[TopicAndPartition(name, part.partition)].offset,
            end[TopicAndPartition(name, part.partition)].offset,
            snapshot.sizes.get(TopicAndPartition(name, part.partition)),
        )
        for part in described.partitions
    ]
    readers = [
        (group, sum(row.lag or 0 for row in lag.partitions if row.topic_partition.topic == name))
        for group, lag in snapshot.lags.items()
        if any(row.topic_partition.topic == name for row in lag.partitions)
    ]
    return {
        "described": described,
        "rows": rows,
        "records": sum((last or 0) - (begin or 0) for _, begin, last, _ in rows),
        "bytes": snapshot.bytes(name),
        "changed": {
            k: v for k, v in sorted(settings.items()) if v.source == ConfigSource.DYNAMIC_TOPIC_CONFIG
        },
        "settings": dict(sorted(settings.items())),
        "readers": sorted(readers),
        "rate": console.sampler.rates(f"{TOPIC}{name}"),
    }


async def produce(request: Request) -> Response:
    """POST /topics/NAME/produce: one message."""
    console = console_of(request)
    fields = await console.gate.form(request)
    name = request.path_params["topic"]
    partition, offset = await run_in_threadpool(_produced, console, name, fields)
    return RedirectResponse(
        f"{request.url.path.removesuffix('/produce')}/messages?partition={partition}&offset={offset}", 303
    )


def _produced(console: Console, name: str, fields: dict[str, str]) -> tuple[int, int]:
    console.reader.ask(lambda admin: admin.describe_topics(name))  # a form does not create topics
    number = fields.get("partition", "")
    if number and not number.isdecimal():
        raise ConfigError(f"partition {number!r:.20}: a number is wanted")
    headers = [tuple(line.split(":", 1)) for line in fields.get("headers", "").splitlines() if ":" in line]
    with Producer(console.reader.reading) as producer:
        sent = producer.send(
            name,
            None if fields.get("is_null") else fields.get("value", ""),
            key=fields.get("key") or None,
            partition=int(number) if number else None,
            headers=[(key.strip(), value.strip().encode()) for key, value in headers],
        ).result(30)
    return sent.partition, sent.offset


ROUTES = [
    Route("/topics", topics),
    Route("/topics/{topic}", topic),
    Route("/topics/{topic}/produce", produce, methods=["POST"]),
]
