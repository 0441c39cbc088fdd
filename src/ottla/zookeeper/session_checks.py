"""Checks of every session, before a request is sent and after an answer arrived, so that all
refuse the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.model.errors import ConfigError
from ottla.zookeeper.paths import checked_path
from ottla.zookeeper.session import CreateOperation, Operation, SessionLimits, SetOperation
from ottla.zookeeper.zookeeper_errors import LimitExceeded


def check_data(limits: SessionLimits, path: str, data: bytes) -> None:
    """Refuse data above the limit, whether it is about to be sent or was received."""
    if len(data) > limits.data_bytes_max:
        raise LimitExceeded(
            f"{path}: {len(data)} bytes of data are more than the limit of {limits.data_bytes_max}"
        )


def check_children(limits: SessionLimits, path: str, count: int) -> None:
    """Refuse a list of children above the limit."""
    if count > limits.children_max:
        raise LimitExceeded(f"{path}: {count} children are more than the limit of {limits.children_max}")


def check_new_path(path: str) -> None:
    """Refuse the root, which always exists: it can neither be created nor deleted."""
    if checked_path(path) == "/":
        raise ConfigError("the root '/' can be neither created nor deleted")


def check_operations(limits: SessionLimits, operations: Sequence[Operation]) -> None:
    """Refuse a transaction with too many operations, too much data in all, or an invalid path."""
    if len(operations) > limits.operations_max:
        raise LimitExceeded(
            f"a transaction of {len(operations)} operations is more than the limit of {limits.operations_max}"
        )
    size_bytes = 0
    for operation in operations:
        checked_path(operation.path)
        # Paths count too: they travel in the same request, under the server's one limit.
        size_bytes += len(operation.path.encode())
        if isinstance(operation, CreateOperation | SetOperation):
            check_data(limits, operation.path, operation.data)
            size_bytes += len(operation.data)
    if size_bytes > limits.data_bytes_max:
        raise LimitExceeded(
            f"a transaction of {size_bytes} bytes is more than the limit of {limits.data_bytes_max}"
        )
