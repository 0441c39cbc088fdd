"""From field tables to closures: how a struct of one version is read and written.

A struct becomes a short list of steps. Neighbouring fields of fixed width fuse into one `struct` call, across
fields that the version lacks; those get their defaults when the object is made, by one positional call. On
writing, values that would be lost are refused. The tag buffer of a flexible version is usually one zero byte;
reading looks for that first.

Compiling happens once per message type and version; see `ottla.wire.schema` for the notation.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter, itemgetter
from typing import Any, TypeAlias, TypeVar

from ottla.model.errors import RemoteProtocolError
from ottla.wire.primitives import (
    Decoder,
    Encoder,
    EncodeSink,
    FieldCodec,
    FieldContext,
    fixed_decoder,
    read_varint,
    refuse,
    sink,
    truncated,
    write_varint,
)

T = TypeVar("T")
Getter: TypeAlias = Callable[[object], Any]
WritingStep: TypeAlias = tuple[Getter, Encoder]


@dataclass(frozen=True, slots=True)
class Field:
    """One row of a field table. `until` is the last version that has the field."""

    name: str
    codec: FieldCodec[Any]
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

    def context(self, outer: FieldContext) -> FieldContext:
        """Return the context of this field inside the struct of `outer`."""
        nullable = self.nullable_since is not None and outer.version >= self.nullable_since
        return outer.inner(self.name, nullable=nullable)


# Filled by the decorators of `schema`; a class is its own key.
FIELDS: dict[type, tuple[Field, ...]] = {}


class Struct(FieldCodec[T]):
    """The codec of a declared class."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._fields = FIELDS[kind]

    def zero(self) -> T:
        return self._kind()

    def minimum_bytes(self, context: FieldContext) -> int:
        if context.nullable:
            return 1
        sizes = [field.codec.minimum_bytes(field.context(context)) for field in self._plain(context.version)]
        return sum(sizes) + context.flexible

    def decoder(self, context: FieldContext) -> Decoder:
        if context.nullable:
            return _nullable_decoder(self.decoder(replace(context, nullable=False)), context)
        plain, tagged = self._plain(context.version), self._tagged(context.version)
        absent = [field for field in self._fields if not field.exists(context.version)]
        steps = list(_reading_steps(plain, context))
        if not context.flexible:
            decoder = _legacy_decoder(steps, self._maker(plain, absent))
        else:
            makers = self._maker(plain, [*tagged, *absent]), self._maker([*plain, *tagged], absent)
            decoder = _flexible_decoder(steps, _tags_decoder(tagged, context), *makers)
        if plain and all(field.codec.unpack for field in plain):
            return _flat_decoder(plain, self._maker(plain, [*tagged, *absent]), decoder, context)
        return decoder

    def encoder(self, context: FieldContext) -> Encoder:
        if context.nullable:
            return _nullable_encoder(self.encoder(replace(context, nullable=False)))
        lost = [field for field in self._fields if not (field.exists(context.version) or field.ignorable)]
        tagged = self._tagged(context.version)
        steps = [_absence_step(lost, context)] if lost else []
        steps += _writing_steps(self._plain(context.version), context)
        if tagged:
            steps.append((_tuple_getter(tagged), _tags_encoder(tagged, context)))

        def encode(out: EncodeSink, value: object) -> None:
            for get, put in steps:
                put(out, get(value))

        def encode_without_tags(out: EncodeSink, value: object) -> None:
            for get, put in steps:
                put(out, get(value))
            out.append(0)

        return encode_without_tags if context.flexible and not tagged else encode

    def _maker(self, read: Sequence[Field], missing: Sequence[Field]) -> Maker:
        order = [*read, *missing]
        return Maker(self._kind, [order.index(field) for field in self._fields], missing)

    def _plain(self, version: int) -> list[Field]:
        """The fields that `version` has outside of the tag buffer, in wire order."""
        return [field for field in self._fields if field.tag is None and field.exists(version)]

    def _tagged(self, version: int) -> list[Field]:
        """The fields that `version` has in the tag buffer, in wire order."""
        fields = [field for field in self._fields if field.tag is not None and field.exists(version)]
        return sorted(fields, key=lambda field: field.tag or 0)


