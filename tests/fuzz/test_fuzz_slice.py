"""A slice of the fuzzing in the suite, and proof that the harness finds what it looks for."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from ottla.model.errors import RemoteProtocolError
from ottla.records import reader
from ottla.wire.frames import FrameReceiver
from ottla.wire.schema import ProtocolMessage, decode
from tests.fuzz import harness
from tests.fuzz.__main__ import main
from tests.fuzz.harness import Journal, Report, read_journal
from tests.fuzz.targets import ALL, Frames, Records, Wire
from tests.scale import SEED, sized

CASES = sized(5_000, 1_000_000)


def assert_clean(report: Report) -> None:
    assert not report.failures, "\n".join([f"--seed {report.seed}", *map(str, report.failures)])


def test_hostile_inputs_are_read_or_refused() -> None:
    """If this fails, the message holds the input and how to replay it."""
    report = harness.run([target() for target in ALL.values()], CASES, SEED)
    assert_clean(report)
    assert report.count == CASES
    words = {word for _, word in report.outcomes}
    assert words >= {"value", "refused", "sound", "damaged", "raised", "server whole", "client refused"}


# ---- the harness must be able to fail


def test_an_exception_of_another_class_is_found() -> None:
    def careless(kind: type[ProtocolMessage], version: int, data: bytes) -> ProtocolMessage:
        if data.count(0xFF) > 6:
            raise ValueError("planted")
        return decode(kind, version, data)

    report = harness.run([Wire(careless)], 3000, 1)
    assert len(report.failures) == harness.FAILURES_MAX
    assert "ValueError: planted" in str(report.failures[0])
    assert f"--only wire --replay {report.failures[0].data.hex()}" in str(report.failures[0])


def test_an_error_that_names_nothing_is_found() -> None:
    def vague(kind: type[ProtocolMessage], version: int, data: bytes) -> ProtocolMessage:
        try:
            return decode(kind, version, data)
        except RemoteProtocolError:
            raise RemoteProtocolError("bad bytes") from None

    assert "names nothing" in harness.run([Wire(vague)], 100, 1).failures[0].reason


def drop_a_record(decoded: reader.Decoded) -> reader.Decoded:
    return decoded._replace(batch=decoded.batch.slice(0, max(0, decoded.batch.num_rows - 1)))


def skip_damage(decoded: reader.Decoded) -> reader.Decoded:
    return decoded._replace(damage=None)


def move_on(decoded: reader.Decoded) -> reader.Decoded:
    return decoded._replace(next_offset=decoded.next_offset + 1)


@pytest.mark.parametrize("change", [drop_a_record, skip_damage, move_on], ids=lambda change: change.__name__)
def test_a_decoder_that_says_something_else_than_the_oracle_is_found(change: Any) -> None:
    def wrong(data: bytes, **options: Any) -> reader.Decoded:
        return change(reader.decode(data, **options))

    report = harness.run([Records(wrong)], 600, 1, thorough_one_in=1)
    assert "wanted" in report.failures[0].reason


def test_a_decoder_that_takes_too_long_is_found() -> None:
    def slow(data: bytes, **options: Any) -> reader.Decoded:
        until = time.thread_time() + 0.03
        while time.thread_time() < until:
            pass
        return reader.decode(data, **options)

    report = harness.run([Records(slow)], 20, 1, seconds_max=0.05)
    assert "more than 0.05" in report.failures[0].reason


def test_a_decoder_that_takes_too_much_memory_is_found() -> None:
    def greedy(kind: type[ProtocolMessage], version: int, data: bytes) -> ProtocolMessage:
        bytearray(4 << 20)
        return decode(kind, version, data)

    assert "bytes, more than" in harness.run([Wire(greedy)], 5, 1).failures[0].reason


def test_a_receiver_that_cuts_frames_by_how_they_arrive_is_found() -> None:
    class Impatient(FrameReceiver):
        def next_frame(self) -> memoryview | None:
            frame = super().next_frame()
            return frame[:-1] if frame is not None and len(frame) > 30 else frame

    report = harness.run([Frames(lambda: Impatient(frame_bytes_max=1 << 16))], 300, 1)
    assert "frames differ from the naive ones" in {
        failure.reason.split(": ")[-1] for failure in report.failures
    }


# ---- replay


def test_a_failure_can_be_replayed_from_its_hex(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "records", "--replay", "010000" + "00" * 12]) == 0
    assert "records: raised" in capsys.readouterr().out


def test_a_run_can_be_repeated_by_its_seed() -> None:
    runs = [harness.run([Wire(), Frames()], 300, 7).outcomes for _ in range(2)]
    assert runs[0] == runs[1]


def test_the_input_that_killed_the_process_is_left_in_a_file(tmp_path: Path) -> None:
    journal = Journal()
    try:
        journal.note("records", b"\1\2\3")
        copy = tmp_path / "copy"
        copy.write_bytes(journal.path.read_bytes())
    finally:
        journal.close()
    assert read_journal(copy) == ("records", b"\1\2\3")
    assert not journal.path.exists()
