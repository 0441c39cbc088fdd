"""Objects that are dropped without `close()`: warn about them and stop their threads.

    class Reader:
        def __init__(self) -> None:
            self._engine = Engine()
            self._forgotten = stop_if_forgotten(self, "Reader of 'orders'", self._engine.close)

        def close(self) -> None:
            self._forgotten.detach()
            self._engine.close()

The object's threads must not refer to it, or it is never collected. Neither may `stop`.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
import weakref
from collections.abc import Callable


def _by_thread(stop: Callable[[], object]) -> None:
    threading.Thread(target=stop, name="ottla-stop-forgotten", daemon=True).start()


def stop_if_forgotten(
    owner: object,
    name: str,
    stop: Callable[[], object],
    *,
    is_running: Callable[[], bool] | None = None,
    start: Callable[[Callable[[], object]], None] = _by_thread,
) -> weakref.finalize[..., object]:
    """When `owner` is garbage collected: emit a ResourceWarning that begins with `name`, then call `stop`.

    A collection may happen in any thread and under any lock: `start` is called with `stop` and has to get it
    called elsewhere, by default by a daemon thread. If `is_running` is given and returns False, there is no
    warning; `stop` is called in any case. No function may refer to `owner`. Nothing happens at the exit of
    the interpreter. Call `detach()` of what is returned when `owner` is closed; twice and from any thread
    does no harm.
    """
    finalizer = weakref.finalize(owner, _stop, name, stop, is_running, start)
    finalizer.atexit = False
    return finalizer


def _stop(
    name: str,
    stop: Callable[[], object],
    is_running: Callable[[], bool] | None,
    start: Callable[[Callable[[], object]], None],
) -> None:
    try:
        if is_running is None or is_running():
            warnings.warn(
                f"{name} was not closed: call close(), or use `with`", ResourceWarning, stacklevel=2
            )
    finally:
        with contextlib.suppress(RuntimeError):  # no thread can be started while the interpreter exits
            start(stop)