def _runs(fields: Iterable[Field], fuses: Callable[[Field], str]) -> Iterator[list[Field]]:
    """Yield runs of neighbouring fields that fuse into one call; other fields alone."""
    run: list[Field] = []
    for field in fields:
        if run and not (fuses(field) and fuses(run[-1])):
            yield run
            run = []
        run.append(field)
    if run:
        yield run


# --- reading --------------------------------------------------------------------------------------------


class Maker:
    """How to make an object from the values read, in wire order, and defaults for the rest.

    The decoders below take its attributes apart and do this inline, because a call per object is too slow:

        values += shared if fresh is None else fresh()
        kind(*(pick(values) if pick else values))
    """

    def __init__(self, kind: Callable[..., object], indexes: list[int], missing: Sequence[Field]) -> None:
        self.kind = kind
        self.pick = itemgetter(*indexes) if indexes != sorted(indexes) else None
        self.shared = tuple(field.make_default() for field in missing)
        self.fresh = None
        if not all(field.shared_default for field in missing):
            # Lists must not be shared between objects.
            self.fresh = lambda: [field.make_default() for field in missing]


def _legacy_decoder(steps: Sequence[Decoder], maker: Maker) -> Decoder:
    kind, pick, shared, fresh = maker.kind, maker.pick, maker.shared, maker.fresh

    def decode(view: memoryview, position: int, out: list[object]) -> int:
        values: list[object] = []
        for step in steps:
            position = step(view, position, values)
        if shared:
            values += shared if fresh is None else fresh()
        out.append(kind(*(pick(values) if pick else values)))
        return position

    return decode


def _flexible_decoder(steps: Sequence[Decoder], tags: Decoder, maker: Maker, tags_maker: Maker) -> Decoder:
    """Return a decoder; `maker` is for the usual empty tag buffer, `tags_maker` for values with tagged
    fields.
    """
    kind, pick, shared, fresh = maker.kind, maker.pick, maker.shared, maker.fresh

    def decode(view: memoryview, position: int, out: list[object]) -> int:
        values: list[object] = []
        for step in steps:
            position = step(view, position, values)
        try:
            tag_count = view[position]
        except IndexError:
            tag_count = -1
        if tag_count:
            return decode_tags(view, position, out, values)
        if shared:
            values += shared if fresh is None else fresh()
        out.append(kind(*(pick(values) if pick else values)))
        return position + 1

    def decode_tags(view: memoryview, position: int, out: list[object], values: list[object]) -> int:
        position = tags(view, position, values)
        values += tags_maker.shared if tags_maker.fresh is None else tags_maker.fresh()
        out.append(kind(*(tags_maker.pick(values) if tags_maker.pick else values)))
        return position

    return decode


def _flat_decoder(plain: Sequence[Field], maker: Maker, careful: Decoder, context: FieldContext) -> Decoder:
    """Return a decoder for a struct of fixed width, the usual element of an array: one call reads it.

    Tags on the wire, and a message that ends too early, are left to the careful decoder.
    """
    compiled = struct.Struct(">" + "".join(field.codec.unpack for field in plain))
    unpack_from, size, flexible = compiled.unpack_from, compiled.size + context.flexible, context.flexible
    kind, pick, shared = maker.kind, maker.pick, maker.shared

    def decode(view: memoryview, position: int, out: list[object]) -> int:
        stop = position + size
        if stop > len(view) or (flexible and view[stop - 1]):
            return careful(view, position, out)
        values = unpack_from(view, position) + shared
        out.append(kind(*(pick(values) if pick else values)))
        return stop

    return decode if maker.fresh is None else careful


def _nullable_decoder(present: Decoder, context: FieldContext) -> Decoder:
    """Return a decoder for a struct behind a byte that is negative for null."""

    def decode(view: memoryview, position: int, out: list[object]) -> int:
        if position >= len(view):
            raise truncated(context.label, view, position, 1)
        if view[position] > 0x7F:
            out.append(None)
            return position + 1
        return present(view, position + 1, out)

    return decode


