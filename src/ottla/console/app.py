"""The console as a web application: routes, errors, and what all pages share."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ottla.console import charts, display
from ottla.console.cluster_reader import ClusterReader
from ottla.console.sampler import Sampler
from ottla.console.security import HEADERS, Gate, PageRefused, form_fields
from ottla.model.errors import ConfigError, KafkaError, OttlaError
from ottla.model.version import VERSION

log = logging.getLogger(__name__)
HERE = Path(__file__).parent
STREAMS_MAX = 64
"""The limit for live parts and searches at the same time: each has a connection, some a thread."""


@dataclass
class Console:
    """What all pages share. Live parts end soon after `is_ended`."""

    reader: ClusterReader
    sampler: Sampler
    gate: Gate
    pipelines: tuple[str, ...] = ()
    streams: threading.BoundedSemaphore = field(
        default_factory=lambda: threading.BoundedSemaphore(STREAMS_MAX)
    )
    is_ended: bool = False
    templates: Environment = field(init=False)

    def __post_init__(self) -> None:
        self.templates = Environment(
            loader=PackageLoader("ottla.console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.templates.filters.update(
            short=display.short,
            exact=display.exact,
            size=display.size,
            seconds=display.seconds,
            moment=display.moment,
            path=lambda text: quote(str(text), safe=""),
        )
        self.templates.globals.update(
            chart=charts.chart,
            sparkline=charts.sparkline,
            bar=charts.bar,
            version=VERSION,
            query=urlencode,
        )

    def part(self, template: str, **values: object) -> str:
        """A part of a page."""
        return self.templates.get_template(template).render(**values)

    def page(self, request: Request, template: str, status: int = 200, **values: Any) -> Response:
        """Return a whole page, with a session for its forms.

        If a token is required, only the log-in begins a session.
        """
        session = self.gate.session(request) or ""
        response = HTMLResponse("", status)
        if not session and self.gate.token is None:
            session = self.gate.begin(response)
        common = {
            "here": request.url.path,
            "csrf": self.gate.csrf(session),
            "is_read_only": self.gate.is_read_only,
            "address": self.reader.address,
            "snapshot": self.sampler.snapshot,
            "has_zookeeper": self.reader.has_zookeeper,
            "has_pipelines": bool(self.pipelines),
            "registry_error": self.reader.registry_error,
        }
        text = self.templates.get_template(template).render({**common, **values})
        response.body = text.encode()
        response.headers["content-length"] = str(len(response.body))
        return response


def console_of(request: Request) -> Console:
    """The console that serves the request."""
    console: Console = request.app.state.console
    return console


class _Guard:
    """Refuses senders that may not see pages, and adds the headers of `security` to every answer.

    Answers may stream.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        gate = console_of(request).gate
        is_static = request.url.path.startswith("/static/")

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(
                        name, "max-age=3600" if is_static and name == "Cache-Control" else value
                    )
            await send(message)

        answer: ASGIApp = self._app
        try:
            gate.check_host(request)
            if not is_static and request.url.path != "/login" and not gate.is_known(request):
                answer = RedirectResponse("/login", 303)
        except PageRefused as error:
            answer = PlainTextResponse(f"{error}\n", error.status)
        await answer(scope, receive, send_with_headers)


async def _login(request: Request) -> Response:
    console = console_of(request)
    if request.method == "GET":
        return (
            console.page(request, "login.html", error="")
            if console.gate.token
            else RedirectResponse("/", 303)
        )
    fields = await form_fields(request)
    if not console.gate.log_in(fields.get("token", "")):
        return console.page(request, "login.html", 403, error="This is not the token.")
    response = RedirectResponse("/", 303)
    console.gate.begin(response)
    return response


async def _failed(request: Request, error: Exception) -> Response:
    """Return a page for an error of the cluster, or for a wrong request."""
    status = 404 if isinstance(error, KafkaError) else 400 if isinstance(error, ConfigError) else 502
    return console_of(request).page(
        request, "error.html", status, error=str(error), kind=type(error).__name__
    )


async def _not_served(request: Request, error: Exception) -> Response:
    """Return a page for an unknown address, or a method that it does not accept."""
    assert isinstance(error, HTTPException)
    text = f"There is no page {request.url.path}." if error.status_code == 404 else error.detail
    return console_of(request).page(request, "error.html", error.status_code, error=text, kind="")


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, PageRefused)
    return PlainTextResponse(f"{error}\n", error.status)


def application(console: Console) -> Starlette:
    """The application over a console that has begun."""
    from ottla.console.pages import (
        brokers,
        groups,
        live,
        messages,
        overview,
        pipelines,
        resets,
        rights,
        topics,
        transactions,
        zookeeper,
    )

    routes = [
        Route("/login", _login, methods=["GET", "POST"]),
        *overview.ROUTES,
        *topics.ROUTES,
        *messages.ROUTES,
        *live.ROUTES,
        *groups.ROUTES,
        *resets.ROUTES,
        *brokers.ROUTES,
        *transactions.ROUTES,
        *rights.ROUTES,
        *zookeeper.ROUTES,
        *pipelines.ROUTES,
        Mount("/static", StaticFiles(directory=HERE / "static")),
    ]
    handlers: dict[Any, Any] = {OttlaError: _failed, PageRefused: _refused, HTTPException: _not_served}
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.add_middleware(GZipMiddleware, minimum_size=1000)
    app.add_middleware(_Guard)
    app.state.console = console
    return app
