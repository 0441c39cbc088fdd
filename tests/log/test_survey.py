"""A survey of a segment goes on after damage: only what is broken is to go."""

from __future__ import annotations

import struct
from pathlib import Path

from ottla.log.file_system import REAL
from ottla.log.segment_file import SegmentFile
from ottla.log.survey import SegmentSurvey, surveyed
from tests.log.record_sets import add, batch, open_log, values

COUNT = 12


def segment(path: Path) -> tuple[Path, int]:
    """The log file of `COUNT` batches of two records, and the size of a batch."""
    log = open_log(path / "t-0")
    for _ in range(COUNT):
        add(log, batch(*values(0, 2)))
    log.close()
    return log.active.path_of(".log"), log.size // COUNT


def survey_of(path: Path, end_offset: int | None = None) -> tuple[SegmentSurvey, list[int]]:
    survey, file = SegmentSurvey(0), SegmentFile(path, REAL)
    try:
        return survey, [item.first_offset for item in surveyed(file, 0, end_offset, survey)]
    finally:
        file.close()


def test_all_is_well(tmp_path: Path) -> None:
    path, _ = segment(tmp_path)
    survey, offsets = survey_of(path)
    assert (offsets, survey.bad, survey.gaps) == (list(range(0, 24, 2)), [], [])
    assert (survey.next_offset, survey.batches) == (24, 12)


def test_broken_batches_are_left_out_one_by_one(tmp_path: Path) -> None:
    path, size = segment(tmp_path)
    data = bytearray(path.read_bytes())
    data[2 * size + 65] ^= 1  # content
    data[5 * size + 9] ^= 0x7F  # size
    path.write_bytes(data + b"behind")
    survey, offsets = survey_of(path)
    assert offsets == [0, 2, 6, 8, 12, 14, 16, 18, 20, 22]
    assert [(item.start, item.end) for item in survey.bad] == [
        (2 * size, 3 * size),
        (5 * size, 6 * size),
        (12 * size, 12 * size + 6),
    ]
    assert (survey.gaps, survey.next_offset) == ([(4, 6), (10, 12)], 24)


def test_an_offset_out_of_order_costs_its_own_batch_only(tmp_path: Path) -> None:
    """No checksum covers it. Recovery, which must not guess, would cut all that come after it."""
    path, size = segment(tmp_path)
    for wrong in (1 << 20, 1):
        data = bytearray(path.read_bytes())
        struct.pack_into(">q", data, 4 * size, wrong)
        copy = tmp_path / "copy.log"
        copy.write_bytes(data)
        survey, offsets = survey_of(copy)
        assert offsets == [0, 2, 4, 6, 10, 12, 14, 16, 18, 20, 22]
        assert [(item.start, item.end) for item in survey.bad] == [(4 * size, 5 * size)]
        assert survey.gaps == [(8, 10)]


def test_what_reaches_into_the_next_segment_is_bad(tmp_path: Path) -> None:
    path, size = segment(tmp_path)
    survey, offsets = survey_of(path, 22)
    assert offsets == list(range(0, 22, 2))
    assert [(item.start, item.end) for item in survey.bad] == [(11 * size, 12 * size)]
