"""The clock of deadlines does not jump with the wall clock, and agrees with it in the end."""

from __future__ import annotations

import pytest

from ottla.broker.storage.runtime import SteadyClock

HOUR_MS = 3_600_000


class Times:
    """Time that passes, and a wall clock that is set."""

    def __init__(self) -> None:
        self.seconds = 5.0
        self.set_by_ms = 0

    def wall_ms(self) -> int:
        return round(self.seconds * 1000) + 1_000_000 + self.set_by_ms


def test_it_goes_with_the_wall_clock() -> None:
    times = Times()
    clock = SteadyClock(times.wall_ms, lambda: times.seconds)
    for seconds in (5.0, 5.25, 9.0, 3_000.0):
        times.seconds = seconds
        assert clock() == times.wall_ms()


@pytest.mark.parametrize("jump_ms", [HOUR_MS, -HOUR_MS])
def test_a_wall_clock_that_is_set_is_followed_slowly(jump_ms: int) -> None:
    times = Times()
    clock = SteadyClock(times.wall_ms, lambda: times.seconds)
    last = clock()
    times.set_by_ms = jump_ms
    assert clock() == last, "no time has passed"
    hours = 0
    while clock() != times.wall_ms():
        times.seconds += 3_600
        hours += 1
        passed_ms = clock() - last
        assert abs(passed_ms - HOUR_MS) <= HOUR_MS // 10, "sessions last a tenth more or less"
        last += passed_ms
    assert hours == 10
