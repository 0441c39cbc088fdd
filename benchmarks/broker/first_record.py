"""A client of sockets alone, which waits for a broker to take its first record.

It imports nothing of ottla or of the benchmarks: a process that measures its own start must not have
imported before the clock runs what the broker will import.
"""

from __future__ import annotations

import socket
import time

_POLL_S = 0.001
_SIZE_BYTES = 4


def produce_first(address: tuple[str, int], questions: tuple[bytes, bytes], error_at: int) -> None:
    """Ask for metadata, which creates the topic, and produce, until the error code at `error_at` is 0."""
    metadata, produce = questions
    while True:
        try:
            with socket.create_connection(address) as connection:
                _asked(connection, metadata)
                if _asked(connection, produce)[error_at : error_at + 2] == b"\0\0":
                    return
        except OSError:
            pass  # not there yet
        time.sleep(_POLL_S)


def _asked(connection: socket.socket, request: bytes) -> bytes:
    connection.sendall(request)
    answer = _received(connection, _SIZE_BYTES)
    return answer + _received(connection, int.from_bytes(answer, "big"))


def _received(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        got = connection.recv(count - len(data))
        if not got:
            raise ConnectionError("closed before the end of an answer")
        data += got
    return data