def _reading_steps(plain: Sequence[Field], context: FieldContext) -> Iterator[Decoder]:
    """Yield the steps that append one value per field, in wire order."""
    for run in _runs(plain, lambda field: field.codec.unpack):
        if len(run) == 1:
            yield run[0].codec.decoder(run[0].context(context))
        else:
            label = f"{run[0].context(context).label} to {run[-1].name}"
            yield fixed_decoder(label, ">" + "".join(field.codec.unpack for field in run))


def _tags_decoder(tagged: Sequence[Field], context: FieldContext) -> Decoder:
    """Return a decoder for the tag buffer: known tags go into their fields, unknown ones are skipped."""
    label, budget = context.inner("tags").label, context.budget
    readers = {field.tag: field.codec.decoder(field.context(context)) for field in tagged}

    def decode(view: memoryview, position: int, out: list[object]) -> int:
        values_by_tag: dict[int, object] = {}
        count, position = read_varint(view, position, label)
        if budget is not None:
            budget.take(count, label)
        previous = -1
        for _ in range(count):
            tag, position = read_varint(view, position, label)
            size, position = read_varint(view, position, label)
            stop = position + size
            if tag <= previous:
                raise RemoteProtocolError(f"{label}: tag {tag} after tag {previous}")
            if stop > len(view):
                raise truncated(f"{label}: tag {tag}", view, position, size)
            if tag in readers:
                values_by_tag[tag] = _whole(readers[tag], view[:stop], position, f"{label}: tag {tag}")
            position, previous = stop, tag
        out += [values_by_tag[f.tag] if f.tag in values_by_tag else f.make_default() for f in tagged]
        return position

    return decode


def _whole(read: Decoder, view: memoryview, position: int, label: str) -> object:
    """Return one value that must fill the rest of `view`."""
    out: list[object] = []
    stop = read(view, position, out)
    if stop != len(view):
        raise RemoteProtocolError(f"{label}: {len(view) - stop} bytes too many at position {stop}")
    return out[0]


# --- writing --------------------------------------------------------------------------------------------


def _writing_steps(plain: Sequence[Field], context: FieldContext) -> Iterator[WritingStep]:
    """Yield pairs: what to take from the object, and how to write it."""
    for run in _runs(plain, lambda field: field.codec.pack):
        if len(run) == 1:
            yield attrgetter(run[0].name), run[0].codec.encoder(run[0].context(context))
        else:
            yield attrgetter(*(field.name for field in run)), _run_encoder(run, context)


def _nullable_encoder(present: Encoder) -> Encoder:
    def encode(out: EncodeSink, value: object) -> None:
        out += b"\xff" if value is None else b"\x01"
        if value is not None:
            present(out, value)

    return encode


def _run_encoder(run: Sequence[Field], context: FieldContext) -> Encoder:
    pack = struct.Struct(">" + "".join(field.codec.pack for field in run)).pack

    def encode(out: EncodeSink, values: tuple[object, ...]) -> None:
        try:
            out += pack(*values)
        except struct.error:
            # Slow, to name the field in the error: this loop raises.
            for field, value in zip(run, values, strict=True):
                field.codec.encoder(field.context(context))(out, value)

    return encode


def _absence_step(lost: Sequence[Field], context: FieldContext) -> WritingStep:
    """Return a step that refuses a value which this version would silently drop."""
    defaults = tuple(field.make_default() for field in lost)
    wanted = defaults if len(lost) > 1 else defaults[0]
    get = attrgetter(*(field.name for field in lost))

    def check(_out: EncodeSink, values: object) -> None:
        if values != wanted:
            blame(values if isinstance(values, tuple) else (values,))

    def blame(values: tuple[object, ...]) -> None:
        for field, value, default in zip(lost, values, defaults, strict=True):
            if value != default:
                refuse(field.context(context), value, "this version has no such field")

    return get, check


def _tuple_getter(fields: Sequence[Field]) -> Getter:
    get = attrgetter(*(field.name for field in fields))
    return get if len(fields) > 1 else lambda value: (get(value),)


def _tags_encoder(tagged: Sequence[Field], context: FieldContext) -> Encoder:
    """Return an encoder for the tag buffer: only values that are not the default are sent."""
    defaults = tuple(field.make_default() for field in tagged)
    writers = [(field.tag or 0, field.codec.encoder(field.context(context))) for field in tagged]

    def encode(out: EncodeSink, values: tuple[object, ...]) -> None:
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
