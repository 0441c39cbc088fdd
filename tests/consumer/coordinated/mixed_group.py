"""A group of members by several clients, each in a thread; what they hold and have read."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from ottla import Producer
from tests.consumer.coordinated.foreign_members import ForeignMember
from tests.waiting import PATIENCE_S
from tools.peer_cache import Unavailable

PARTITIONS, RECORDS = 12, 1200


class MixedGroup:
    """Made for one topic, which `produce` fills."""

    def __init__(self, bootstrap: str, topic: str, **more: Any) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.read: Counter[tuple[int, int]] = Counter()
        self.missing: dict[str, str] = {}  # clients that cannot be had here, and why
        self._more = more
        self._written = 0
        self._failures: list[BaseException] = []
        self._changed = threading.Condition()
        self._threads: dict[str, threading.Thread] = {}
        self._leaving: set[str] = set()
        self._held: dict[str, set[int]] = {}

    def join(self, name: str, make: Callable[..., ForeignMember], strategy: str, **more: Any) -> None:
        """A member by this name; nobody if the client cannot be had."""
        try:
            member = make(self.bootstrap, f"group-of-{self.topic}", self.topic, strategy, **more)
        except Unavailable as error:
            self.missing[name] = f"{error}"
            return
        self._threads[name] = threading.Thread(target=self._run, args=(name, member))
        self._held[name] = set()
        self._threads[name].start()

    def _run(self, name: str, member: ForeignMember) -> None:
        try:
            try:
                while name not in self._leaving:
                    rows, held = member.poll(), member.held()
                    with self._changed:
                        self.read.update(rows)
                        self._held[name] = held
                        self._changed.notify_all()
            finally:
                rest = member.close()
            with self._changed:
                self.read.update(rest or ())
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self._failures.append(error)
        finally:
            with self._changed:
                self._held.pop(name, None)
                self._changed.notify_all()

    def leave(self, names: Iterable[str]) -> None:
        """These leave, all at once."""
        here = [name for name in names if name in self._threads]
        self._leaving |= set(here)
        for name in here:
            self._threads.pop(name).join(PATIENCE_S)
        self._leaving -= set(here)

    def settle(self) -> None:
        """Until every member has a part, and the parts are all partitions, evenly."""

        def is_shared_out() -> bool:
            parts = list(self._held.values())
            is_even = max(map(len, parts)) - min(map(len, parts)) <= 1
            return is_even and sorted(one for part in parts for one in part) == list(range(PARTITIONS))

        self.until(is_shared_out)

    def until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        with self._changed:
            while not is_so():
                assert not self._failures, self._failures
                assert time.monotonic() < deadline, (self._held, self.read.total(), self._written)
                self._changed.wait(1)

    def produce(self) -> None:
        with Producer(bootstrap_servers=self.bootstrap, **self._more) as producer:
            for number in range(RECORDS):
                producer.send(self.topic, b"%d" % number, partition=number % PARTITIONS)
        self._written += RECORDS

    def check_each_record_was_read_once(self) -> None:
        end = self._written // PARTITIONS
        expected = {(number, offset) for number in range(PARTITIONS) for offset in range(end)}
        self.until(lambda: self.read.keys() >= expected)
        assert self.read.keys() == expected
        assert set(self.read.values()) == {1}

    def close(self) -> None:
        self.leave(list(self._threads))
