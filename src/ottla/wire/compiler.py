"""From field tables to closures: how a struct of one version is read and written.

A struct becomes a short list of steps. Neighbouring fields of fixed width fuse into one `struct` call;
fields that the version lacks become constants on reading and one comparison on writing; the tagged fields
of a flexible version are the last step, which for the usual empty tag buffer costs one byte and one
comparison. The object is then made by one positional call, so declared order must be wire order, tagged
fields last.

Compiling happens once per message type and version; see `ottla.wire.schema` for the notation.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar

from ottla.model.errors import RemoteProtocolError
from ottla.wire.primitives import (
    Codec,
    Decoder,
    Encoder,
    Place,
    Sink,
    fixed_decoder,
    length_reader,
    length_writer,
    read_varint,
    refuse,
    sink,
    truncated,
    write_varint,
)

T = TypeVar("T")
Getter: TypeAlias = Callable[[object], Any]
COUNT_LIMIT = 0x7FFF_FFFF


@dataclass(frozen=True, slots=True)
class Field:
    """One row of a field table. `until` is the last version that has the field."""

    name: str
    codec: Codec[Any]
    since: int
    until: int | None
    nullable_since: int | None
    tag: int | None
    ignorable: bool
    make_default: Callable[[], Any]
    shared_default: bool

    def exists(self, version: int) -> bool:
        """Whether messages of `version` carry the field."""
        return self.since <= version and (self.until is None or version <= self.until)

    def place(self, outer: Place) -> Place:
        """The field's own place inside the struct at `outer`."""
        nullable = self.nullable_since is not None and outer.version >= self.nullable_since
        glue = "." if ": " in outer.label else ": "
        return Place(f"{outer.label}{glue}{self.name}", outer.version, outer.flexible, nullable)


# Filled by the decorators of `schema`; a class is its own key.
FIELDS: dict[type, tuple[Field, ...]] = {}


