"""What was read, checked: every record once, in order, with the value that was written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from ottla.consumer.partition import Replay
from ottla.fetching.chunk_queue import FetchedDataChunk
from ottla.records.messages import MessageAndMetadata

Message = MessageAndMetadata[Any, Any]


def offsets(messages: Iterable[Message], count: int) -> list[int]:
    """The offsets of the next `count` messages."""
    return [message.offset for message in islice(checked(messages), count)]


def checked(messages: Iterable[Message]) -> Iterator[Message]:
    """The same messages; each must have the key and value of its offset, as `Writer` writes them."""
    for message in messages:
        assert message.key == b"k%d" % message.offset
        assert (message.value or b"").startswith(b"v%d-" % message.offset)
        yield message


def column(source: Iterable[FetchedDataChunk] | Replay, name: str = "offset") -> list[Any]:
    """All values of a column."""
    batches = source.batches() if isinstance(source, Replay) else (chunk.batch for chunk in source)
    return [value for batch in batches for value in batch.column(name).to_pylist()]
