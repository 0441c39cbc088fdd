"""What a handler is, and what it gets.

Every module of `ottla.broker.handlers` serves one API key, by its `HANDLER`. A handler sees the
call, the broker that got it (`ServedBroker`) and the client's connection (`ClientLink`), and nothing else.
"""

from __future__ import annotations

import logging
from asyncio import Future
from collections.abc import Callable, Generator, Hashable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from ottla.broker.coordination.effects import Caller
from ottla.broker.security.principal import Principal
from ottla.broker.serving.client_quotas import MutationQuota
from ottla.broker.serving.division import Division
from ottla.broker.serving.served_broker import ServedBroker
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, OttlaError, StorageError
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.schema import Request, Response
from ottla.wire.server_connection import ReceivedRequest

if TYPE_CHECKING:
    from ottla.broker.serving.login_gate import LoginGate

log = logging.getLogger(__name__)


class DropConnection(OttlaError):
    """A handler has no answer that the client would understand: the connection is closed, as Kafka does."""


class Cancellable(Protocol):
    """A call that waits, and can be cancelled."""

    def cancel(self) -> None:
        """Stop waiting: the client has left."""


class ClientLink(Protocol):
    """What a handler may use of the client's connection.

    `parked` is the fetch that waits for more records; it is cancelled when the client leaves. `has_left` says
    whether the client has left already. `listener` is the name of the listener that it came to, `principal`
    who it is, `login_gate` its login if the listener asks for one. `on_leave` is called when it leaves.
    """

    peer_host: str
    listener: str
    principal: Principal
    login_gate: LoginGate | None
    has_left: bool
    parked: Cancellable | None
    on_leave: dict[Hashable, Callable[[], None]]

    def sends_files(self) -> bool:
        """Whether records may be left in their files: the connection sends them from there."""

    def answer(self, call: ReceivedRequest, response: Response) -> None:
        """Answer a call that had to wait."""

    def answer_large(self, call: ReceivedRequest, response: Response) -> None:
        """Answer a call that had to wait; a thread encodes the answer."""

    def fail(self, call: ReceivedRequest, error: BaseException) -> None:
        """Answer a call that had to wait with what an error means to the client."""

    def hold_back(self, call: ReceivedRequest) -> None:
        """Serve the next calls of the connection after this one is answered."""

    def learn(self, call: ReceivedRequest, request: ProduceRequest) -> None:
        """Remember the shape of a produce request for the express lane."""

    def drop(self, error: OttlaError) -> None:
        """Close the connection because of an error, and log why."""

    def close(self) -> None:
        """Close the connection after what is ready has been written."""


class Inquiry:
    """A call that is being served."""

    __slots__ = ("broker", "call", "link", "version")

    def __init__(self, broker: ServedBroker, link: ClientLink, call: ReceivedRequest) -> None:
        self.broker = broker
        self.link = link
        self.call = call
        self.version = call.version

    def reply(self, response: Response) -> None:
        """Answer after the handler has returned. If the client has left, nothing happens."""
        self.link.answer(self.call, response)

    def mutation_quota(self, *, is_strict: bool) -> MutationQuota:
        """Return how many partitions the client may create and delete (controller_mutation_rate)."""
        loop, user = self.broker.runtime.loop, self.link.principal.name
        return self.broker.quotas.mutations(
            user, self.call.client_id or "", lambda: loop.time() * 1000, is_strict=is_strict
        )

    def reply_last(self, response: Response) -> None:
        """Answer, and close the connection."""
        if not self.link.has_left:
            self.link.answer(self.call, response)
            self.link.close()

    def fail(self, error: BaseException) -> None:
        """Answer with what an error means to the client."""
        self.link.fail(self.call, error)

    def reply_in_slices(self, work: Generator[None, None, Response | None]) -> None:
        """Do long work on the loop, a slice in each turn (`SlicedWork`), and answer what it returns.

        None means that the answer comes by `reply`.
        """
        self.broker.runtime.slices.add(work).add_done_callback(self._sliced)

    def _sliced(self, done: Future[Response | None]) -> None:
        error = done.exception()
        if error is not None:
            self.fail(error)
        elif (response := done.result()) is not None:
            self.reply_large(response)

    def reply_large(self, response: Response) -> None:
        """Answer after the handler has returned; a thread encodes the answer."""
        self.link.answer_large(self.call, response)

    def hold_back(self) -> None:
        """Serve the next calls of the connection after this one is answered."""
        self.link.hold_back(self.call)

    def learn(self, request: ProduceRequest) -> None:
        """Remember the shape of a produce request for the express lane."""
        self.link.learn(self.call, request)

    def reply_from_thread(
        self, threads: Executor, work: Callable[[], Response], answer_bytes: int = 0
    ) -> None:
        """Do work that blocks or takes long in a thread, and answer what it returns.

        `answer_bytes` count as an answer that waits from now on: many such works may wait for a thread.
        """
        self.broker.memory.count_answers(answer_bytes)
        reply = partial(self._reply_with, answer_bytes)
        self.broker.runtime.loop.run_in_executor(threads, work).add_done_callback(reply)

    def _reply_with(self, answer_bytes: int, done: Future[Response]) -> None:
        self.broker.memory.count_answers(-answer_bytes)
        error = done.exception()
        if error is None:
            self.reply(done.result())
        else:
            self.fail(error)

    def ask_groups(self, request: Request[Any], reply: Callable[[Any], None] | None = None) -> None:
        """Have the group coordinator decide. It answers the client or calls `reply`, now or later."""
        call = self.call
        caller = Caller(reply or self.reply, call.version, call.client_id or "", f"/{self.link.peer_host}")
        self.broker.groups.ask(request, caller)

    def ask_transactions(self, request: Request[Any]) -> None:
        """Have the transaction coordinator of this broker decide. It answers the client, now or later."""
        caller = Caller(self.reply, self.call.version, self.call.client_id or "", f"/{self.link.peer_host}")
        self.broker.coordinated.ask(request, caller)


