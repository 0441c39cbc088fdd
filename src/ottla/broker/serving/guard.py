"""The one place where the access table is applied: before a handler gets a request, and to its answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ottla.broker.security.access_rules import Access, Each
from ottla.broker.security.access_table import ACCESS, CLOSED
from ottla.broker.security.authorizer import Authorizer, log_admin, log_denied
from ottla.broker.serving.express_lane import ExpressLane
from ottla.broker.serving.handler import DropConnection, Handler, Inquiry, PartInquiry
from ottla.model.acls import CLUSTER_NAME, ResourceType
from ottla.model.error_codes import Code
from ottla.model.permissions import Operation
from ottla.wire.declared_class import replaced
from ottla.wire.schema import Response

NO_ID = bytes(16)
SEVERAL_GROUPS_SINCE = 8
ADMIN_KEYS = frozenset({19, 20, 21, 30, 31, 33, 37, 42, 43, 44, 45, 47, 49, 51, 57})
"""APIs that change the cluster: each call is in the audit log."""


class InquirySubject:
    """The client of a call (`access_rules.Asker`)."""

    def __init__(self, inquiry: Inquiry, authorizer: Authorizer) -> None:
        self._inquiry = inquiry
        self._authorizer = authorizer
        self._who = (inquiry.link.principal, inquiry.link.peer_host)
        self.version = inquiry.version

    @property
    def names_topics(self) -> bool:
        """Whether an OffsetFetch request names topics; else it asks for all."""
        request: Any = self._inquiry.call.message
        if self.version < SEVERAL_GROUPS_SINCE:
            return request.topics is not None
        return any(group.topics is not None for group in request.groups)

    def may(
        self, operation: Operation, resource: ResourceType, name: str = CLUSTER_NAME, *, logs: bool = True
    ) -> bool:
        """Whether the client may do something. A refusal that it will notice is logged."""
        is_allowed = self._authorizer.allows(*self._who, operation, resource, name)
        if logs and not is_allowed:
            log_denied(*self._who, operation, resource, name, self._inquiry.call.api.name)
        return is_allowed

    def may_any(self, operation: Operation, resource: ResourceType) -> bool:
        """Whether the client may do something with any resource of a kind."""
        return self._authorizer.allows_any(*self._who, operation, resource)

    def operations(self, possible: int, resource: ResourceType, name: str) -> int:
        """Return the operations that the client may do, as bits."""
        return self._authorizer.operations(*self._who, possible, resource, name)

    def topic(self, item: Any) -> str | None:
        """The name of a topic that is named, or named by its id; None if there is no such id."""
        name: str | None = getattr(item, "name", None) or getattr(item, "topic", None)
        topic_id = getattr(item, "topic_id", NO_ID)
        if name and topic_id == NO_ID:
            return name
        return self._inquiry.broker.store.topic_names.get(bytes(topic_id), name or None)

    def creates(self, request: Any, name: str) -> bool:
        """Whether a Metadata request would create a topic."""
        store = self._inquiry.broker.store
        wanted = bool(request.allow_auto_topic_creation and store.config.auto_create_topics)
        return wanted and name not in store.partitions


class Denied(NamedTuple):
    """Elements of a request that are not handled, in the list of the answer that has them."""

    answered: str
    items: Sequence[Any]


class GuardedCall:
    """A call of a client, if there is an authorizer.

    `handle` replaces the handler's, and allows only what the client may do.
    """

    def __init__(self, inquiry: Inquiry, handler: Handler, authorizer: Authorizer) -> None:
        self._inquiry = inquiry
        self._handler = handler
        self._subject = InquirySubject(inquiry, authorizer)
        self._access: Access = ACCESS.get(inquiry.call.api.key, CLOSED)
        self._denied: list[Denied] = []

    def handle(self) -> Response | None:
        """Return the answer, or None if it comes later. Raises DropConnection where no answer can refuse."""
        inquiry, request = self._inquiry, self._access.prepare(self._inquiry.call.message)
        error = self._access.refused(self._subject, request)
        if error is not None:
            return self._refused(request, error)
        allowed = request
        for rule in self._access.each:
            allowed = self._divided(rule, allowed)
        if self._denied:
            if not inquiry.call.expects_response:
                raise DropConnection(
                    f"{inquiry.link.principal} may not do what it asked, and wants no answer"
                )
            if not self._has_work(allowed):
                return self._joined(self._refused_list(request))
        if inquiry.call.api.key in ADMIN_KEYS:
            log_admin(inquiry.link.principal, inquiry.link.peer_host, inquiry.call.api.name)
        part = PartInquiry(inquiry, allowed, self._reply) if self._waits else inquiry
        answer = self._handler.handle(part, allowed)
        return None if answer is None else self._joined(answer)

    @property
    def _waits(self) -> bool:
        """Whether the answer has to pass through here."""
        return bool(self._denied or self._access.answer)

    def _reply(self, answer: Response) -> None:
        self._inquiry.reply(self._joined(answer))

    def _divided(self, rule: Each, request: Any) -> Any:
        allowed, denied = rule.divided(self._subject, request)
        if not denied:
            return request
        for item in denied:
            part = replaced(request, **{rule.requested: [item]})
            refusal = self._handler.refuse(part, rule.error_of(self._subject, item), self._inquiry.version)
            self._denied.append(Denied(rule.answered, getattr(refusal, rule.answered)))
        return replaced(request, **{rule.requested: allowed})

    def _has_work(self, request: Any) -> bool:
        return any(getattr(request, rule.requested) for rule in self._access.each)

    def _refused_list(self, request: Any) -> Response:
        """Return the answer to a request of which nothing is left: as to an empty request."""
        empty = replaced(
            request, **{rule.requested: [] for rule in self._access.each if getattr(request, rule.requested)}
        )
        if self._handler.fail is not None:
            return self._handler.fail(self._inquiry, empty, Code.NONE)
        return self._handler.refuse(empty, Code.NONE, self._inquiry.version)

    def _refused(self, request: Any, error: Code) -> Response:
        if not self._inquiry.call.expects_response:
            raise DropConnection(f"{self._inquiry.link.principal} is refused, and wants no answer")
        return self._handler.refuse(request, error, self._inquiry.version)

    def _joined(self, answer: Any) -> Response:
        self._access.finish(self._subject, answer)
        for denied in self._denied:
            getattr(answer, denied.answered).extend(denied.items)
        self._denied = []
        result: Response = answer
        return result


def guarded(authorizer: Authorizer, handler: Handler, inquiry: Inquiry, _request: object) -> Response | None:
    """Handle a call within what its client may do: in the place of `handler.handle`."""
    return GuardedCall(inquiry, handler, authorizer).handle()


class GuardedLane:
    """The express lane of a connection whose client may lose its rights: after a change it forgets all
    shapes.
    """

    def __init__(self, lane: ExpressLane, authorizer: Authorizer) -> None:
        self._lane = lane
        self._authorizer = authorizer
        self._changes = authorizer.changes

    def take(self, frame: memoryview, sequence: int) -> bool:
        """Stage a frame's request if its shape was allowed under the current rules."""
        if self._changes != self._authorizer.changes:
            self._changes = self._authorizer.changes
            self._lane.forget()
        return self._lane.take(frame, sequence)
