"""What a client may do with a resource, as the protocol says it: one bit for each operation.

The numbers are those of Kafka's ACLs. A cluster without an authorizer permits every operation that a kind of
resource has.
"""

from __future__ import annotations

from enum import IntEnum


class Operation(IntEnum):
    """An operation of Kafka's ACLs; its value is the number of its bit. ANY is for filters, ALL for rules."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


def bits(*operations: Operation) -> int:
    """Return a bit field with the bits of `operations`."""
    return sum(1 << operation for operation in operations)


NOT_ASKED = -(2**31)
"""The value for a client that did not ask what it may do."""
_CONFIGS = (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
TOPIC_OPERATIONS = bits(
    *(Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER),
    *(Operation.DESCRIBE, *_CONFIGS),
)
GROUP_OPERATIONS = bits(Operation.READ, Operation.DELETE, Operation.DESCRIBE, *_CONFIGS)
CLUSTER_OPERATIONS = bits(
    *(Operation.CREATE, Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION),
    *(Operation.IDEMPOTENT_WRITE, *_CONFIGS),
)


def permitted(operations: int, *, is_asked: bool) -> int:
    """Return the operations if the client has asked for them, else NOT_ASKED."""
    return operations if is_asked else NOT_ASKED
