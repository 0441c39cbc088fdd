"""The tree of ZooKeeper, a znode at a time."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ottla.console.app import console_of
from ottla.console.display import shown
from ottla.console.paging import part_of
from ottla.console.security import PageRefused
from ottla.zookeeper.session import ZooKeeperSession


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


ROUTES = [Route("/zookeeper", znode)]
