"""Resetting the offsets of a group: a plan, a confirmation, and what is stored afterwards.

The confirmation carries the offsets of the plan itself, so that exactly what was shown is written.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ottla.admin import GroupKind
from ottla.console.app import Console, console_of
from ottla.model.errors import ConfigError
from ottla.model.offset_spec import OffsetSpec
from ottla.model.topic_partition import TopicAndPartition


async def plan(request: Request) -> Response:
    """POST /groups/NAME/reset: the plan. Nothing is written."""
    console = console_of(request)
    fields = await console.gate.form(request)
    name = request.path_params["group"]
    moves = await run_in_threadpool(_planned, console, name, fields)
    offsets = json.dumps([[part.topic, part.partition, move.after] for part, move in moves.items()])
    return console.page(
        request,
        "reset_plan.html",
        group=name,
        moves=moves,
        offsets=offsets,
        store=fields.get("store", ""),
        topic=fields.get("topic", ""),
    )


def _planned(console: Console, name: str, fields: dict[str, str]):  # type: ignore[no-untyped-def]
    topic, where = fields.get("topic", ""), fields.get("to", "")
    to: OffsetSpec | None
    shift = 0
    if where in ("earliest", "latest"):
        to = where
    elif where == "offset":
        to = _whole(fields.get("offset", ""), "offset")
    elif where == "shift":
        to, shift = None, _whole(fields.get("shift", ""), "shift")
    elif where == "time":
        try:
            to = datetime.fromisoformat(fields.get("time", "")).replace(tzinfo=UTC)
        except ValueError as error:
            raise ConfigError(
                f"time {fields.get('time', '')!r:.40}: give a time such as 2026-01-31T12:00"
            ) from error
    else:
        raise ConfigError("say where to: earliest, latest, an offset, a time, or a shift")
    kind = _kind(fields.get("store", ""))
    return console.reader.ask(
        lambda admin: admin.reset_group_offsets(name, topic, to, shift_by=shift, dry_run=True, kind=kind)
    )


async def confirm(request: Request) -> Response:
    """POST /groups/NAME/reset/confirm: write the plan, and read it back."""
    console = console_of(request)
    fields = await console.gate.form(request)
    name = request.path_params["group"]
    rows = await run_in_threadpool(_written, console, name, fields)
    return console.page(
        request, "reset_done.html", group=name, rows=rows, is_whole=all(want == got for _, want, got in rows)
    )


def _written(
    console: Console, name: str, fields: dict[str, str]
) -> list[tuple[TopicAndPartition, int, int | None]]:
    try:
        wanted = {
            TopicAndPartition(str(topic), int(number)): int(offset)
            for topic, number, offset in json.loads(fields.get("offsets", ""))
        }
    except (ValueError, TypeError, RecursionError) as error:
        raise ConfigError("this plan cannot be read: make it again") from error
    kind = _kind(fields.get("store", ""))
    console.reader.ask(lambda admin: admin.alter_group_offsets(name, wanted, kind=kind))
    stored = console.reader.ask(lambda admin: admin.group_offsets(name, kind=kind))
    return [
        (part, offset, stored[part].offset if part in stored else None)
        for part, offset in sorted(wanted.items())
    ]


def _kind(store: str) -> GroupKind | None:
    if store in ("", *GroupKind):
        return GroupKind(store) if store else None
    raise ConfigError(f"store {store!r:.40}: kafka or zookeeper is wanted")


def _whole(text: str, name: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise ConfigError(f"{name} {text!r:.40}: a number is wanted") from error


ROUTES = [
    Route("/groups/{group}/reset", plan, methods=["POST"]),
    Route("/groups/{group}/reset/confirm", confirm, methods=["POST"]),
]
