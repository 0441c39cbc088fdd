"""Where our clients react otherwise than Kafka's own, and why. Pure.

The outcome of a trial (`tools.reactions.trials`) and our reaction are put into the same words, and compared.
Every difference that a run has found needs a reason here; `tests/client/test_reactions.py` compares both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ottla.client.reactions import Action, Call, action_for
from ottla.model.error_codes import Code

GOES_ON, TELLS, STOPS, LOSES = "goes on", "tells", "stops", "loses the commit"
JAVA, CLASSIC = "Java 4", "high-level"
"""How the names of the clients begin that ours are compared with."""

Outcomes = Mapping[tuple[str, str], Mapping[str, str]]
"""(call, client) → code → outcome."""

_COMMIT_TOLD = {
    JAVA: {Action.FAIL, Action.FORGET_GENERATION, Action.FORGET_MEMBER},
    CLASSIC: {
        Action.FAIL,
        Action.FORGET_GENERATION,
        Action.FORGET_MEMBER,
        Action.REJOIN,
    },  # it has no generation
}


class Difference(NamedTuple):
    """One kind of difference: which client, in which call, and what both do."""

    client: str
    call: Call
    ours: str
    theirs: str


_NOT_EXPECTED = (
    "Java raises where it does not expect a code, and the application has to poll again. "
    "The next try may succeed: "
)
_TRIED_AGAIN = _NOT_EXPECTED + (
    "the member tries again with pauses, logs the 4th, 8th, 16th … refusal, and is not STABLE meanwhile."
)
_ASKS_FOR_EVER = (
    "It asks for ever and tells only its log: a partition that is owned and not read, in silence. Here the "
    "reader is told, and the partition is tried again all the same, after 1 s, 2 s, 4 s …"
)
_REBALANCES_AGAIN = (
    "It tells only its log. Here the rebalance fails and is repeated; if that goes on, the member is "
    "DEGRADED, with the reason."
)
REASONS: Mapping[Difference, str] = {
    Difference(JAVA, Call.FETCH, GOES_ON, TELLS): (
        f"{_NOT_EXPECTED}after 10 s without one the partition counts as stopped, and is shown."
    ),
    Difference(JAVA, Call.FIND_COORDINATOR, GOES_ON, TELLS): _TRIED_AGAIN,
    Difference(JAVA, Call.JOIN_GROUP, GOES_ON, TELLS): _TRIED_AGAIN,
    Difference(JAVA, Call.SYNC_GROUP, GOES_ON, TELLS): _TRIED_AGAIN,
    Difference(JAVA, Call.OFFSET_FETCH, GOES_ON, TELLS): (
        f"{_NOT_EXPECTED}`poll` raises when there was none for request.timeout.ms."
    ),
    Difference(JAVA, Call.LIST_OFFSETS, TELLS, GOES_ON): _ASKS_FOR_EVER,
    Difference(JAVA, Call.METADATA, GOES_ON, STOPS): (
        "Java drops the topic until metadata.max.age.ms (5 minutes) is over. Here the leader that was known "
        "is asked, and the metadata again."
    ),
    Difference(JAVA, Call.OFFSET_COMMIT, GOES_ON, TELLS): (
        "A commit can be repeated without harm. What Kafka calls retriable, and UNKNOWN_SERVER_ERROR, is "
        "repeated until request.timeout.ms; after a rebalance, if the partitions are still this member's."
    ),
    Difference(JAVA, Call.PRODUCE, GOES_ON, TELLS): (
        "Brokers of 0.8 answer BROKER_NOT_AVAILABLE for a moment. A producer's id that is refused is "
        "replaced, and the batch sent under the new one."
    ),
    Difference(CLASSIC, Call.FETCH, TELLS, GOES_ON): _ASKS_FOR_EVER,
    Difference(CLASSIC, Call.LIST_OFFSETS, TELLS, GOES_ON): _ASKS_FOR_EVER,
    Difference(CLASSIC, Call.FIND_COORDINATOR, TELLS, GOES_ON): _REBALANCES_AGAIN,
    Difference(CLASSIC, Call.OFFSET_FETCH, TELLS, GOES_ON): _REBALANCES_AGAIN,
    Difference(CLASSIC, Call.OFFSET_COMMIT, TELLS, GOES_ON): (
        "What Kafka calls final is told at once, as Java does. 0.9 repeats it offsets.commit.max.retries "
        "times and then only logs it (that is `commitOffsets(false)`; `commitOffsets()` repeats nothing)."
    ),
    Difference(
        CLASSIC, Call.OFFSET_COMMIT, TELLS, LOSES
    ): "It logs that nothing is stored. Here `commit` raises.",
}


def ours(client: str, call: Call, code: Code) -> str:
    """What we have in the place of a client does, in the words of a difference."""
    action = action_for(code, call)
    if call is Call.METADATA:
        return GOES_ON  # a leader is known in these trials
    if call is Call.PRODUCE:
        return TELLS if action in {Action.FAIL, Action.SPLIT} else GOES_ON
    if call is Call.OFFSET_COMMIT:
        return TELLS if action in _COMMIT_TOLD[client] else GOES_ON
    return TELLS if action is Action.FAIL else GOES_ON


def theirs(outcome: str) -> str:
    """What Kafka's client did, in the words of a difference."""
    if "stops" in outcome:
        return STOPS
    if outcome.startswith("does not commit"):
        return LOSES
    return TELLS if outcome.startswith("raises") else GOES_ON


def differences(found: Outcomes) -> dict[Difference, list[Code]]:
    """Every kind of difference between ours and the clients that ours are compared with, and its codes."""
    kinds: dict[Difference, list[Code]] = defaultdict(list)
    for (name, client), outcomes in found.items():
        prefix = next((prefix for prefix in (JAVA, CLASSIC) if client.startswith(prefix)), None)
        if prefix is None:
            continue
        call = Call(name)
        for code_name, outcome in outcomes.items():
            code = Code[code_name]
            kind = Difference(prefix, call, ours(prefix, call, code), theirs(outcome))
            if kind.ours != kind.theirs:
                kinds[kind].append(code)
    return dict(kinds)


def table(found: Outcomes) -> Iterator[str]:
    """The lines of a table of all differences with their reasons."""
    yield "| call | codes | ottla | the other | why |"
    yield "|---|---|---|---|---|"
    names = {prefix: client for _, client in found for prefix in (JAVA, CLASSIC) if client.startswith(prefix)}
    for kind, codes in sorted(differences(found).items(), key=lambda item: list(REASONS).index(item[0])):
        yield (
            f"| {kind.call.value} | {len(codes)} | {kind.ours} | {names[kind.client]} {kind.theirs} | "
            f"{REASONS[kind]} |"
        )
