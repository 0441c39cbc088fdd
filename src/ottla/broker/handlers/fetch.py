"""Fetch, key 1: read record sets, waiting until enough has arrived.

Versions: 0 to 18. 0 and 1 get format 0, 2 and 3 format 1, which cannot have zstd; the others get what is
stored, zstd too: by the book it needs 10, but Kafka sends it, and clients that stay at 4 can read it. Up to
2 a first batch that is too large is cut, from 3 on it comes whole. From 13 on topics are named by id.
Behaviour: bytes come straight from the segment file, undecoded. From 7 on a client may begin a session, and
then names only what has changed (`serving.fetch_sessions`). A session ends by a fetch of epoch -1, and with
the connection that began it: a killed client leaves no session behind. With replica.selector.class a leader
names the replica of a client's rack, and from 11 on replicas are read too. Readers of committed data get
nothing from the last stable offset on, and are told which transactions were aborted.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import cast

from ottla.broker.serving.fetch_sessions import FINAL_EPOCH, FIRST_EPOCH, FetchSessions
from ottla.broker.serving.handler import Handler, Inquiry
from ottla.broker.serving.long_poll import (
    IDS_SINCE,
    FetchAttempt,
    WaitingFetch,
    attempt,
    attempt_in_steps,
    empty_answer,
    is_long,
)
from ottla.model.error_codes import Code
from ottla.wire.api.fetch import FetchRequest, FetchResponse, FetchTopicResponse
from ottla.wire.schema import Response


def handle(inquiry: Inquiry, request: FetchRequest) -> FetchResponse | None:
    """Answer at once with enough bytes or with an error; wait otherwise."""
    if request.session_epoch == FINAL_EPOCH:
        if request.session_id:
            inquiry.broker.sessions.drop(request.session_id)
        return _read(inquiry, request)
    sessions, now_ms = inquiry.broker.sessions, inquiry.broker.runtime.now_ms()
    uses_ids = inquiry.version >= IDS_SINCE
    if request.session_epoch == FIRST_EPOCH:
        sessions.drop(request.session_id)
        return SessionInquiry(inquiry, partial(_begin, inquiry, request)).read(request)
    session = sessions.go_on(request, uses_ids=uses_ids, now_ms=now_ms)
    if isinstance(session, Code):
        return FetchResponse(error_code=session)
    whole = FetchRequest(
        max_wait_ms=request.max_wait_ms,
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes,
        isolation_level=request.isolation_level,
        topics=session.topics(),
        rack_id=request.rack_id,
    )
    if not session.partitions:
        return _read(inquiry, whole)
    return SessionInquiry(inquiry, session.news).read(whole)


def _begin(inquiry: Inquiry, request: FetchRequest, response: FetchResponse) -> FetchResponse:
    """Return the answer to a full fetch; it names a session, which ends with the connection at the latest.

    Clients have a session per connection. Of several, the last is remembered here, and the others end when
    their slots are needed.
    """
    sessions, link = inquiry.broker.sessions, inquiry.link
    if link.has_left:
        return response
    now_ms, uses_ids = inquiry.broker.runtime.now_ms(), inquiry.version >= IDS_SINCE
    response = sessions.begin(request, response, uses_ids=uses_ids, now_ms=now_ms)
    if response.session_id:
        link.on_leave[FetchSessions] = partial(sessions.drop, response.session_id)
    return response


class SessionInquiry(Inquiry):
    """A fetch of a session: its answer is made smaller, or begins the session, before it leaves."""

    __slots__ = ("_shaped",)

    def __init__(self, whole: Inquiry, shaped: Callable[[FetchResponse], FetchResponse]) -> None:
        super().__init__(whole.broker, whole.link, whole.call)
        self._shaped = shaped

    def read(self, request: FetchRequest) -> FetchResponse | None:
        """Answer, or wait."""
        response = _read(self, request)
        return None if response is None else self._shaped(response)

    def reply(self, response: Response) -> None:
        """Answer after the handler has returned."""
        super().reply(self._shaped(cast(FetchResponse, response)))

    def reply_large(self, response: Response) -> None:
        """Answer after the handler has returned; a thread encodes the answer."""
        super().reply_large(self._shaped(cast(FetchResponse, response)))


def _read(inquiry: Inquiry, request: FetchRequest) -> FetchResponse | None:
    if is_long(request):
        inquiry.reply_in_slices(_in_slices(inquiry, request))
        return None
    return _answer(inquiry, request, attempt(inquiry, request))


def _in_slices(inquiry: Inquiry, request: FetchRequest) -> Generator[None, None, FetchResponse | None]:
    return _answer(inquiry, request, (yield from attempt_in_steps(inquiry, request)))


def _answer(inquiry: Inquiry, request: FetchRequest, first: FetchAttempt) -> FetchResponse | None:
    if first.is_enough(request) or inquiry.link.has_left:
        return first.finish(inquiry)
    WaitingFetch(inquiry, request, first)
    return None


SESSIONS_SINCE = 7
SESSION_ERRORS = frozenset(
    {
        Code.FETCH_SESSION_ID_NOT_FOUND,
        Code.INVALID_FETCH_SESSION_EPOCH,
        Code.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


def refuse(request: FetchRequest, error: Code, version: int) -> FetchResponse:
    """One error for every partition; errors of fetch sessions are for the whole request, as in Kafka."""
    topics = [
        FetchTopicResponse(
            topic=topic.topic,
            topic_id=topic.topic_id,
            partitions=[empty_answer(wanted.partition, error) for wanted in topic.partitions],
        )
        for topic in request.topics
    ]
    is_of_session = version >= SESSIONS_SINCE and error in SESSION_ERRORS
    return FetchResponse(
        responses=[] if is_of_session else topics, error_code=error if is_of_session else Code.NONE
    )


def fail(inquiry: Inquiry, request: FetchRequest, error: Code) -> FetchResponse:
    """Answer a fault: the error is for every partition of the session, which goes on."""
    if request.session_epoch in (FIRST_EPOCH, FINAL_EPOCH) or error in SESSION_ERRORS:
        return refuse(request, error, inquiry.version)
    broker, uses_ids = inquiry.broker, inquiry.version >= IDS_SINCE
    session = broker.sessions.go_on(request, uses_ids=uses_ids, now_ms=broker.runtime.now_ms())
    if isinstance(session, Code):
        return FetchResponse(error_code=session)
    return session.news(refuse(FetchRequest(topics=session.topics()), error, inquiry.version))


HANDLER = Handler(handle, refuse, fail=fail)
