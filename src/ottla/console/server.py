"""Serves the console until it is closed."""

from __future__ import annotations

import ipaddress
import secrets
import socket
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.console.cluster_reader import ClusterReader
from ottla.model.closing import Closing
from ottla.model.errors import Unsupported
from ottla.model.listening import cannot_listen

if TYPE_CHECKING:
    from ottla.console.sampler import ClusterSnapshot
    from ottla.schemas.registry import Schemas

HOST, PORT = "127.0.0.1", 9080
NEEDS = "the console needs Starlette, uvicorn and Jinja2: pip install 'ottla[console]'"


class ConsoleServer(Closing):
    """A console of a cluster at a free or given port. `start` returns when it listens.

    On an address that is not loopback, a token is required; if none is given, one is generated. `pipelines`
    are their TOML files or checkpoints; `schemas` decode messages: a registry's URL, or a directory.
    """

    def __init__(
        self,
        properties: Mapping[str, object],
        *,
        host: str = HOST,
        port: int = 0,
        token: str | None = None,
        is_read_only: bool = False,
        history: Path | None = None,
        pipelines: Sequence[str] = (),
        schemas: str | Schemas | None = None,
        every_s: float | None = None,
    ) -> None:
        try:
            import uvicorn

            from ottla.console.app import Console, application
            from ottla.console.sampler import EVERY_S, Sampler
            from ottla.console.security import Gate
        except ImportError as error:
            raise Unsupported(f"{NEEDS} ({error})") from error
        self.token = token or (None if _is_loopback(host) else secrets.token_urlsafe(24))
        self._reader = ClusterReader(
            properties, schemas
        )  # raises for wrong settings, and has no connection yet
        self._socket = _listening(host, port)
        self._sampler = Sampler(self._reader, history, every_s or EVERY_S)
        self._gate = Gate(host, self.token, is_read_only)
        self._console = console = Console(self._reader, self._sampler, self._gate, tuple(pipelines))
        config = uvicorn.Config(
            application(console),
            log_level="warning",
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=5,
            limit_concurrency=512,
            h11_max_incomplete_event_size=65_536,
        )
        self._server: Any = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, name="console", daemon=True)

    @property
    def url(self) -> str:
        """Where it is."""
        host, port = self._socket.getsockname()[:2]
        return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"

    @property
    def snapshot(self) -> ClusterSnapshot:
        """The cluster as it was when the console last looked."""
        return self._sampler.snapshot

    def start(self) -> None:
        """Look at the cluster, and serve."""
        self._sampler.start()
        self._thread.start()

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])

    @property
    def is_running(self) -> bool:
        """Whether it serves."""
        return self._thread.is_alive()

    def close(self) -> None:
        """End it, with all that is open."""
        self._console.is_ended = True
        self._server.should_exit = True
        self._sampler.close()  # wakes threads that wait for it
        if self._thread.is_alive():
            self._thread.join()
        self._socket.close()
        self._reader.close()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listening(host: str, port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(128)  # a connection that comes before the server is ready waits
    except (OSError, OverflowError) as error:
        listening.close()
        raise cannot_listen("the console", host, port, error) from error
    return listening
