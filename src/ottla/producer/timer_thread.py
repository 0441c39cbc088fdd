"""The thread that watches the time, and does what is due."""

from __future__ import annotations

import logging
import threading

from ottla.model.errors import OttlaError
from ottla.producer.dispatcher import Dispatcher
from ottla.producer.producer_state import ProducerParts
from ottla.producer.timed_work import TimedWork

LOG = logging.getLogger(__name__)


class TimerThread:
    """Looks at the time when something is due, and whenever `timer_wanted` is set."""

    def __init__(self, state: ProducerParts, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._work = TimedWork(state, dispatcher)
        assert isinstance(state.timer_wanted, threading.Event)
        self._wanted = state.timer_wanted
        name = f"{state.config.client.client_id}-timer"
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def _run(self) -> None:
        try:
            while not self._dispatcher.is_stopped:
                self._wait()
                self._work.do()
        except Exception as error:
            LOG.exception("the timer thread failed")
            self._dispatcher.fail(OttlaError(f"the producer cannot go on: {error!r}"))

    def _wait(self) -> None:
        self._wanted.clear()
        if self._dispatcher.is_stopped:
            return
        left_ms = self._work.left_ms()
        if left_ms > 0:
            self._wanted.wait(left_ms / 1000.0)
