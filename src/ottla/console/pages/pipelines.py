"""Pipelines on Spark: rates, lag, the last batches and dead letters, from their files and checkpoints."""

from __future__ import annotations

from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ottla.console.app import Console, console_of
from ottla.model.errors import OttlaError
from ottla.spark.pipeline.form import PipelineForm
from ottla.spark.pipeline.sink_form import SinkFormat, shown_sink
from ottla.spark.pipeline.status import form_of, status_at

BATCHES = 20


async def pipelines(request: Request) -> Response:
    """GET /pipelines"""
    console = console_of(request)
    pipelines = await run_in_threadpool(lambda: [_values(console, path) for path in console.pipelines])
    return console.page(request, "pipelines.html", pipelines=pipelines, shown=BATCHES)


def _values(console: Console, path: str) -> dict[str, Any]:
    """What is known of a pipeline; `error` says what is not."""
    values: dict[str, Any] = {"path": path, "status": None, "letters": "", "letters_topic": "", "error": ""}
    try:
        form = form_of(path)
        if form is not None and form.dead_letters is not None:
            values |= _letters(console, form)
        values["status"] = status_at(path)
    except OttlaError as error:
        values["error"] = str(error)
    return values


def _letters(console: Console, form: PipelineForm) -> dict[str, Any]:
    """Where dead letters go, and how many there are if it is a topic of this cluster."""
    sink = form.dead_letters
    assert sink is not None
    topic = sink.options.get("topic", "") if sink.format == SinkFormat.TOPIC else ""
    snapshot = console.sampler.snapshot
    count = snapshot.records(topic) if topic in snapshot.topics else None
    return {"letters": shown_sink(sink), "letters_topic": topic, "letters_count": count}


ROUTES = [Route("/pipelines", pipelines)]
