"""Faults on demand, for tests of clients: answer an error, delay, or cut the connection, so many times.

    broker.fail("Produce", error=Code.NOT_LEADER_OR_FOLLOWER, times=2)
    broker.delay("Fetch", delay_ms=500)
    broker.drop("JoinGroup", times=1)
    broker.fail("OffsetCommit", error=Code.COORDINATOR_LOAD_IN_PROGRESS, when=lambda request: …)

The first rule that fits a call strikes; a rule that has struck so often as it may is gone. A delayed call is
handled after its delay, in the state of that time. `when` is called in the broker's thread with the request;
if it raises, the log has the traceback and the client loses its connection.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ottla.broker.serving import Handler, Inquiry, handlers
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError
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
class Rule:
    """One fault. `left` counts down; FOREVER never ends. `struck` tells a test how often it came."""

    api_key: int
    kind: FaultKind
    left: int
    error: Code = Code.NONE
    delay_ms: int = 0
    when: When | None = None
    struck: int = 0

    def fits(self, key: int, request: Request[Any]) -> bool:
        """Whether the rule concerns a call."""
        return key == self.api_key and self.left != 0 and (self.when is None or self.when(request))


def api_key(api: str | int | type[Request[Any]]) -> int:
    """The key of an API by its name ("Fetch"), its key or its request class. Raises ConfigError."""
    served = handlers()
    if isinstance(api, str):
        by_name = {handler.request.API.name.lower(): key for key, handler in served.items()}
        key = by_name.get(api.lower(), -1)
    else:
        key = api if isinstance(api, int) else api.API.key
    if key not in served:
        names = ", ".join(handler.request.API.name for handler in served.values())
        raise ConfigError(f"no API {api!r} is served here; there are: {names}")
    return key


def known_error(number: int) -> Code:
    """One of Kafka's errors. Raises ConfigError for a number that is none."""
    error = Code.of(number)
    if error != number:
        raise ConfigError(f"{number} is no error code of Kafka's; ottla.model.error_codes.Code lists them")
    return error


class Faults:
    """The rules of all brokers of a process, without cost as long as there are none. Owned by the loop."""

    def __init__(self) -> None:
        self._rules: list[Rule] = []

    def __bool__(self) -> bool:
        return bool(self._rules)

    def add(self, rule: Rule) -> None:
        """Have a rule from now on."""
        if rule.left == 0 or rule.left < FOREVER:
            raise ConfigError(f"a fault cannot come {rule.left} times: 1 or more, or {FOREVER} for ever")
        self._rules.append(rule)

    def clear(self) -> None:
        """Have no rule any more."""
        self._rules.clear()

    def strike(self, inquiry: Inquiry, handler: Handler) -> bool:
        """Let the first fitting rule have the call: True if it took it."""
        call = inquiry.call
        rule = next((one for one in self._rules if one.fits(call.api.key, call.message)), None)
        if rule is None:
            return False
        rule.struck += 1
        rule.left -= rule.left > 0
        if rule.left == 0:
            self._rules.remove(rule)
        match rule.kind:
            case FaultKind.ERROR:
                inquiry.reply(handler.refuse(call.message, rule.error, call.version))
            case FaultKind.DELAY:
                resume = inquiry.connection.resume
                inquiry.cluster.loop.call_later(rule.delay_ms / 1000, resume, inquiry, handler)
            case FaultKind.DROP:
                inquiry.connection.abort()
            case FaultKind.DROP_AFTER:
                inquiry.connection.abort()  # first, so that the answer has nowhere to go
                inquiry.connection.resume(inquiry, handler)
        return True
