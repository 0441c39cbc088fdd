from __future__ import annotations

import gc
import sys
import threading
import warnings
import weakref

import pytest

from ottla.model.forgotten import stop_if_forgotten


class Owner:
    forgotten: weakref.finalize[..., object]


def test_a_forgotten_object_is_named_in_a_warning_and_stopped() -> None:
    owner, stopped = Owner(), threading.Event()
    stop_if_forgotten(owner, "Owner of 'orders'", stopped.set)
    with pytest.warns(ResourceWarning, match="Owner of 'orders' was not closed"):
        del owner
    assert stopped.wait(5)


def test_a_closed_object_is_left_alone() -> None:
    owner, stopped = Owner(), threading.Event()
    owner.forgotten = stop_if_forgotten(owner, "Owner", stopped.set)
    owner.forgotten.detach()
    owner.forgotten.detach()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del owner
        gc.collect()
    assert not stopped.wait(0.05)


def test_what_never_ran_is_stopped_without_a_warning() -> None:
    owner, stopped = Owner(), threading.Event()
    stop_if_forgotten(owner, "Owner", stopped.set, is_running=lambda: False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del owner
        gc.collect()
    assert stopped.wait(5)
    assert not caught


def test_it_is_stopped_even_if_warnings_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: raised.append(args.exc_value))
    owner, stopped = Owner(), threading.Event()
    stop_if_forgotten(owner, "Owner", stopped.set)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del owner
        gc.collect()
    assert stopped.wait(5)
    assert isinstance(raised[0], ResourceWarning)
