"""What a row of the access table can say, and how it is applied to a request and to its answer.

Whole     one check for the whole request; if it fails, the whole request is refused
Each      a check for each element of a list; elements that fail are taken out of the request, and answered
          with an error
Shown     elements of the answer that a client may not see are left out
Allowed   a field of the answer that says what the client may do with a resource
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ottla.model.acls import CLUSTER_NAME, ResourceType
from ottla.model.error_codes import Code
from ottla.model.permissions import (
    CLUSTER_OPERATIONS,
    GROUP_OPERATIONS,
    NOT_ASKED,
    TOPIC_OPERATIONS,
    Operation,
)

ERRORS = {
    ResourceType.TOPIC: Code.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: Code.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: Code.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
_POSSIBLE = {
    ResourceType.TOPIC: TOPIC_OPERATIONS,
    ResourceType.GROUP: GROUP_OPERATIONS,
    ResourceType.CLUSTER: CLUSTER_OPERATIONS,
}


class Asker(Protocol):
    """The client of a call, and what the rules may ask about it."""

    version: int

    @property
    def names_topics(self) -> bool:
        """Whether an OffsetFetch request names topics; else it asks for all."""

    def may(
        self, operation: Operation, resource: ResourceType, name: str = CLUSTER_NAME, *, logs: bool = True
    ) -> bool:
        """Whether the client may do something."""

    def may_any(self, operation: Operation, resource: ResourceType) -> bool:
        """Whether the client may do something with any resource of a kind."""

    def operations(self, possible: int, resource: ResourceType, name: str) -> int:
        """Return the operations that the client may do, as bits."""

    def topic(self, item: Any) -> str | None:
        """Return the name of a topic that is given by name or id; None if there is no such id."""

    def creates(self, request: Any, name: str) -> bool:
        """Whether a Metadata request would create a topic."""


@dataclass(frozen=True, slots=True)
class Whole:
    """Refuses the whole request with the error unless the test passes."""

    test: Callable[[Asker, Any], bool]
    error: Code


@dataclass(frozen=True, slots=True)
class Each:
    """The elements of `requested` that fail the test are answered with the error, in the list `answered`.

    error    a code, or a function that gives that of an element
    """

    requested: str
    answered: str
    test: Callable[[Asker, Any, Any], bool]
    error: Code | Callable[[Asker, Any], Code]

    def divided(self, asker: Asker, request: Any) -> tuple[list[Any], list[Any]]:
        """Return the elements that may be handled, and the others."""
        allowed: list[Any] = []
        denied: list[Any] = []
        for item in getattr(request, self.requested) or ():
            (allowed if self.test(asker, request, item) else denied).append(item)
        return allowed, denied

    def error_of(self, asker: Asker, item: Any) -> Code:
        """Return the error of an element that is not allowed."""
        return self.error if isinstance(self.error, Code) else self.error(asker, item)


@dataclass(frozen=True, slots=True)
class OnlyVisible:
    """Keeps only the elements that pass the test, in a list of the answer, or in lists of its elements."""

    path: Sequence[str]
    test: Callable[[Asker, Any], bool]

    def apply(self, asker: Asker, answer: Any) -> None:
        """Take out what the client may not see."""
        *outer, last = self.path
        for holder in _holders(answer, outer):
            items = getattr(holder, last)
            if items:
                setattr(holder, last, [item for item in items if self.test(asker, item)])


@dataclass(frozen=True, slots=True)
class Allowed:
    """The field that says what the client may do: of the answer, or of the elements of its list `holders`."""

    field: str
    resource: ResourceType
    holders: str = ""
    name: str = ""

    def apply(self, asker: Asker, answer: Any) -> None:
        """Set what the client may do, if it asked for that."""
        for holder in _holders(answer, [self.holders] if self.holders else []):
            if getattr(holder, self.field) == NOT_ASKED:
                continue
            name = getattr(holder, self.name) or "" if self.name else CLUSTER_NAME
            setattr(holder, self.field, self._bits(asker, name))

    def _bits(self, asker: Asker, name: str) -> int:
        if self.resource is ResourceType.CLUSTER and not asker.may(
            Operation.DESCRIBE, self.resource, logs=False
        ):
            return 0
        return asker.operations(_POSSIBLE[self.resource], self.resource, name)


def _as_it_is(request: Any) -> Any:
    return request


@dataclass(frozen=True, slots=True)
class Access:
    """The rules of one API. `prepare` changes a request before it is checked."""

    whole: tuple[Whole, ...] = ()
    each: tuple[Each, ...] = ()
    answer: tuple[OnlyVisible | Allowed, ...] = ()
    prepare: Callable[[Any], Any] = _as_it_is

    def refused(self, asker: Asker, request: Any) -> Code | None:
        """Return the error of the whole request, or None."""
        return next((rule.error for rule in self.whole if not rule.test(asker, request)), None)

    def finish(self, asker: Asker, answer: Any) -> None:
        """Apply the rules about the answer."""
        for rule in self.answer:
            rule.apply(asker, answer)


def _holders(answer: Any, path: Sequence[str]) -> Iterator[Any]:
    if not path:
        yield answer
        return
    for item in getattr(answer, path[0]) or ():
        yield from _holders(item, path[1:])
