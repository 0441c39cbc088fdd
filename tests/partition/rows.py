"""What was read, checked: every record once, in order, with the value that was written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import pyarrow as pa

from ottla.records.messages import MessageAndMetadata

Message = MessageAndMetadata[Any, Any]


def offsets(messages: Iterable[Message], count: int) -> list[int]:
    """The offsets of so many messages."""
    return [one.offset for one in islice(checked(messages), count)]


def checked(messages: Iterable[Message]) -> Iterator[Message]:
    """The same messages; each must have the key and value of its offset, as `Writer` writes them."""
    for one in messages:
        assert one.key == b"k%d" % one.offset
        assert one.value.startswith(b"v%d-" % one.offset)
        yield one


def column(batches: Iterable[pa.RecordBatch], name: str = "offset") -> list[Any]:
    """All values of a column."""
    return [value for batch in batches for value in batch.column(name).to_pylist()]
