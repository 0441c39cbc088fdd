"""A TCP proxy between any two parts: it delays, throttles, cuts inside of frames, goes silent, duplicates.

Kafka's clients learn the addresses of brokers from them: a broker behind a line has the line's address as its
`advertised.listeners`.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import dataclass
from random import Random

from ottla.model.closing import Closing

HOST = "127.0.0.1"
BLOCK_BYTES = 1 << 16
# What `spoil` does, unless it is told otherwise.
CUT_WITHIN_BYTES = 4_000
DELAY_S = (0.02, 0.2)
THROTTLED_BYTES_PER_S = 40_000
SLICES_PER_S = 20
"""A throttled line passes bytes on so often."""


@dataclass(eq=False)
class Pair:
    """A connection through the line. `twin` is told the same requests first; its answers go nowhere."""

    client: socket.socket
    broker: socket.socket
    twin: socket.socket | None = None
    is_silent: bool = False

    def sides(self) -> list[socket.socket]:
        return [self.client, self.broker, *([self.twin] if self.twin else [])]

    def end(self) -> None:
        for side in self.sides():
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.end()
        for side in self.sides():
            side.close()


class Allowance:
    """How many bytes may pass in a direction before a connection breaks; None is no limit."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left: int | None = None

    def set(self, count: int | None) -> None:
        with self._lock:
            self._left = count

    def take(self, count: int) -> int:
        """How many of these bytes may pass. With less than all the limit is used up, and gone."""
        with self._lock:
            if self._left is None:
                return count
            passed = min(count, self._left)
            self._left = self._left - passed if passed == count else None
            return passed


class FaultyLine(Closing):
    """Listens at once; `target` may be set later. Without one it takes connections and says nothing.

    `delay_s` is how late bytes arrive, `bytes_per_s` (0: no limit) how many pass on each connection. While
    `duplicates` is set, the requests on new connections are sent twice, over two connections.
    """

    def __init__(self, target: str = "") -> None:
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self.address = f"{HOST}:{self.port}"
        host, _, port = target.rpartition(":")
        self.target = (host, int(port)) if target else None
        self.delay_s = 0.0
        self.bytes_per_s = 0
        self.duplicates = False
        self._pairs: list[Pair] = []
        self._requests, self._answers = Allowance(), Allowance()
        self._pause = threading.Event()
        self.connections = self.cuts = 0
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def cut_after(self, count: int) -> None:
        """Let so many bytes of answers pass, over all connections, then break the one that is at it."""
        self._answers.set(count)

    def cut_requests_after(self, count: int) -> None:
        """The same for requests: a broker gets the beginning of one."""
        self._requests.set(count)

    def silence(self) -> None:
        """Pass nothing on any more over the connections that there are; new ones work."""
        for pair in [*self._pairs]:
            pair.is_silent = True

    def cut(self) -> None:
        """Break all connections."""
        for pair in [*self._pairs]:
            pair.end()

    def spoil(
        self,
        chance: Random,
        cut_within: int = CUT_WITHIN_BYTES,
        bytes_per_s: int = THROTTLED_BYTES_PER_S,
        *,
        duplicates: bool = False,
    ) -> None:
        """Let something go wrong until `mend`: a cut within so many bytes, silence, a delay, a low speed.

        Or requests are sent twice, if `duplicates` says that the peers know what to do with that.
        """
        kinds = ["cut answers", "cut requests", "silence", "delay", "throttle"]
        match chance.choice([*kinds, "duplicate"] if duplicates else kinds):
            case "cut answers":
                self.cut_after(chance.randrange(1, cut_within))
            case "cut requests":
                self.cut_requests_after(chance.randrange(1, cut_within))
            case "silence":
                self.silence()
            case "delay":
                self.delay_s = chance.uniform(*DELAY_S)
            case "throttle":
                self.bytes_per_s = bytes_per_s
            case _:
                self.duplicates = True
                self.cut()

    def mend(self) -> None:
        """From now on the line is sound. What it has broken stays broken, connections with a twin too."""
        self.delay_s, self.bytes_per_s, self.duplicates = 0.0, 0, False
        self._requests.set(None)
        self._answers.set(None)
        for pair in [*self._pairs]:
            if pair.twin:
                pair.end()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                try:
                    pair = self._joined(client)
                except OSError:
                    client.close()
                    continue
                self._pairs = [each for each in self._pairs if each.client.fileno() >= 0] + [pair]
                if self.target:
                    threading.Thread(target=self._serve, args=(pair,), daemon=True).start()

    def _joined(self, client: socket.socket) -> Pair:
        if self.target is None:
            return Pair(client, socket.socket(), is_silent=True)
        twin = socket.create_connection(self.target) if self.duplicates else None
        return Pair(client, socket.create_connection(self.target), twin)

    def _serve(self, pair: Pair) -> None:
        """Pass everything on until an end of it closes."""
        pumps = [
            threading.Thread(target=self._pump, args=(pair, pair.broker, [pair.client], self._answers)),
        ]
        if pair.twin:
            pumps.append(threading.Thread(target=self._pump, args=(pair, pair.twin, [], Allowance())))
        for pump in pumps:
            pump.daemon = True
            pump.start()
        to = [pair.twin, pair.broker] if pair.twin else [pair.broker]
        self._pump(pair, pair.client, to, self._requests)
        for pump in pumps:
            pump.join()
        pair.close()

    def _pump(self, pair: Pair, source: socket.socket, to: list[socket.socket], allowed: Allowance) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(self.bytes_per_s // SLICES_PER_S or BLOCK_BYTES):
                if pair.is_silent:
                    continue
                if self.delay_s:
                    self._pause.wait(self.delay_s)
                if self.bytes_per_s:
                    self._pause.wait(1 / SLICES_PER_S)
                passed = allowed.take(len(data))
                for side in to:
                    side.sendall(data[:passed])
                if passed < len(data):
                    self.cuts += 1
                    break
        pair.end()

    def close(self) -> None:
        """End all connections."""
        self._pause.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # ends the accept that waits
        self._thread.join()
        self._listener.close()
        for pair in self._pairs:
            pair.close()
