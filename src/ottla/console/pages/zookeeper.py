"""The tree of ZooKeeper, a znode at a time; and pipelines, from their checkpoints."""

from __future__ import annotations

import json
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ottla.console.app import console_of
from ottla.console.display import shown
from ottla.console.paging import part_of
from ottla.console.security import PageRefused
from ottla.zookeeper.session import ZooKeeperSession

PROGRESS = Path("ottla") / "progress.json"


async def znode(request: Request) -> Response:
    """GET /zookeeper?path=/"""
    console = console_of(request)
    path = request.query_params.get("path", "/")
    if not path.startswith("/"):
        raise PageRefused(400, f"path {path!r:.100} does not begin with /")
    path = "/" + path.strip("/")

    def look(session: ZooKeeperSession):  # type: ignore[no-untyped-def]
        return session.get(path), session.children(path)

    node, children = await run_in_threadpool(console.reader.zookeeper, look)
    part = part_of(sorted(children), request.query_params.get("page", ""))
    names = [name for name in path.split("/") if name]
    above = [("/", "/"), *(("/" + "/".join(names[: at + 1]), name) for at, name in enumerate(names))]
    return console.page(
        request,
        "zookeeper.html",
        path=path,
        above=above,
        node=node,
        value=shown(node.data),
        part=part,
        base="" if path == "/" else path,
    )


async def pipelines(request: Request) -> Response:
    """GET /pipelines: the last batches of each, as its checkpoint has them."""
    console = console_of(request)
    found = await run_in_threadpool(lambda: [(str(path), *_batches(path)) for path in console.pipelines])
    return console.page(request, "pipelines.html", pipelines=found)


def _batches(checkpoint: Path) -> tuple[list[dict[str, object]], str]:
    try:
        saved = json.loads((checkpoint / PROGRESS).read_text())
        return [row for row in saved if isinstance(row, dict)][-20:][::-1], ""
    except FileNotFoundError:
        return [], "no batch is done yet"
    except (OSError, ValueError, TypeError) as error:
        return [], str(error)


ROUTES = [Route("/zookeeper", znode), Route("/pipelines", pipelines)]
