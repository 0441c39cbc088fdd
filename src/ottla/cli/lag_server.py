"""`ottla lag --prometheus`: serves the lag at http://HOST:PORT/metrics; every scrape measures it again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer

from ottla.cli.output import print_line
from ottla.model.errors import ConfigError, OttlaError
from ottla.model.exposition import CONTENT_TYPE
from ottla.model.listening import cannot_listen

HOST = "127.0.0.1"
REQUEST_SECONDS_MAX = 5.0
"""Requests are served one at a time, so a slow one must not hold up the others."""

log = logging.getLogger(__name__)


def serve(where: str, exposition: Callable[[], str]) -> None:
    """Listen at `PORT` or `HOST:PORT`, until Ctrl-C."""
    with exposition_server(where, exposition) as server:
        server.serve_forever()


def exposition_server(where: str, exposition: Callable[[], str]) -> HTTPServer:
    """A server that listens at `PORT` or `HOST:PORT`, whose address is printed. Raises ConfigError.

    A scrape that fails gets 503 and the reason.
    """

    class Scrape(BaseHTTPRequestHandler):
        timeout = REQUEST_SECONDS_MAX

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/metrics":
                self._answer(HTTPStatus.NOT_FOUND, "there is only /metrics\n")
                return
            try:
                self._answer(HTTPStatus.OK, exposition())
            except OttlaError as error:
                log.warning("a scrape failed: %s", error)
                self._answer(HTTPStatus.SERVICE_UNAVAILABLE, f"{error}\n")

        def _answer(self, status: HTTPStatus, text: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *values: object) -> None:
            log.debug(format, *values)

    host, port = _address(where)
    try:
        server = HTTPServer((host, port), Scrape)
    except OSError as error:
        raise cannot_listen(f"--prometheus {where}", host, port, error) from error
    print_line(f"http://{host}:{server.server_port}/metrics")
    return server


def _address(where: str) -> tuple[str, int]:
    if where.isdecimal():
        where = f"{HOST}:{where}"
    host, _, port = where.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"--prometheus {where}: PORT or HOST:PORT is wanted")
    return host, int(port)
