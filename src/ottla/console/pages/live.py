"""Parts of pages as they change, as server-sent events: numbers, the newest messages, hits, rebalances."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from ottla.console.app import Console, console_of
from ottla.console.display import ShownRecord, shown_record
from ottla.console.messages import Tail
from ottla.console.pages import groups, overview
from ottla.console.pages.messages import searched
from ottla.console.security import PageRefused
from ottla.model.errors import OttlaError
from ottla.records.columns import plain_rows

TICK_S = 0.5
LOOK_S = 1.0
HITS_MAX = 1000


def event(kind: str, value: object) -> str:
    """A server-sent event."""
    return f"event: {kind}\ndata: {json.dumps(value)}\n\n"


def streamed(console: Console, events: Callable[[], AsyncIterator[str]]) -> Response:
    """Send the events until the browser leaves; an error becomes the last event. Raises Refused at
    the limit.
    """
    if not console.streams.acquire(blocking=False):
        raise PageRefused(503, "too many pages are live: close some")

    async def guarded() -> AsyncIterator[str]:
        try:
            async for text in events():
                yield text
        except OttlaError as error:
            yield event("failed", str(error))
        finally:
            console.streams.release()

    return StreamingResponse(guarded(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


async def live_overview(request: Request) -> Response:
    """GET /live/overview"""
    console = console_of(request)

    async def events() -> AsyncIterator[str]:
        at = console.sampler.snapshot.at
        while not console.is_ended:
            snapshot = await run_in_threadpool(console.sampler.wait, at, 5.0)
            if snapshot.at > at:
                at = snapshot.at
                yield event("html", console.part("overview_part.html", **overview.values(console)))
            else:
                yield ": still here\n\n"

    return streamed(console, events)


async def live_tail(request: Request) -> Response:
    """GET /live/topics/NAME/tail?contains="""
    console = console_of(request)
    topic, contains = request.path_params["topic"], request.query_params.get("contains", "")

    async def events() -> AsyncIterator[str]:
        tail = await run_in_threadpool(Tail, console.reader, topic, contains)
        try:
            yield event("ready", "")
            while not (tail.error or console.is_ended):
                records, seen, dropped = await run_in_threadpool(tail.take)
                html = console.part("record_rows.html", records=list(reversed(records)), topic=topic)
                yield event("rows", {"html": html, "rows": len(records), "seen": seen, "dropped": dropped})
                await asyncio.sleep(TICK_S)
            if tail.error:
                yield event("failed", tail.error)
        finally:
            tail.close()  # without waiting: the browser has left, and this may be a cancelled task

    return streamed(console, events)


async def live_search(request: Request) -> Response:
    """GET /live/topics/NAME/search?key=&contains=&where=&since="""
    console = console_of(request)
    topic, wanted = request.path_params["topic"], dict(request.query_params)

    async def events() -> AsyncIterator[str]:
        scan = await run_in_threadpool(searched, console.reader, topic, wanted)
        hits = 0
        try:
            steps = scan.steps()
            while not console.is_ended and (batch := await run_in_threadpool(next, steps, None)) is not None:
                rows = plain_rows(batch.slice(0, HITS_MAX - hits))
                hits += len(rows)
                records = await run_in_threadpool(_shown, console, topic, rows)
                html = console.part("record_rows.html", records=records, topic=topic)
                progress = scan.progress
                yield event(
                    "rows",
                    {"html": html, "hits": hits, "seen": progress.offsets, "total": progress.offsets_total},
                )
                if hits >= HITS_MAX:
                    break
                await asyncio.sleep(0)
            progress = scan.progress
            yield event(
                "done",
                {
                    "hits": hits,
                    "seen": progress.offsets,
                    "total": progress.offsets_total,
                    "is_cut": hits >= HITS_MAX,
                },
            )
        finally:
            scan.close()

    return streamed(console, events)


def _shown(console: Console, topic: str, rows: list[dict[str, Any]]) -> list[ShownRecord]:
    return [shown_record(row, topic, console.reader.decoded) for row in rows]


async def live_group(request: Request) -> Response:
    """GET /live/groups/NAME: lag, members, and rebalances as they happen."""
    console = console_of(request)
    name = request.path_params["group"]

    async def events() -> AsyncIterator[str]:
        while not console.is_ended:
            values = await run_in_threadpool(groups.values, console, name)
            yield event("html", console.part("group_part.html", **values))
            await asyncio.sleep(LOOK_S)

    return streamed(console, events)


ROUTES = [
    Route("/live/overview", live_overview),
    Route("/live/topics/{topic}/tail", live_tail),
    Route("/live/topics/{topic}/search", live_search),
    Route("/live/groups/{group}", live_group),
]
