"""A TCP proxy that can cut connections in the middle of an answer, or go silent with them open."""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import dataclass

from ottla.model.closing import Closing


@dataclass(eq=False)
class Pair:
    """A connection through the proxy."""

    client: socket.socket
    broker: socket.socket
    is_silent: bool = False

    def end(self) -> None:
        for side in (self.client, self.broker):
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)


class Proxy(Closing):
    """Listens at once; `target` may be set later. Without one it takes connections and says nothing."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.target: tuple[str, int] | None = None
        self._pairs: list[Pair] = []
        self._lock = threading.Lock()
        self._left: int | None = None
        self.cuts = 0
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def connections(self) -> int:
        """How many there have been."""
        return len(self._pairs)

    def cut_after(self, count: int) -> None:
        """Let so many bytes of answers pass, over all connections, then break the one that is at it."""
        with self._lock:
            self._left = count

    def silence(self) -> None:
        """Pass nothing on any more over the connections that there are; new ones work."""
        for pair in self._pairs:
            pair.is_silent = True

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    broker = socket.create_connection(self.target) if self.target else socket.socket()
                except OSError:
                    client.close()
                    continue
                pair = Pair(client, broker, is_silent=self.target is None)
                self._pairs.append(pair)
                if self.target:
                    for pump in (self._requests, self._answers):
                        threading.Thread(target=pump, args=(pair,), daemon=True).start()

    def _requests(self, pair: Pair) -> None:
        with contextlib.suppress(OSError):
            while data := pair.client.recv(1 << 16):
                if not pair.is_silent:
                    pair.broker.sendall(data)
        pair.end()

    def _answers(self, pair: Pair) -> None:
        with contextlib.suppress(OSError):
            while data := pair.broker.recv(1 << 16):
                if pair.is_silent:
                    continue
                passed = self._allowed(len(data))
                pair.client.sendall(data[:passed])
                if passed < len(data):
                    break
        pair.end()

    def _allowed(self, count: int) -> int:
        with self._lock:
            if self._left is None:
                return count
            passed = min(count, self._left)
            self._left -= passed
            if passed < count:
                self._left = None
                self.cuts += 1
            return passed

    def close(self) -> None:
        """End all connections."""
        self._listener.shutdown(socket.SHUT_RDWR)  # ends the accept that waits
        self._thread.join()
        self._listener.close()
        for pair in self._pairs:
            pair.end()
            pair.client.close()
            pair.broker.close()
