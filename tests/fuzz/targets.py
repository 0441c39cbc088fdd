"""What is fed, and what must hold.

wire      any bytes decode to a value that survives the way back, or to RemoteProtocolError naming the message
records   any bytes decode to columns or CorruptRecord, inside guard pages, as the oracle says
frames    any stream, in any pieces, gives the same frames and events, or RemoteProtocolError
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import cache
from random import Random
from typing import Any, NamedTuple

from ottla.model.errors import RemoteProtocolError
from ottla.records import reader
from ottla.records.slabs import SlabPool
from ottla.wire import client_connection, server_connection
from ottla.wire.api.fetch import AbortedTransaction
from ottla.wire.client_connection import ClientConnection
from ottla.wire.frames import FrameReceiver
from ottla.wire.headers import encode_request_header, encode_response_header
from ottla.wire.registry import apis
from ottla.wire.schema import ProtocolMessage, decode, encode
from ottla.wire.server_connection import ServedApis, ServerConnection
from ottla.wire.version_range import VersionRange
from ottla.wire.versions import PeerVersions, VersionsOrigin
from tests.fuzz import sets
from tests.fuzz.guarded import GuardedPool, Region
from tests.fuzz.mutations import INT32, Chance, mutated, spliced
from tests.naive.comparison import Outcome, expected, records_of
from tests.wire.loopback import feed
from tests.wire.messages import KINDS, Row, rows


def check(condition: bool, text: str) -> None:
    """An assertion that survives ``python -O``, as a finding."""
    if not condition:
        raise AssertionError(text)


@cache
def golden() -> list[Row]:
    """Kafka's own bytes: every API, version and direction."""
    return [row for row in rows() if row.data is not None]


# ---- messages


class Wire:
    """Input: kind u16 (place in KINDS), version u8, bytes."""

    name = "wire"
    weight = 50

    def __init__(
        self, decode: Callable[[type[ProtocolMessage], int, bytes], ProtocolMessage] = decode
    ) -> None:
        self._decode = decode
        self._numbers: dict[type[ProtocolMessage], int] = {kind: number for number, kind in enumerate(KINDS)}

    def make(self, chance: Random) -> bytes:
        row = chance.choice(golden())
        data = row.data or b""
        fate = chance.random()
        if fate < 0.1:
            data = spliced(data, chance.choice(golden()).data or b"", chance)
        elif fate < 0.15:
            row = chance.choice(golden())
        if fate > 0.05:
            data = mutated(data, chance)
        return struct.pack(">HB", self._numbers[row.kind], row.version) + data

    def run(self, data: bytes, *, thorough: bool) -> str:
        place, version = struct.unpack_from(">HB", data)
        kind = KINDS[place]
        try:
            message = self._decode(kind, version, data[3:])
        except RemoteProtocolError as error:
            check(str(error).startswith(f"{kind.__name__} v{version}: "), f"error names nothing: {error}")
            return "refused"
        check(type(message) is kind, f"{type(message)} for {kind}")
        if thorough:
            again = decode(kind, version, b"".join(encode(message, version)))
            check(again == message, f"{message!r} became {again!r}")
        return "value"

    def warm_up(self) -> None:
        for row in golden():
            decode(row.kind, row.version, row.data or b"")

    def measured(self, data: bytes) -> None:
        self.run(data, thorough=False)

    def bytes_max(self, data: bytes) -> int:
        return (64 << 10) + 400 * len(data)


# ---- record sets

LIMIT_BYTES = 1 << 20
_OPTIONS = struct.Struct(">BBB")
ABORTED = [(), ((0, 1),), ((0, 1), (2, 2)), ((3, 2), (0, 1), (100, 1))]
ABORTED_RANGES = {
    pairs: [AbortedTransaction(first_offset=first, producer_id=producer) for first, producer in pairs]
    for pairs in ABORTED
}
VERIFY, SMALL_LIMIT, HEADERS = 1, 2, 4


class Options(NamedTuple):
    """How a record set is decoded."""

    from_offset: int
    verify_crc: bool
    aborted: tuple[tuple[int, int], ...]
    decompressed_bytes_max: int

    @classmethod
    def of(cls, data: bytes) -> Options:
        flags, start, aborted = _OPTIONS.unpack_from(data)
        limit = 200 if flags & SMALL_LIMIT else LIMIT_BYTES
        return cls(start, bool(flags & VERIFY), ABORTED[aborted % len(ABORTED)], limit)


