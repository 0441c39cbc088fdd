"""Which broker coordinates a group or a transactional id: one request to any broker. Pure."""

from __future__ import annotations

from enum import IntEnum

from ottla.model.cluster_view import BrokerNode
from ottla.model.errors import KafkaError, RemoteProtocolError
from ottla.wire.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

_KINDS_SINCE = 1
_LISTS_SINCE = 4


class CoordinatorKind(IntEnum):
    """What is coordinated. The numbers are the protocol's."""

    GROUP = 0
    TRANSACTION = 1


def coordinator_request(key: str, kind: CoordinatorKind, version: int) -> FindCoordinatorRequest:
    """Return the request for one coordinator."""
    request = FindCoordinatorRequest()
    if version >= _LISTS_SINCE:
        request.coordinator_keys = [key]
    else:
        request.key = key
    if version >= _KINDS_SINCE or kind is not CoordinatorKind.GROUP:
        request.key_type = int(kind)
    return request


def coordinator_of(
    answer: FindCoordinatorResponse, key: str, kind: CoordinatorKind, version: int
) -> BrokerNode:
    """Return the coordinator that an answer names. Raises KafkaError, RemoteProtocolError."""
    if version < _LISTS_SINCE:
        _check(answer.error_code, answer.error_message, key, kind)
        return BrokerNode(answer.node_id, answer.host, answer.port)
    for coordinator in answer.coordinators:
        if coordinator.key == key:
            _check(coordinator.error_code, coordinator.error_message, key, kind)
            return BrokerNode(coordinator.node_id, coordinator.host, coordinator.port)
    raise RemoteProtocolError(f"the FindCoordinator response does not have {key!r}")


def _check(code: int, message: str | None, key: str, kind: CoordinatorKind) -> None:
    if code:
        because = f" ({message})" if message else ""
        raise KafkaError(code, f"the coordinator of {kind.name.lower()} {key!r}{because}")
