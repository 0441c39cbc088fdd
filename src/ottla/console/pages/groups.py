"""Groups of all kinds side by side, and one of them: members, partitions, lag."""

from __future__ import annotations

import time
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ottla.admin import GroupLag, GroupListing, PartitionLag
from ottla.console.app import Console, console_of
from ottla.console.paging import ROWS, part_of
from ottla.console.sampler import BEHIND, GROUP

KIND_NAMES = {
    "zookeeper": "ZooKeeper",
    "classic": "classic",
    "consumer": "consumer (KIP-848)",
    "share": "share (KIP-932)",
}


def kind_name(group: GroupListing) -> str:
    """Return the name of this kind of group for people."""
    if group.kind.value == "zookeeper":
        return "ZooKeeper"
    return KIND_NAMES.get(group.group_type, group.group_type or "classic")


async def listing(request: Request) -> Response:
    """GET /groups?q=&kind=&page="""
    console = console_of(request)
    snapshot = console.sampler.snapshot
    wanted, kind = request.query_params.get("q", ""), request.query_params.get("kind", "")
    rows = []
    for group in snapshot.groups:
        lag = snapshot.lags.get(group.group_id)
        if wanted.lower() in group.group_id.lower() and kind in ("", kind_name(group)):
            rows.append((group, kind_name(group), lag))
    if request.query_params.get("sort") == "lag":
        rows.sort(key=lambda row: -(row[2].total if row[2] else 0))
    part = part_of(rows, request.query_params.get("page", ""))
    lines = {group.group_id: console.sampler.points(f"{GROUP}{group.group_id}") for group, _, _ in part.rows}
    behind = {group.group_id: slowest(console, lag) for group, _, lag in part.rows}
    kinds = sorted({kind_name(group) for group in snapshot.groups})
    return console.page(
        request,
        "groups.html",
        part=part,
        q=wanted,
        kind=kind,
        kinds=kinds,
        lines=lines,
        behind=behind,
        sort=request.query_params.get("sort", ""),
    )


def behind_s(console: Console, row: PartitionLag) -> float | None:
    """Return how long the next record has waited; if brokers cannot say, how long ago it was the
    log's end.
    """
    if row.seconds is not None:
        return row.seconds
    return console.sampler.behind_s(row.topic_partition, row.committed)


def slowest(console: Console, lag: GroupLag | None) -> float | None:
    """The largest lag in seconds among the group's partitions; None if none is known."""
    known = [behind_s(console, row) for row in (lag.partitions if lag else ())]
    return max((seconds for seconds in known if seconds is not None), default=None)


def values(console: Console, name: str) -> dict[str, Any]:
    """What the page of a group shows. Raises OttlaError."""
    requested_at = time.time()
    lag = console.reader.ask(lambda admin: admin.group_lag(name))
    console.sampler.note_groups(requested_at, [lag.group])
    listed = [group for group in console.sampler.snapshot.groups if group.group_id == name]
    rows = sorted(lag.partitions, key=lambda row: -(row.lag or 0))
    return {
        "group": name,
        "lag": lag,
        "kind": " and ".join(kind_name(group) for group in listed) or lag.group.kind.value,
        "rows": [(row, behind_s(console, row)) for row in rows[:ROWS]],
        "hidden": max(0, len(rows) - ROWS),
        "largest": max((row.lag or 0 for row in rows), default=0) or 1,
        "points": console.sampler.points(f"{GROUP}{name}"),
        "seconds": console.sampler.points(f"{BEHIND}{name}"),
        "behind": slowest(console, lag),
        "rebalances": console.sampler.rebalances(name),
    }


async def group(request: Request) -> Response:
    """GET /groups/NAME"""
    console = console_of(request)
    group_values = await run_in_threadpool(values, console, request.path_params["group"])
    return console.page(request, "group.html", **group_values)


ROUTES = [Route("/groups", listing), Route("/groups/{group}", group)]
