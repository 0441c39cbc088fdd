"""Events since the owner last looked. Watches, listeners and the loop only raise flags here."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field


@dataclass(slots=True)
class Raised:
    """Flags that were up: paths whose watch fired, topics that changed here, brokers, the session."""

    paths: set[str] = field(default_factory=set)
    topics: set[str] = field(default_factory=set)
    brokers: bool = False
    session: bool = False

    def __bool__(self) -> bool:
        return bool(self.paths or self.topics or self.brokers or self.session)


class Flags:
    """Any thread raises flags, one thread takes them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._raised = Raised()
        self._is_stopping = False

    def raise_path(self, path: str) -> None:
        """Note that a watch fired."""
        with self._changed:
            self._raised.paths.add(path)
            self._changed.notify()

    def raise_topic(self, name: str) -> None:
        """Note that a topic was created, deleted or changed in the broker."""
        with self._changed:
            self._raised.topics.add(name)
            self._changed.notify()

    def raise_brokers(self) -> None:
        """Note that a broker was started or stopped."""
        with self._changed:
            self._raised.brokers = True
            self._changed.notify()

    def raise_session(self) -> None:
        """Note that the session has another state."""
        with self._changed:
            self._raised.session = True
            self._changed.notify()

    def stop(self) -> None:
        """Ask the owner to end."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()

    @property
    def is_stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._is_stopping

    def wait(self, timeout_s: float | None) -> None:
        """Wait until a flag is up, or the time is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._raised or self._is_stopping, timeout_s)

    def take(self) -> Raised:
        """Return all flags that are up, and take them down."""
        with self._changed:
            taken, self._raised = self._raised, Raised()
            return taken
