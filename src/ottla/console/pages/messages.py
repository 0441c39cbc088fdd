"""Messages: by partition and offset or time, one alone, searched, as a download."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from ottla.console.app import Console, console_of
from ottla.console.cluster_reader import ClusterReader
from ottla.console.display import Decoded, ShownRecord, shown_record
from ottla.console.messages import RECORDS, newest, records_from
from ottla.model.errors import ConfigError
from ottla.model.record_text import record_texts
from ottla.model.topic_partition import TopicAndPartition
from ottla.query.scan import Scan, scan
from ottla.records.columns import plain_rows

DOWNLOADED_MAX = 100_000
WHOLE_MAX = 1 << 20


async def messages(request: Request) -> Response:
    """GET /topics/NAME/messages?partition=&offset=&time="""
    console = console_of(request)
    topic, given = request.path_params["topic"], request.query_params
    number = _number(given.get("partition", ""), "partition")
    if number is not None and given.get("time"):
        at = await run_in_threadpool(_offset_at, console, topic, number, given["time"])
        return RedirectResponse(f"{request.url.path}?partition={number}&offset={at}", 303)
    offset = _number(given.get("offset", ""), "offset")
    values = await run_in_threadpool(_values, console, topic, number, offset)
    return console.page(
        request, "messages.html", topic=topic, partition=number, step=RECORDS, limit=DOWNLOADED_MAX, **values
    )


def _values(console: Console, topic: str, number: int | None, offset: int | None) -> dict[str, Any]:
    first = console.reader.ask(lambda admin: admin.list_offsets(topic, "earliest"))
    ends = console.reader.ask(lambda admin: admin.list_offsets(topic, "latest"))
    numbers = sorted(part.partition for part in ends)
    if number is None:
        records = newest(
            console.reader,
            topic,
            console.sampler.look() if not _is_seen(console, topic) else console.sampler.snapshot,
        )
        return {"numbers": numbers, "records": records, "offset": None, "first": None, "end": None}
    part = TopicAndPartition(topic, number)
    if part not in ends:
        raise ConfigError(f"topic {topic!r} has no partition {number}; it has {numbers[0]} to {numbers[-1]}")
    begin, end = first[part].offset or 0, ends[part].offset or 0
    start = max(begin, end - RECORDS) if offset is None else min(max(offset, begin), end)
    records = records_from(console.reader, topic, {number: start}, RECORDS, {number: end})
    return {"numbers": numbers, "records": records, "offset": start, "first": begin, "end": end}


def _is_seen(console: Console, topic: str) -> bool:
    return any(part.topic == topic for part in console.sampler.snapshot.end)


def _offset_at(console: Console, topic: str, number: int, text: str) -> int:
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"time {text!r:.40}: give a time such as 2026-01-31T12:00 (UTC)") from error
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    part = TopicAndPartition(topic, number)
    offset_at_time = console.reader.ask(lambda admin: admin.list_offsets(part, at)).offset
    return (
        offset_at_time
        if offset_at_time is not None
        else console.reader.ask(lambda admin: admin.list_offsets(part, "latest")).offset or 0
    )


async def message(request: Request) -> Response:
    """GET /topics/NAME/messages/PARTITION/OFFSET: one record, whole."""
    console = console_of(request)
    topic, number, offset = (request.path_params[name] for name in ("topic", "partition", "offset"))
    records = await run_in_threadpool(_whole, console, topic, number, offset)
    return console.page(
        request,
        "message.html",
        topic=topic,
        record=records[0] if records else None,
        partition=number,
        offset=offset,
    )


def _whole(console: Console, topic: str, number: int, offset: int) -> list[ShownRecord]:
    with scan(
        topic, [number], offset, until=offset + 1, headers=True, properties=console.reader.reading
    ) as batches:
        decoded = console.reader.decoded
        return [
            shown_record(row, topic, decoded, WHOLE_MAX, 2) for batch in batches for row in plain_rows(batch)
        ]


async def search(request: Request) -> Response:
    """GET /topics/NAME/search?key=&contains=&where=&since=: the page; `live` streams the hits."""
    console = console_of(request)
    topic, given = request.path_params["topic"], request.query_params
    wanted = {name: given[name] for name in ("key", "contains", "where", "since") if given.get(name)}
    hits: list[ShownRecord] | None = None
    if given.get("plain") and wanted:
        hits = await run_in_threadpool(_hits, console, topic, wanted)
    return console.page(request, "search.html", topic=topic, wanted=wanted, hits=hits, limit=RECORDS)


def search_arguments(wanted: dict[str, str]) -> dict[str, str]:
    """The fields of the form as arguments of `scan`."""
    given = {name: wanted[name] for name in ("key", "contains", "where", "since") if wanted.get(name)}
    if "since" in given:
        try:
            at = datetime.fromisoformat(given["since"])
        except ValueError as error:
            raise ConfigError(
                f"since {given['since']!r:.40}: give a time such as 2026-01-31T12:00 (UTC)"
            ) from error
        given["since"] = (at if at.tzinfo else at.replace(tzinfo=UTC)).isoformat()
    return given


def _hits(console: Console, topic: str, wanted: dict[str, str]) -> list[ShownRecord]:
    hits: list[ShownRecord] = []
    with searched(console.reader, topic, wanted) as batches:
        for batch in batches:
            rows = plain_rows(batch.slice(0, RECORDS - len(hits)))
            hits += [shown_record(row, topic, console.reader.decoded) for row in rows]
            if len(hits) >= RECORDS:
                break
    return hits


def searched(reader: ClusterReader, topic: str, wanted: dict[str, str]) -> Scan:
    """The scan that a form asks for, of a partition from an offset on if it names them. Raises OttlaError."""
    given: dict[str, Any] = search_arguments(wanted)
    number, offset = (_number(wanted.get(name, ""), name) for name in ("partition", "offset"))
    if number is not None:
        given |= {"partitions": [number]} | ({} if offset is None else {"since": offset})
    return scan(topic, headers=True, schemas=reader.schemas, properties=reader.reading, **given)


async def download(request: Request) -> Response:
    """GET /topics/NAME/download?key=&contains=&where=&since=&partition=&offset=: JSON, a line each."""
    console = console_of(request)
    topic = request.path_params["topic"]
    scan = await run_in_threadpool(searched, console.reader, topic, dict(request.query_params))
    await run_in_threadpool(lambda: scan.ranges)  # raises before anything is sent
    name = "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in topic)
    return StreamingResponse(
        _lines(scan, topic, console.reader.decoded),
        media_type="application/x-ndjson",
        headers={"Content-Disposition": f'attachment; filename="{name}.jsonl"'},
    )


def _lines(scan: Scan, topic: str, decoded: Decoded) -> Iterator[str]:
    left = DOWNLOADED_MAX
    with scan as records:
        for batch in records:
            for row in plain_rows(batch.slice(0, left)):
                pairs = [(header["key"], header["value"]) for header in row["headers"]]
                key, value, headers, encoding = record_texts(
                    decoded(row["key"], f"{topic}-key"), decoded(row["value"], f"{topic}-value"), pairs
                )
                line = {
                    "partition": row["partition"],
                    "offset": row["offset"],
                    "timestamp_ms": row["timestamp"],
                    "key": key,
                    "value": value,
                    "headers": headers,
                    "encoding": encoding,
                }
                yield json.dumps(line, ensure_ascii=False) + "\n"
            left -= batch.num_rows
            if left <= 0:
                return


def _number(text: str, name: str) -> int | None:
    if not text:
        return None
    if not text.isdecimal() or len(text) > 19:
        raise ConfigError(f"{name} {text!r:.40}: a number from 0 on is wanted")
    return int(text)


ROUTES = [
    Route("/topics/{topic}/messages", messages),
    Route("/topics/{topic}/messages/{partition:int}/{offset:int}", message),
    Route("/topics/{topic}/search", search),
    Route("/topics/{topic}/download", download),
]
