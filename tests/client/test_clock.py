"""Waiting: what is true ends it, a timeout ends it, and no piece of it is longer than a look at signals."""

from __future__ import annotations

import threading

import pytest

from ottla.client.clock import wait_for
from tests.waiting import PATIENCE_S


def test_a_wait_without_end_is_made_of_short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    condition = threading.Condition()
    pieces: list[float | None] = []

    def wait(timeout: float | None = None) -> bool:
        pieces.append(timeout)
        return False

    monkeypatch.setattr(condition, "wait", wait)
    monkeypatch.setattr("ottla.client.clock.SIGNAL_CHECK_S", 0.001)
    with condition:
        assert wait_for(condition, lambda: len(pieces) >= 3, None)
    assert all(piece is not None and piece <= 0.001 for piece in pieces)


def test_a_wait_ends_with_its_timeout() -> None:
    condition = threading.Condition()
    with condition:
        assert not wait_for(condition, lambda: False, 0.01)
        assert not wait_for(condition, lambda: False, 0)
        assert wait_for(condition, lambda: True, 0)


def test_a_change_in_another_thread_ends_a_wait() -> None:
    condition = threading.Condition()
    changed = threading.Event()

    def change() -> None:
        with condition:
            changed.set()
            condition.notify_all()

    with condition:
        thread = threading.Thread(target=change)
        thread.start()
        assert wait_for(condition, changed.is_set, PATIENCE_S)
    thread.join()
