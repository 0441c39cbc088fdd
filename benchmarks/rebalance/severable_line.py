"""A TCP proxy on localhost that can be cut: both ends stay connected and hear nothing any more."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

HOST = "127.0.0.1"
_BLOCK_BYTES = 65_536


class SeverableLine:
    """Forwards connections to `target` (HOST:PORT); while it is cut, bytes wait in it, both ways."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = host, int(port)
        self._listener = socket.create_server((HOST, 0))
        self.address = f"{HOST}:{self._listener.getsockname()[1]}"
        self._flows = threading.Event()
        self._flows.set()
        self._sockets: list[socket.socket] = []

    def cut(self) -> None:
        """From now on nothing comes through."""
        self._flows.clear()

    def mend(self) -> None:
        """What waited comes through."""
        self._flows.set()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(self._target, 10)
            self._sockets += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._forward, args=(source, sink), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_BLOCK_BYTES):
                self._flows.wait()
                sink.sendall(data)
        self._flows.wait()
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.mend()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        for one in (self._listener, *self._sockets):
            one.close()
