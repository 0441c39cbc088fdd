"""Requests with very many elements are handled in parts, one in each turn of the loop, and answered whole.

A `Division` says along which lists the requests of an API can be divided, and which lists of the answers
belong together. It is for APIs that treat every element by itself. Fetch, Produce, Metadata and changes of
topics have slices of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.wire.declared_class import replaced

ListPath = tuple[str, ...]
"""The name of a list, of a list in its elements, and so on."""


@dataclass(frozen=True, slots=True)
class Division:
    """Divides requests along the list `requested`, and joins their answers along `answered`.

    at_once   elements of a part: a few milliseconds of work
    """

    requested: ListPath
    answered: ListPath
    at_once: int = 500

    def is_long(self, request: Any) -> bool:
        """Whether a request has more elements than a part."""
        return _count(getattr(request, self.requested[0]), self.requested[1:]) > self.at_once

    def parts(self, request: Any) -> Iterator[Any]:
        """Yield requests that together are this one."""
        name, *inner = self.requested
        for some in _divided(getattr(request, name), tuple(inner), self.at_once):
            yield replaced(request, **{name: some})

    def joined(self, answers: Sequence[Any]) -> Any:
        """Return one answer made of several. An error of the whole request is that of any part."""
        whole = next((answer for answer in answers if getattr(answer, "error_code", 0)), answers[0])
        name, *inner = self.answered
        items = getattr(answers[0], name)
        for answer in answers[1:]:
            _join(items, getattr(answer, name), tuple(inner))
        setattr(whole, name, items)
        return whole


def _count(items: Sequence[Any] | None, path: ListPath) -> int:
    """How many elements the innermost lists have in all; an empty one counts as one."""
    if not items or not path:
        return len(items or ())
    return sum(_count(getattr(item, path[0]), path[1:]) or 1 for item in items)


def _divided(items: Sequence[Any], path: ListPath, size: int) -> Iterator[list[Any]]:
    part: list[Any] = []
    room = size
    for item in items:
        inner = getattr(item, path[0]) if path else None
        count = _count(inner, path[1:]) or 1
        if part and count > room:
            yield part
            part, room = [], size
        if inner and count > size:
            for some in _divided(inner, path[1:], size):
                yield [replaced(item, **{path[0]: some})]
        else:
            part.append(item)
            room -= count
    if part:
        yield part


def _join(items: list[Any], more: list[Any], path: ListPath) -> None:
    """Add elements to a list. One that was divided becomes one again."""
    if path and items and more and _is_same(items[-1], more[0], path[0]):
        _join(getattr(items[-1], path[0]), getattr(more[0], path[0]), path[1:])
        more = more[1:]
    items += more


def _is_same(item: Any, other: Any, inner: str) -> bool:
    return bool(replaced(item, **{inner: []}) == replaced(other, **{inner: []}))
