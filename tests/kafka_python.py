"""kafka-python, as far as tests use it in their own process, without the two warnings that it causes."""

from __future__ import annotations

import socket
import warnings

with warnings.catch_warnings():
    # It reads its own files by a function that the standard library deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
    from kafka.net.inet import KafkaNetSocket

__all__ = ["KafkaAdminClient", "KafkaConsumer", "KafkaProducer", "kafka"]


class _QuietSocket(socket.socket):
    """Closes itself without a warning.

    kafka-python drops sockets that are still connecting when a broker goes away or a client is closed. The
    garbage collector would report them in whichever test runs at that moment.
    """

    def __del__(self) -> None:
        self.close()


def _make_socket(
    _self: KafkaNetSocket,
    family: int = socket.AF_UNSPEC,
    sock_type: int = socket.SOCK_STREAM,
    proto: int = socket.IPPROTO_TCP,
) -> socket.socket:
    return _QuietSocket(family, sock_type, proto)


KafkaNetSocket.socket = _make_socket
