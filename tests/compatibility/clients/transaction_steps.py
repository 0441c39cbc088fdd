"""Transactions of a Python client: commit, abort, fence, timeout and a restart, the same for each library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from steps import restart, same

Step = tuple[str, Callable[[], None]]


class Session(Protocol):
    """A transactional producer that has its id and epoch. Every call waits for its result, and may raise."""

    def begin(self) -> None: ...
    def send(self, topic: str, value: bytes) -> None: ...
    def send_offset(self, topic: str, offset: int, group: str) -> None: ...
    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...


class Library(Protocol):
    """What a client's script gives: topics have one partition here."""

    def create(self, topic: str) -> None: ...
    def open(self, transactional_id: str, timeout_ms: int = 60_000) -> Session: ...
    def write(self, topic: str, value: bytes) -> None:
        """Outside of a transaction."""

    def read(self, topic: str, count: int) -> list[bytes]:
        """The first values that a reader of committed records gets."""

    def position(self, group: str, topic: str) -> int: ...


def transaction_steps(library: Library, prefix: str) -> list[Step]:
    """The rows of the matrix."""

    def begun(name: str, timeout_ms: int = 60_000, value: bytes = b"lost") -> Session:
        session = library.open(f"{prefix}-{name}", timeout_ms)
        session.begin()
        session.send(f"{prefix}-{name}", value)
        return session

    def refused(session: Session) -> None:
        try:
            session.commit()
        except Exception:  # noqa: BLE001 (each library has its own)
            session.close()
        else:
            raise AssertionError("the commit was accepted")

    def commit_and_abort() -> None:
        topic = f"{prefix}-ended"
        library.create(topic)
        session = library.open(topic)
        for number in range(5):
            session.begin()
            session.send(topic, b"%d" % number)
            session.send_offset(topic, number + 1, topic)
            (session.abort if number % 2 else session.commit)()
        session.close()
        same(library.read(topic, 3), [b"0", b"2", b"4"], "committed values")
        same(library.position(topic, topic), 5, "position")

    def fenced() -> None:
        library.create(f"{prefix}-fenced")
        first = begun("fenced")
        second = begun("fenced", value=b"kept")
        refused(first)
        second.commit()
        second.close()
        same(library.read(f"{prefix}-fenced", 1), [b"kept"], "committed values")

    def timed_out() -> None:
        topic = f"{prefix}-late"
        library.create(topic)
        session = begun("late", 1_000)
        library.write(topic, b"behind")
        same(library.read(topic, 1), [b"behind"], "values once the transaction was aborted")
        refused(session)

    def restarted() -> None:
        topic = f"{prefix}-restarted"
        library.create(topic)
        session = begun("restarted", value=b"before")
        restart()
        session.send(topic, b"after")
        session.commit()
        session.close()
        same(library.read(topic, 2), [b"before", b"after"], "committed values")

    return [
        ("transactions: commit and abort, with positions", commit_and_abort),
        ("transactions: a newer producer fences the older", fenced),
        ("transactions: aborted after their timeout", timed_out),
        ("transactions: committed after a restart of the broker", restarted),
    ]
