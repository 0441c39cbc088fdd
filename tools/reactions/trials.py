"""One Kafka client against one broker of ours: an error code in the answer to a call, and what comes of it.

Every trial begins with a client that has read everything and has raised whatever it had to raise. The fault
strikes once. Then a record is written: the client "reads on" if it reads that within SECONDS_MAX although the
application does nothing but poll, and "raises X" if `poll` (or the commit) has raised until then.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ottla import Code, EmbeddedBroker, Producer, TopicAndPartition
from ottla.client.client_config import ClientConfig
from ottla.offsets import KafkaOffsets
from tools.reactions.java_client import JavaClient

TOPIC = "t"
SECONDS_MAX = 5.0
"""What takes longer has stopped: clients try again within 20 ms here, or after minutes."""
HANDLED_SECONDS = 0.1
"""After an answer was sent the client has seen it."""
NOT_CALLED = "not called"
OPENING_CALLS = ("FindCoordinator", "JoinGroup", "SyncGroup", "OffsetFetch")
"""They are made by a new member."""
_TRIGGERS = {"ListOffsets": Code.OFFSET_OUT_OF_RANGE, "Metadata": Code.NOT_LEADER_OR_FOLLOWER}
"""What Fetch answers, so that the client makes the call."""


class ConsumerTrials:
    """Trials of one consumer. `loses_commits`: it says nothing if a commit fails, so the broker is asked."""

    def __init__(self, broker: EmbeddedBroker, client: JavaClient, *, loses_commits: bool = False) -> None:
        self._broker, self._client, self._loses_commits = broker, client, loses_commits
        self._producer = Producer(bootstrap_servers=broker.bootstrap, linger_ms=0)
        self._offsets = KafkaOffsets(ClientConfig.from_properties({"bootstrap.servers": broker.bootstrap}))
        self._opened = 0
        self._end = -1
        self._reopen()

    def close(self) -> None:
        """Close what is ours; the broker and the client are the caller's."""
        self._producer.close()
        self._offsets.close()

    def outcome(self, call: str, code: Code) -> str:
        """What the client does if this code answers one call."""
        return self._opening(call, code) if call in OPENING_CALLS else self._running(call, code)

    def _running(self, call: str, code: Code) -> str:
        self._client.settle()
        rule = self._broker.fail(call, code)
        if call in _TRIGGERS:
            self._broker.fail("Fetch", _TRIGGERS[call])
        if call == "OffsetCommit":
            return self._committing()
        if not _is_true_soon(lambda: rule.struck > 0):
            self._broker.clear_faults()
            return NOT_CALLED
        time.sleep(HANDLED_SECONDS)
        return self._seen([])

    def _opening(self, call: str, code: Code) -> str:
        self._client.do("close", until="closed")
        self._client.settle()
        rule = self._broker.fail(call, code)
        self._open()
        found = self._seen([])
        self._broker.clear_faults()
        return found if rule.struck else NOT_CALLED

    def _committing(self) -> str:
        self._client.say("commit")
        done, raised = self._client.lines_until("committed", "raised", seconds=SECONDS_MAX)
        if not done:
            return self._seen(raised)
        is_lost = self._loses_commits and not _is_true_soon(self._is_committed, 0.2)
        return ("does not commit, " if is_lost else "") + self._seen(raised)

    def _is_committed(self) -> bool:
        partition = TopicAndPartition(TOPIC, 0)
        stored = self._offsets.fetch(self._group, [partition]).get(partition)
        return stored is not None and stored.offset == self._end + 1

    def _seen(self, raised: list[str]) -> str:
        """Whether a record that is written now is read, and what is raised until then."""
        read, more = self._client.lines_until(f"read {self._write()}", seconds=SECONDS_MAX)
        names = list(dict.fromkeys([*raised, *more, *self._client.settle()]))
        if not read:
            self._broker.clear_faults()
            self._reopen()
        ends = "reads on" if read else "stops"
        return f"raises {', '.join(names)}, {ends}" if names else ends

    def _write(self) -> int:
        self._end = self._producer.send(TOPIC, partition=0, value=b"x").result(60).offset
        return self._end

    @property
    def _group(self) -> str:
        return f"group-{self._opened}"

    def _open(self) -> None:
        self._opened += 1
        self._client.do(f"open {self._group}", until="opened")

    def _reopen(self) -> None:
        self._client.do("close", until="closed")
        self._open()
        read, _ = self._client.lines_until(f"read {self._write()}", seconds=60)
        assert read, "a new consumer reads"


def produced(broker: EmbeddedBroker, client: JavaClient, code: Code) -> str:
    """What a producer does if this code answers its request; "sent" if the record is stored in the end."""
    client.settle()
    broker.fail("Produce", code)
    client.say(f"send {code.name}")
    said, raised = client.lines_until("sent", "raised", seconds=SECONDS_MAX)
    broker.clear_faults()
    return f"raises {', '.join(raised)}" if raised else said or "stops"


def _is_true_soon(condition: Callable[[], bool], seconds: float = SECONDS_MAX) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True
