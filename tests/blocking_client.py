"""A blocking client that speaks what its broker speaks: one connection, one call at a time.

    with BlockingClient("127.0.0.1", 9092) as client:
        answer = client.call(MetadataRequest(topics=None))

It finds no leaders and retries nothing: for tests that know whom they ask.
"""

from __future__ import annotations

from typing import Any

from ottla import __version__
from ottla.wire.negotiation import Discovery, ProbeLink, Question
from ottla.wire.schema import Api, Request
from tests.broker.wire_client import TIMEOUT_S, Client


class BlockingClient(Client):
    """Connects at once, and asks for the broker's versions. Not thread-safe.

    Raises OSError where the network fails, RemoteProtocolError where the peer is no Kafka broker.
    """

    def __init__(
        self, host: str, port: int, *, client_id: str = "ottla", timeout_s: float = TIMEOUT_S
    ) -> None:
        super().__init__(host, port, client_id, timeout_s)
        try:
            self._discover()
        except BaseException:
            self.close()
            raise

    def _discover(self) -> None:
        discovery = Discovery(software_version=__version__)
        plan = discovery.start()
        is_fresh = True
        while isinstance(plan, Question):
            if plan.link is ProbeLink.NEW and not is_fresh:
                self.close()
                self.connect()
            is_fresh = False
            try:
                plan = discovery.answered(self.call(plan.request, plan.version))
            except TimeoutError:
                plan = discovery.silent()
            except ConnectionError:
                plan = discovery.closed()
        self._wire.adopt(plan.versions)

    def version_for(self, api: Api) -> int:
        """The version in which an API will be called. Raises LocalProtocolError if the broker has none."""
        return self._wire.version_for(api)

    def send(self, request: Request[Any], version: int | None = None) -> None:
        """In the newest version that both sides have, unless one is named."""
        super().send(request, self.version_for(request.API) if version is None else version)
