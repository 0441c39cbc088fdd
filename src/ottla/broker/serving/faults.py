"""Faults on demand, for tests of clients: answer an error, delay, or cut the connection.

    broker.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
    broker.delay("Fetch", 0.5)
    broker.drop("JoinGroup")
    broker.fail("OffsetCommit", Code.COORDINATOR_LOAD_IN_PROGRESS, when=lambda request: …)

The first rule that fits a call strikes. A rule is removed when it has struck `times` times. A delayed call is
handled after its delay, in the state of that time. `when` is called in the broker's thread with the request;
if it raises, the log has the traceback and the client loses its connection.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from ottla.broker.serving.handler import Handler, Inquiry
from ottla.model.did_you_mean import hint
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError
from ottla.wire.registry import MODULES, apis
from ottla.wire.schema import Request

When = Callable[[Any], bool]
FOREVER = -1


class FaultKind(Enum):
    """What a rule does to a call."""

    ERROR = "answer an error and do nothing"
    DELAY = "handle it later"
    DROP = "close the connection instead of an answer"
    DROP_AFTER = "handle it, then close the connection instead of an answer"


@dataclass(slots=True)
class FaultRule:
    """One fault. `left` counts down; FOREVER never ends. `struck` counts the calls that it hit."""

    api_key: int
    kind: FaultKind
    left: int
    error: Code = Code.NONE
    delay_s: float = 0.0
    when: When | None = None
    struck: int = 0

    def fits(self, key: int, request: Request[Any]) -> bool:
        """Whether the rule concerns a call."""
        return key == self.api_key and self.left != 0 and (self.when is None or self.when(request))


def api_key(api: str | int | type[Request[Any]]) -> int:
    """Return the key of an API named by its name ("Fetch"), key or request class. Raises ConfigError."""
    if isinstance(api, str):
        by_name = {known.name.lower(): key for key, known in apis().items()}
        key = by_name.get(api.lower(), -1)
    else:
        key = api if isinstance(api, int) else api.API.key
    if key not in MODULES:
        names = [known.name for known in apis().values()]
        near = hint(str(api), names, otherwise=f"; there are: {', '.join(names)}")
        raise ConfigError(f"no API {api!r} is served here{near}")
    return key


def error_code(error: int | str) -> Code:
    """Return the Code with a number or a name. Raises ConfigError if Kafka has no such error."""
    if isinstance(error, str):
        code = Code.__members__.get(error.strip().upper())
        near = hint(error, Code.__members__)
    else:
        code = Code.of(error) if Code.of(error) == error else None
        near = ""
    if code is None:
        raise ConfigError(f"{error} is no error code of Kafka's (ottla.model.error_codes lists them){near}")
    return code


class FaultyConnection(Protocol):
    """The part of a connection that faults use."""

    def abort(self) -> None:
        """Cut it."""

    def resume(self, inquiry: Inquiry, handler: Handler) -> None:
        """Handle a call that was held back."""


class FaultRules:
    """The rules of all brokers of a process; false if there are no `rules`. Owned by the loop."""

    def __init__(self) -> None:
        self.rules: list[FaultRule] = []

    def __bool__(self) -> bool:
        return bool(self.rules)

    def add(self, rule: FaultRule) -> None:
        """Add a rule. Raises ConfigError if it could never strike."""
        if rule.left == 0 or rule.left < FOREVER:
            raise ConfigError(f"a fault cannot come {rule.left} times: 1 or more, or {FOREVER} for ever")
        self.rules.append(rule)

    def clear(self) -> None:
        """Remove all rules."""
        self.rules.clear()

    def strike(self, inquiry: Inquiry, handler: Handler, connection: FaultyConnection) -> bool:
        """Let the first fitting rule strike. Returns whether one did; then the call is dealt with."""
        call = inquiry.call
        rule = next((rule for rule in self.rules if rule.fits(call.api.key, call.message)), None)
        if rule is None:
            return False
        rule.struck += 1
        rule.left -= rule.left > 0
        if rule.left == 0:
            self.rules.remove(rule)
        match rule.kind:
            case FaultKind.ERROR:
                inquiry.reply(handler.failed(inquiry, rule.error))
            case FaultKind.DELAY:
                loop = inquiry.broker.runtime.loop
                loop.call_later(rule.delay_s, connection.resume, inquiry, handler)
            case FaultKind.DROP:
                connection.abort()
            case FaultKind.DROP_AFTER:
                connection.abort()  # first, so that the answer has nowhere to go
                connection.resume(inquiry, handler)
        return True
