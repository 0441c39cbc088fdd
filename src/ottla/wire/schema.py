"""The notation in which Kafka's messages are declared, and the functions that use it.

One class describes an API's request (or response) in all versions; what changed lies in the fields'
ranges:

    @struct
    class FetchTopic:
        topic: str = field(string, until=12, ignorable=True)
        topic_id: bytes = field(uuid, since=13, ignorable=True)

    @request(key=1, versions=18, flexible=12)
    class FetchRequest(Request["FetchResponse"]):
        topics: list[FetchTopic] = field(array(FetchTopic))

    @response(FetchRequest)
    class FetchResponse(Response): ...

    parts = encode(FetchRequest(topics=[FetchTopic(topic="t")]), version=12)
    message = decode(FetchRequest, 12, b"".join(parts))

Declared classes are slotted, and every field of theirs has a default. A field that a version lacks
reads as its default; writing another value there is refused unless the field is `ignorable`. Declared
order is wire order; tagged fields, which are outside of that order, stand last. A class without `since`
on its fields that is used by one field only inherits that field's range.

This module knows no API and no header. `compiler` turns tables into closures.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar, dataclass_transform, overload

from ottla.model.errors import LocalProtocolError, RemoteProtocolError
from ottla.wire.arrays import Array
from ottla.wire.compiler import FIELDS, Field, Struct
from ottla.wire.declared_class import Default, declared_class
from ottla.wire.primitives import (
    Buffer,
    DecodeBudget,
    Decoder,
    Encoder,
    EncodeSink,
    FieldCodec,
    FieldContext,
    Fixed,
    Uuid,
)
from ottla.wire.strings import Blob, String

T = TypeVar("T")
C = TypeVar("C", bound=type)
K = TypeVar("K", bound="type[Response]")
M = TypeVar("M", bound="ProtocolMessage")
R = TypeVar("R", bound="Response")

int8 = Fixed("b", "b", 0)
int16 = Fixed("h", "h", 0)
uint16 = Fixed("H", "H", 0)
int32 = Fixed("i", "i", 0)
int64 = Fixed("q", "q", 0)
float64 = Fixed("d", "d", 0.0)
# Written as a number, because `struct` takes any object for a bool, None among them.
boolean: FieldCodec[bool] = Fixed("?", "b", False)  # noqa: FBT003 (the zero of the type)
uuid = Uuid()
string = String()
blob = Blob[bytes](b"", copies=True)
record_set = Blob[Buffer | None](None, copies=False)

# --- notation -------------------------------------------------------------------------------------------


def _codec(source: FieldCodec[T] | type[T]) -> FieldCodec[T]:
    return Struct(source) if isinstance(source, type) else source


def array(element: FieldCodec[T] | type[T]) -> FieldCodec[list[T]]:
    """A list of primitives or of a declared class."""
    return Array(_codec(element))


class _ZeroOfType:
    """Marks "the type's zero" where None is a possible default."""


_ZERO = _ZeroOfType()


@overload
def field(
    source: FieldCodec[T] | type[T],
    *,
    since: int = ...,
    until: int | None = ...,
    default: T = ...,
    tag: int | None = ...,
    ignorable: bool = ...,
) -> T: ...


@overload
def field(
    source: FieldCodec[T] | type[T],
    *,
    nullable_since: int,
    since: int = ...,
    until: int | None = ...,
    default: T | None = ...,
    tag: int | None = ...,
    ignorable: bool = ...,
) -> T | None: ...


def field(
    source: FieldCodec[Any] | type[Any],
    *,
    since: int = 0,
    until: int | None = None,
    default: object = _ZERO,
    nullable_since: int | None = None,
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    """Declare one field.

    Args:
        source: its codec, or a class declared with `value`.
        since: the first version that has the field.
        until: the last version that has it.
        default: what an absent field reads as; the type's zero if not given.
        nullable_since: the first version in which None can be sent.
        tag: its number, when it travels in the tag buffer.
        ignorable: whether a value may be dropped in silence by a version that lacks the field.
    """
    codec = _codec(source)
    fresh = isinstance(default, _ZeroOfType) and codec.mutable_zero
    constant = codec.zero() if isinstance(default, _ZeroOfType) else default
    make_default = codec.zero if fresh else lambda: constant
    return Field("", codec, since, until, nullable_since, tag, ignorable, make_default, not fresh)


def _declare(kind: C, *, frozen: bool) -> C:
    """Turn a class body of `field` rows into a slotted class and remember its table."""
    rows: list[Field] = []
    for name in kind.__annotations__:
        row = kind.__dict__.get(name)
        if not isinstance(row, Field):
            raise TypeError(f"{kind.__name__}.{name} is not declared with field(...)")
        if row.tag is None and rows and rows[-1].tag is not None:
            raise TypeError(f"{kind.__name__}.{name} stands behind a tagged field")
        rows.append(dataclasses.replace(row, name=name))
    defaults = {row.name: Default(row.make_default, is_shared=row.shared_default) for row in rows}
    made = declared_class(kind, defaults, frozen=frozen)
    FIELDS[made] = tuple(rows)
    return made


# `field` is deliberately not named as a field specifier: to a type checker each row is then a plain
# default, so that constructors may leave out any field.
@dataclass_transform(kw_only_default=True)
def struct(kind: C) -> C:
    """Declare a class whose objects are elements of arrays."""
    return _declare(kind, frozen=False)


@dataclass_transform(kw_only_default=True, frozen_default=True)
def value(kind: C) -> C:
    """Declare a class whose objects are fields themselves; frozen, because its default is shared."""
    return _declare(kind, frozen=True)


def fields(kind: type) -> tuple[Field, ...]:
    """Return the field table of a declared class, for documentation and tests."""
    return FIELDS[kind]


# --- messages -------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Api:
    """The facts of an API: its key, its versions 0 to `version_newest`, its two message types."""

    key: int
    name: str
    version_newest: int
    flexible_since: int | None
    request: type[Request[Any]]
    response: type[Response]

    def supports(self, version: int) -> bool:
        """Whether `version` can be encoded and decoded."""
        return 0 <= version <= self.version_newest

    def flexible(self, version: int) -> bool:
        """Whether `version` uses compact lengths and tag buffers (KIP-482)."""
        return self.flexible_since is not None and version >= self.flexible_since


class ProtocolMessage:
    """A request or a response."""

    __slots__ = ()

    API: ClassVar[Api]


class Response(ProtocolMessage):
    """An answer of a broker."""

    __slots__ = ()


class Request(ProtocolMessage, Generic[R]):
    """A request of a client; `R` is the type of its response."""

    __slots__ = ()


# Facts of requests whose response is not declared yet; empty once a module is loaded.
_REQUESTS: dict[type, tuple[int, int, int | None]] = {}


@dataclass_transform(kw_only_default=True)
def request(*, key: int, versions: int, flexible: int | None) -> Callable[[C], C]:
    """Declare a request.

    Args:
        key: the API's number.
        versions: its newest version; the oldest is 0.
        flexible: the first version with compact lengths and tag buffers, or None.
    """

    def declare(kind: C) -> C:
        made = _declare(kind, frozen=False)
        _REQUESTS[made] = (key, versions, flexible)
        return made

    return declare


@dataclass_transform(kw_only_default=True)
def response(request_kind: type[Request[Any]]) -> Callable[[K], K]:
    """Declare the response to a declared request; this completes the API of both."""

    def declare(kind: K) -> K:
        made = _declare(kind, frozen=False)
        key, versions, flexible = _REQUESTS.pop(request_kind)
        name = request_kind.__name__.removesuffix("Request")
        request_kind.API = made.API = Api(key, name, versions, flexible, request_kind, made)
        return made

    return declare


# --- use ------------------------------------------------------------------------------------------------

REQUEST_COUNT_MAX = 100_000
"""The limit for the elements of all lists of a request.