class Records:
    """Input: flags u8, from_offset u8, aborted u8 (place in ABORTED), a record set.

    It is decoded with or without headers; one in so many both ways, and its records are compared.
    """

    name = "records"
    weight = 35

    def __init__(self, decode: Callable[..., reader.Decoded] = reader.decode) -> None:
        self._decode = decode
        self._region = Region(1 << 20)
        self._pool: SlabPool = GuardedPool(slab_bytes=1 << 20)

    def make(self, chance: Random) -> bytes:
        flags = (VERIFY if chance.random() < 0.8 else 0) | (SMALL_LIMIT if chance.random() < 0.05 else 0)
        flags |= HEADERS if chance.random() < 0.7 else 0
        start = 0 if chance.random() < 0.7 else chance.randrange(14)
        aborted = 0 if chance.random() < 0.7 else chance.randrange(len(ABORTED))
        return _OPTIONS.pack(flags, start, aborted) + sets.random_set(chance)

    def run(self, data: bytes, *, thorough: bool) -> str:
        options = Options.of(data)
        record_set = data[_OPTIONS.size :]
        headers = bool(data[0] & HEADERS)
        outcome = self._outcome(record_set, options, headers=headers, lists=thorough)
        if thorough:
            self._compare(outcome, record_set, options, headers=headers)
            other = self._outcome(record_set, options, headers=not headers, lists=True)
            self._compare(other, record_set, options, headers=not headers)
        return "raised" if outcome.raised else "damaged" if outcome.damage else "sound"

    @staticmethod
    def _compare(got: Outcome, record_set: bytes, options: Options, *, headers: bool) -> None:
        wanted = expected(record_set, headers=headers, **options._asdict())
        check(got == wanted, f"headers={headers} {options}\n{difference(got, wanted)}")

    def warm_up(self) -> None:
        for entries in sets.SEEDS:
            record_set = b"".join(entry.built for entry in entries)
            for headers in (False, True):
                reader.decode(record_set, headers=headers)

    def measured(self, data: bytes) -> None:
        guarded, self._pool = self._pool, SlabPool(reserve_bytes=0)
        try:
            self.run(data, thorough=False)
        finally:
            self._pool = guarded

    def _outcome(self, data: bytes, options: Options, *, headers: bool, lists: bool) -> Outcome:
        source = self._region.holding(data) if len(data) <= self._region.size else data
        try:
            decoded = self._decode(
                source,
                from_offset=options.from_offset,
                verify_crc=options.verify_crc,
                aborted=ABORTED_RANGES[options.aborted],
                decompressed_bytes_max=options.decompressed_bytes_max,
                headers=headers,
                pool=self._pool,
            )
        except RemoteProtocolError as error:
            place = getattr(error, "offset", None), getattr(error, "next_offset", None)
            return Outcome([], None, None, place, raised=True)
        check(decoded.valid_bytes <= len(data), f"{decoded.valid_bytes} of {len(data)} bytes are valid")
        check(decoded.next_offset >= options.from_offset, f"next offset {decoded.next_offset}")
        check(
            decoded.damage is None or decoded.next_offset > options.from_offset,
            "a reader would meet the damage again and again, and never hear of it",
        )
        decoded.batch.validate(full=True)
        damage = decoded.damage and (decoded.damage.offset, decoded.damage.next_offset)
        found = records_of(decoded.batch) if lists else []
        return Outcome(found, decoded.next_offset, decoded.valid_bytes, damage or None, raised=False)

    def bytes_max(self, data: bytes) -> int:
        # What can be decompressed may be held three times (arena, keys, values), and room doubles.
        return 8 * LIMIT_BYTES + 400 * len(data)


def difference(got: Outcome, wanted: Outcome) -> str:
    """The fields in which two outcomes differ."""
    lines = []
    for name, mine, theirs in zip(Outcome._fields, got, wanted, strict=True):
        if mine != theirs:
            lines += [f"  {name}: got    {mine}", f"  {name}: wanted {theirs}"]
    return "\n".join(lines)


# ---- connections

FRAME_BYTES_MAX = 1 << 16
SERVED = ServedApis({key: VersionRange(0, api.version_newest) for key, api in apis().items()})
APIS = list(apis().values())
PLACES = {key: place for place, key in enumerate(apis())}
VERSIONS = PeerVersions(SERVED.ranges, VersionsOrigin.ADVERTISED)
_STREAM = struct.Struct(">BI")
RECEIVER, SERVER, CLIENT = range(3)


def framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def receiver() -> FrameReceiver:
    return FrameReceiver(frame_bytes_max=FRAME_BYTES_MAX, chunk_bytes=512)