Handle = Callable[[Inquiry, Any], Response | None]
Refuse = Callable[[Any, Code, int], Response]
Fail = Callable[[Inquiry, Any, Code], Response]


@dataclass(frozen=True, slots=True)
class Handler:
    """One API of the broker.

    handle      returns the answer, or None if it will come by `Inquiry.reply`
    refuse      returns the answer that carries one error for the whole request: (request, error, version)
    fail        returns the answer to a fault that a test has set, where it is not `refuse`'s
    pipelined   the next call of the connection may be served before this one is answered
    divisions   how requests with very many elements are divided: by the first that finds them long
    """

    handle: Handle
    refuse: Refuse
    pipelined: bool = False
    fail: Fail | None = None
    divisions: tuple[Division, ...] = ()

    def failed(self, inquiry: Inquiry, error: Code) -> Response:
        """Return the answer to a fault."""
        request = inquiry.call.message
        if self.fail is not None:
            return self.fail(inquiry, request, error)
        return self.refuse(request, error, inquiry.call.version)


def refusal(handler: Handler, call: ReceivedRequest, error: BaseException, peer_host: str) -> Response:
    """Return the answer that says what an error means to the client. Errors of ours are logged."""
    code = Code.UNKNOWN_SERVER_ERROR
    if isinstance(error, KafkaError | StorageError):
        code = Code.of(error.code)
    if isinstance(error, StorageError):
        log.error("%s v%d from %s: %s", call.api.name, call.version, peer_host, error)
    elif not isinstance(error, KafkaError):
        log.error("%s v%d from %s failed", call.api.name, call.version, peer_host, exc_info=error)
    return handler.refuse(call.message, code, call.version)


class PartInquiry(Inquiry):
    """A part of a call that is being served; its answer is collected."""

    __slots__ = ("_collect", "_whole")

    def __init__(self, whole: Inquiry, part: Request[Any], collect: Callable[[Response], None]) -> None:
        super().__init__(whole.broker, whole.link, whole.call._replace(message=part))
        self._whole = whole
        self._collect = collect

    def reply(self, response: Response) -> None:
        """Answer the part after the handler has returned."""
        self._collect(response)

    def reply_large(self, response: Response) -> None:
        """Answer the part after the handler has returned."""
        self._collect(response)

    def hold_back(self) -> None:
        """Serve the next calls after the whole call is answered."""
        self._whole.hold_back()

    def learn(self, request: ProduceRequest) -> None:
        """Do nothing: the shape of a part is not that of a frame."""

    def fail(self, error: BaseException) -> None:
        """Answer the whole call with what an error means to the client."""
        self._whole.fail(error)


class DividedCall:
    """A call with very many elements. Its parts are handled one after the other, each in its own turn."""

    def __init__(self, inquiry: Inquiry, handle: Handle, division: Division) -> None:
        self._inquiry = inquiry
        self._handle = handle
        self._division = division
        self._parts = division.parts(inquiry.call.message)
        self._answers: list[Response] = []

    def handle_next(self) -> None:
        """Handle the next part; after the last one, answer the call."""
        inquiry = self._inquiry
        if inquiry.broker.runtime.is_closed:
            return
        part = next(self._parts, None)
        if part is None:
            inquiry.link.answer_large(inquiry.call, self._division.joined(self._answers))
            return
        try:
            response = self._handle(PartInquiry(inquiry, part, self._collect), part)
        except DropConnection as error:
            inquiry.link.drop(error)
        except Exception as error:  # noqa: BLE001 - an error of ours is logged, and answered
            inquiry.fail(error)
        else:
            if response is not None:
                self._collect(response)

    def _collect(self, response: Response) -> None:
        self._answers.append(response)
        self._inquiry.broker.runtime.loop.call_soon(self.handle_next)


def ask_coordinator(inquiry: Inquiry, request: Request[Any]) -> None:
    """Handle a request by asking the group coordinator of the broker that got it."""
    inquiry.ask_groups(request)


def ask_transactions(inquiry: Inquiry, request: Request[Any]) -> None:
    """Handle a request by asking the transaction coordinator of the broker that got it."""
    inquiry.ask_transactions(request)