class Struct(Codec[T]):
    """A declared class as a codec."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._fields = FIELDS[kind]

    def zero(self) -> T:
        return self._kind()

    def minimum_bytes(self, place: Place) -> int:
        plain = (field for field in self._fields if field.tag is None and field.exists(place.version))
        return sum(field.codec.minimum_bytes(field.place(place)) for field in plain) + place.flexible

    def decoder(self, place: Place) -> Decoder:
        steps = list(_reading_steps(self._fields, place))
        kind: Callable[..., object] = self._kind

        def decode(view: memoryview, position: int, out: list[object]) -> int:
            values: list[object] = []
            for step in steps:
                position = step(view, position, values)
            out.append(kind(*values))
            return position

        return decode

    def encoder(self, place: Place) -> Encoder:
        steps = list(_writing_steps(self._fields, place))

        def encode(out: Sink, value: object) -> None:
            for get, put in steps:
                put(out, get(value))

        return encode


class Array(Codec[list[T]]):
    """A counted list of one type."""

    mutable_zero = True

    def __init__(self, element: Codec[T]) -> None:
        self._element = element

    def zero(self) -> list[T]:
        return []

    def minimum_bytes(self, place: Place) -> int:
        return 1 if place.flexible else 4

    def decoder(self, place: Place) -> Decoder:
        inner = _element_place(place)
        if self._element.pack:
            items = _numbers_decoder(self._element.unpack)
        else:
            items = _items_decoder(self._element.decoder(inner))
        return _array_decoder(place, self._element.minimum_bytes(inner), items)

    def encoder(self, place: Place) -> Encoder:
        inner = _element_place(place)
        write_count = length_writer(place, ">i")
        number = self._element.pack
        write_item = self._element.encoder(inner)

        def encode(out: Sink, value: Sequence[T] | None) -> None:
            if value is None:
                if not place.nullable:
                    refuse(place, value, "not nullable in this version")
                return write_count(out, -1)
            write_count(out, len(value))
            if number:
                return _write_numbers(out, value, number, write_item)
            for item in value:
                write_item(out, item)
            return None

        return encode


def _element_place(place: Place) -> Place:
    return Place(place.label, place.version, place.flexible)


def _array_decoder(place: Place, minimum_bytes: int, items: ItemsDecoder) -> Decoder:
    label, quick = place.label, 0x80 if place.flexible else 0
    read_count = length_reader(place, ">i", COUNT_LIMIT)

    def decode(view: memoryview, position: int, out: list[object]) -> int:
        if position < len(view) and 0 < view[position] < quick:
            count = view[position] - 1
            position += 1
        else:
            count, position = read_count(view, position)
            if count < 0:
                out.append(None)
                return position
        if count * minimum_bytes > len(view) - position:
            raise RemoteProtocolError(
                f"{label}: {count} elements of at least {minimum_bytes} bytes at position {position}, "
                f"but {len(view) - position} bytes remain"
            )
        values: list[object] = []
        if count:
            position = items(view, position, values, count)
        out.append(values)
        return position

    return decode


ItemsDecoder: TypeAlias = Callable[[memoryview, int, list[object], int], int]


def _items_decoder(item: Decoder) -> ItemsDecoder:
    def decode(view: memoryview, position: int, values: list[object], count: int) -> int:
        for _ in range(count):
            position = item(view, position, values)
        return position

    return decode


def _numbers_decoder(character: str) -> ItemsDecoder:
    width = struct.calcsize(">" + character)

    def decode(view: memoryview, position: int, values: list[object], count: int) -> int:
        values += struct.unpack_from(f">{count}{character}", view, position)
        return position + width * count

    return decode


def _write_numbers(out: Sink, value: Sequence[Any], character: str, write_item: Encoder) -> None:
    try:
        out += struct.pack(f">{len(value)}{character}", *value)
    except struct.error:
        # Only to name the guilty element: one of these raises.
        for item in value:
            write_item(out, item)


# --- reading --------------------------------------------------------------------------------------------


def _reading_steps(fields: Sequence[Field], place: Place) -> Iterable[Decoder]:
    """The steps that append one value per declared field, in declared order."""
    plain = [field for field in fields if field.tag is None]
    tagged = [field for field in fields if field.tag is not None]
    for key, run in _runs(plain, lambda field: _reading_kind(field, place.version)):
        if key == "absent":
            yield _constants(run)
        elif key == "fixed":
            label = run[0].place(place).label
            yield fixed_decoder(label, ">" + "".join(field.codec.unpack for field in run))
        else:
            yield from (field.codec.decoder(field.place(place)) for field in run)
    if place.flexible:
        yield _tags_decoder(tagged, place)
    elif tagged:
        yield _constants(tagged)


def _reading_kind(field: Field, version: int) -> str:
    if not field.exists(version):
        return "absent"
    return "fixed" if field.codec.unpack else "other"


def _runs(fields: Iterable[Field], kind: Callable[[Field], str]) -> Iterable[tuple[str, list[Field]]]:
    """Neighbours of the same kind, together."""
    run: list[Field] = []
    for field in fields:
        if run and kind(field) != kind(run[0]):
            yield kind(run[0]), run
            run = []
        run.append(field)
    if run:
        yield kind(run[0]), run


def _constants(fields: Sequence[Field]) -> Decoder:
    """A step that reads nothing and appends the defaults."""
    if all(field.shared_default for field in fields):
        values = tuple(field.make_default() for field in fields)

        def shared(_view: memoryview, position: int, out: list[object]) -> int:
            out += values
            return position

        return shared
    makers = [field.make_default for field in fields]

    def fresh(_view: memoryview, position: int, out: list[object]) -> int:
        out += [make() for make in makers]
        return position

    return fresh


def _tags_decoder(tagged: Sequence[Field], place: Place) -> Decoder:
    """The tag buffer: known tags into their fields, unknown ones skipped, the rest default."""
    defaults = _constants(tagged)
    label = f"{place.label} tags"
    known = {
        field.tag: (index, field.codec.decoder(field.place(place)))
        for index, field in enumerate(tagged)
        if field.exists(place.version)
    }

    def decode(view: memoryview, position: int, out: list[object]) -> int:
        first = len(out)
        defaults(view, position, out)
        if position < len(view) and not view[position]:
            return position + 1
        count, position = read_varint(view, position, label)
        previous = -1
        for _ in range(count):
            tag, position = read_varint(view, position, label)
            size, position = read_varint(view, position, label)
            stop = position + size
            if tag <= previous:
                raise RemoteProtocolError(f"{label}: tag {tag} after tag {previous}")
            if stop > len(view):
                raise truncated(f"{label}: tag {tag}", view, position, size)
            if tag in known:
                index, read = known[tag]
                value: list[object] = []
                position = read(view[:stop], position, value)
                out[first + index] = value[0]
                if position != stop:
                    raise RemoteProtocolError(f"{label}: tag {tag} holds {stop - position} bytes too many")
            position, previous = stop, tag
        return position

    return decode


# --- writing --------------------------------------------------------------------------------------------


def _writing_steps(fields: Sequence[Field], place: Place) -> Iterable[tuple[Getter, Encoder]]:
    """Pairs of what to take from the object and how to write it."""
    present = [field for field in fields if field.exists(place.version)]
    lost = [field for field in fields if field not in present and not field.ignorable]
    if lost:
        yield _tuple_getter(lost), _absence_check(lost, place)
    plain = [field for field in present if field.tag is None]
    for key, run in _runs(plain, lambda field: "fixed" if field.codec.pack else "other"):
        if key == "fixed":
            yield _tuple_getter(run), _fixed_encoder(run, place)
        else:
            yield from ((attrgetter(field.name), field.codec.encoder(field.place(place))) for field in run)
    if place.flexible:
        tagged = sorted(
            (field for field in present if field.tag is not None), key=lambda field: field.tag or 0
        )
        yield _tuple_getter(tagged), _tags_encoder(tagged, place)


def _tuple_getter(fields: Sequence[Field]) -> Getter:
    names = [field.name for field in fields]
    if len(names) > 1:
        return attrgetter(*names)
    if not names:
        return lambda _: ()
    get = attrgetter(names[0])
    return lambda value: (get(value),)


def _fixed_encoder(run: Sequence[Field], place: Place) -> Encoder:
    pack = struct.Struct(">" + "".join(field.codec.pack for field in run)).pack

    def encode(out: Sink, values: tuple[object, ...]) -> None:
        try:
            out += pack(*values)
        except struct.error:
            # Only to name the guilty field: one of these raises.
            for field, value in zip(run, values, strict=True):
                field.codec.encoder(field.place(place))(out, value)

    return encode


def _absence_check(lost: Sequence[Field], place: Place) -> Encoder:
    """Refuse a value that this version would drop in silence, unless the field is ignorable."""
    defaults = tuple(field.make_default() for field in lost)

    def check(_out: Sink, values: tuple[object, ...]) -> None:
        if values != defaults:
            for field, value, default in zip(lost, values, defaults, strict=True):
                if value != default:
                    refuse(field.place(place), value, "this version has no such field")

    return check


def _tags_encoder(tagged: Sequence[Field], place: Place) -> Encoder:
    defaults = tuple(field.make_default() for field in tagged)
    writers = [(field.tag or 0, field.codec.encoder(field.place(place))) for field in tagged]

    def encode(out: Sink, values: tuple[object, ...]) -> None:
        if values == defaults:
            out.append(0)
            return
        rows = zip(writers, values, defaults, strict=True)
        chosen = [(writer, value) for writer, value, default in rows if value != default]
        write_varint(out, len(chosen))
        for (tag, write), value in chosen:
            content = sink()
            write(content, value)
            write_varint(out, tag)
            write_varint(out, len(content))
            out += content

    return encode