class Frames:
    """Input: mode u8, seed of the cuts u32, count u8 of requests (API u8, version u8 each), a stream."""

    name = "frames"
    weight = 15

    def __init__(self, make_receiver: Callable[[], FrameReceiver] = receiver) -> None:
        self._make_receiver = make_receiver
        requests = [row for row in golden() if row.kind is row.kind.API.request]
        responses = [row for row in golden() if row.kind is row.kind.API.response]
        self._rows = {SERVER: requests, RECEIVER: requests, CLIENT: responses}

    # -- making

    def make(self, chance: Random) -> bytes:
        mode = chance.randrange(3)
        picked = chance.choices(self._rows[mode], k=chance.choice((1, 1, 2, 3)))
        plan = b""
        parts = []
        for number, row in enumerate(picked):
            data = row.data or b""
            if chance.random() < 0.4:
                data = mutated(data, chance)
            api = row.kind.API
            if mode == CLIENT:
                plan += struct.pack(">BB", PLACES[api.key], row.version)
                header = encode_response_header(api, row.version, number)
            else:
                header = encode_request_header(
                    api, row.version, number, chance.choice((None, "c", "client-1"))
                )
            parts.append(self._frame(header + data, chance))
        stream = b"".join(parts)
        if chance.random() < 0.4:
            stream = mutated(stream, chance)
        return _STREAM.pack(mode, chance.randrange(1 << 32)) + bytes([len(plan) // 2]) + plan + stream

    def _frame(self, data: bytes, chance: Random) -> bytes:
        if chance.random() < 0.1:
            data = mutated(data, chance)
        if chance.random() < 0.05:
            return struct.pack(">i", chance.choice(INT32)) + data
        return framed(data)

    # -- running

    def run(self, data: bytes, *, thorough: bool) -> str:
        mode, seed = _STREAM.unpack_from(data)
        start = _STREAM.size + 1
        count = data[start - 1]
        plan, stream = data[start : start + 2 * count], data[start + 2 * count :]
        runs = {RECEIVER: self._receive, SERVER: self._serve, CLIENT: self._ask}
        events, word = runs[mode](self._pieces(stream, seed), plan)
        if thorough:
            check(
                runs[mode]([stream], plan) == (events, word),
                "the same stream in one piece gives something else",
            )
        if mode == RECEIVER:
            check(events == list(whole_frames(stream)), "frames differ from the naive ones")
        return f"{('receiver', 'server', 'client')[mode]} {word}"

    @staticmethod
    def _pieces(stream: bytes, seed: int) -> list[bytes]:
        chance = Chance(seed)
        pieces = []
        at = 0
        while at < len(stream):
            size = chance.choice((1, 2, 3, 4, 5, 16, 100, 1000))
            pieces.append(stream[at : at + size])
            at += size
        return pieces

    def _receive(self, pieces: list[bytes], _: bytes) -> tuple[list[Any], str]:
        frames = []
        end = self._make_receiver()
        try:
            for piece in pieces:
                while piece:
                    room = end.get_buffer()
                    size = min(len(room), len(piece))
                    room[:size] = piece[:size]
                    end.received(size)
                    piece = piece[size:]
                    while (frame := end.next_frame()) is not None:
                        frames.append(bytes(frame))
            end.eof()
        except RemoteProtocolError:
            return frames, "refused"
        return frames, "whole"

    def _serve(self, pieces: list[bytes], _: bytes) -> tuple[list[Any], str]:
        server = ServerConnection(served=SERVED, receiver=self._make_receiver())
        calls = []
        try:
            for piece in [*pieces, None]:
                if piece is None:
                    server.eof()
                else:
                    feed(server, piece)
                while (event := server.next_event()) is not None:
                    if isinstance(event, server_connection.ClientDisconnected):
                        continue
                    if isinstance(event, server_connection.LongCall):
                        event = server.call_of(event.frame, event.sequence)
                    calls.append((event.sequence, event.api.key, event.version, event.message))
                    server.respond(event, event.api.response())
                    server.take_output()
        except RemoteProtocolError:
            return calls, "refused"
        return calls, "whole"

    def _ask(self, pieces: list[bytes], plan: bytes) -> tuple[list[Any], str]:
        client = ClientConnection(client_id="c", versions=VERSIONS, receiver=self._make_receiver())
        for place, version in struct.iter_unpack(">BB", plan):
            client.send(APIS[place].request(), version=version)
        answers = []
        try:
            for piece in [*pieces, None]:
                if piece is None:
                    client.eof()
                else:
                    feed(client, piece)
                while (event := client.next_event()) is not None:
                    if isinstance(event, client_connection.Disconnected):
                        continue
                    answers.append(event)
        except RemoteProtocolError:
            return answers, "refused"
        return answers, "whole"

    def warm_up(self) -> None:
        Wire().warm_up()

    def measured(self, data: bytes) -> None:
        self.run(data, thorough=False)

    def bytes_max(self, data: bytes) -> int:
        return (256 << 10) + 400 * len(data)


def whole_frames(stream: bytes) -> Iterator[bytes]:
    """The frames of a stream, naively."""
    at = 0
    while len(stream) - at >= 4:
        size = int.from_bytes(stream[at : at + 4], "big", signed=True)
        if not 0 <= size <= FRAME_BYTES_MAX or size > len(stream) - at - 4:
            return
        yield stream[at + 4 : at + 4 + size]
        at += 4 + size


ALL = {"wire": Wire, "records": Records, "frames": Frames}