Real requests have far fewer; a peer that sends 50 million empty names in its 100 MB must not cost gigabytes
and minutes.
"""

REQUEST_COUNT_AT_ONCE = 2000
"""How many elements a server decodes at once: some two milliseconds."""

_DECODERS: dict[tuple[type[ProtocolMessage], int], Decoder] = {}
_DECODERS_AT_ONCE: dict[tuple[type[ProtocolMessage], int], Decoder] = {}
_ENCODERS: dict[tuple[type[ProtocolMessage], int], Encoder] = {}


def decode(kind: type[M], version: int, data: Buffer) -> M:
    """Read the message that fills `data`.

    Record sets come back as slices of `data`, so they live as long as its memory stays untouched.

    Raises:
        RemoteProtocolError: the bytes are not such a message.
        LocalProtocolError: there is no such version; check `API.supports` before.
    """
    message, position = decode_prefix(kind, version, data)
    if position != len(data):
        behind = len(data) - position
        raise RemoteProtocolError(
            f"{kind.__name__} v{version}: {behind} bytes behind the end at position {position}"
        )
    return message


def decode_prefix(kind: type[M], version: int, data: Buffer) -> tuple[M, int]:
    """Read the message at the start of `data`; also return the position after it.

    For a broker that ignores what follows a request, as Kafka's does: librdkafka 2.x asks for all topics with
    three bytes too many (a legacy count where a compact one belongs).
    """
    try:
        run = _DECODERS[kind, version]
    except KeyError:
        run = _DECODERS[kind, version] = _decoder(kind, version)
    view = data if isinstance(data, memoryview) else memoryview(data)
    out: list[Any] = []
    position = run(view, 0, out)
    return out[0], position


def decode_at_once(kind: type[M], version: int, view: memoryview) -> M:
    """Read the request at the start of `view`. Raises LongRequest if that would take long."""
    try:
        run = _DECODERS_AT_ONCE[kind, version]
    except KeyError:
        run = _DECODERS_AT_ONCE[kind, version] = _decoder(kind, version, at_once=True)
    out: list[Any] = []
    run(view, 0, out)
    message: M = out[0]
    return message


def decode_long(kind: type[M], version: int, view: memoryview) -> M:
    """Read the request at the start of `view`, in any thread: nothing is shared with other calls."""
    out: list[Any] = []
    _decoder(kind, version)(view, 0, out)
    message: M = out[0]
    return message


def encode(message: ProtocolMessage, version: int, prefix: bytes = b"") -> list[Buffer]:
    """Write a message as buffers for one gathering write, without copying record sets.

    `prefix` (room for a frame size and header, say) becomes the start of the first buffer, which is writable.

    Raises:
        LocalProtocolError: the version does not exist or cannot carry a value.
    """
    kind = type(message)
    try:
        run = _ENCODERS[kind, version]
    except KeyError:
        run = _ENCODERS[kind, version] = Struct(kind).encoder(_root_context(kind, version))
    out = EncodeSink(prefix)
    out.cuts = []
    try:
        run(out, message)
    except (AttributeError, TypeError) as error:
        # An object of a foreign type inside the message; in all other cases the codecs name the field.
        raise LocalProtocolError(
            f"{kind.__name__} v{version}: cannot send {message!r:.200}: {error}"
        ) from error
    return out.parts()


def _decoder(kind: type[ProtocolMessage], version: int, *, at_once: bool = False) -> Decoder:
    context = _root_context(kind, version)
    if not issubclass(kind, Request):
        return Struct(kind).decoder(context)
    budget = DecodeBudget(REQUEST_COUNT_AT_ONCE if at_once else REQUEST_COUNT_MAX, at_once=at_once)
    inner = Struct(kind).decoder(dataclasses.replace(context, budget=budget))

    def decode(view: memoryview, position: int, out: list[object]) -> int:
        budget.begin()
        return inner(view, position, out)

    return decode


def _root_context(kind: type[ProtocolMessage], version: int) -> FieldContext:
    api = kind.API
    if not api.supports(version):
        raise LocalProtocolError(
            f"{kind.__name__}: version {version} does not exist; known are 0 to {api.version_newest}"
        )
    return FieldContext(f"{kind.__name__} v{version}", version, api.flexible(version))
