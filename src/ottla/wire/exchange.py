"""The facts of one request that client and server need besides its bytes: whether it is answered,
and its id.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ottla.wire.api.produce import ProduceRequest
from ottla.wire.schema import Api, Request

CORRELATION_ID_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request, as its header describes it."""

    api: Api
    version: int
    correlation_id: int

    def __str__(self) -> str:
        return f"{self.api.name} v{self.version} #{self.correlation_id}"


def expects_response(request: Request[Any]) -> bool:
    """Whether the protocol has an answer to this request.

    The one exception is Produce with acks=0; the broker shows a failure of it by closing the connection.
    """
    return not (isinstance(request, ProduceRequest) and request.acks == 0)


def following(correlation_id: int) -> int:
    """Return the next correlation id; an int32, which wraps to 0 and is never negative."""
    return (correlation_id + 1) & CORRELATION_ID_MAX
