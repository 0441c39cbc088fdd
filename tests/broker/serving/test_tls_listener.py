"""Strangers at a listener with TLS do not keep those waiting who are served."""

from __future__ import annotations

import asyncio
import socket
import ssl
from itertools import pairwise

from ottla.broker.serving.tls_listener import Handshakes, TlsListener, bound_sockets


def test_one_connection_is_accepted_in_a_turn_of_the_loop() -> None:
    async def accepted_by_turn() -> list[int]:
        handshakes = Handshakes(asyncio.get_running_loop())
        sockets = await bound_sockets("127.0.0.1", 0)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        listener = TlsListener(sockets, context, asyncio.BufferedProtocol, handshakes, backlog=16)
        await listener.start_serving()
        strangers = [socket.create_connection(sockets[0].getsockname()) for _ in range(8)]
        counts = [0]
        while counts[-1] < len(strangers):
            await asyncio.sleep(0)
            counts.append(len(handshakes))
        listener.close()
        handshakes.close()
        for stranger in strangers:
            stranger.close()
        return counts

    counts = asyncio.run(accepted_by_turn())
    assert max(after - before for before, after in pairwise(counts)) == 1
