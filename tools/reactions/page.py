"""Writes the tables of docs/errors.md: what we do about each code, beside what Kafka's own clients did.

python -m tools.reactions.page
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from ottla.client.reactions import Call, action_for
from ottla.model.error_codes import Code
from tools.reactions.differences import Outcomes, table

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "errors.md"
GOLDEN = ROOT / "tests" / "golden" / "reactions.jsonl"
BEGIN, END = "<!-- made by tools/reactions/page.py -->", "<!-- end -->"
UNSHOWN = {
    Call.OTHER,
    Call.INIT_PRODUCER_ID,
    Call.TRANSACTION,
    Call.LEAVE_GROUP,
    Call.CONSUMER_GROUP_HEARTBEAT,
}
CALLS = [call for call in Call if call not in UNSHOWN]


def outcomes() -> Outcomes:
    """What Kafka's own clients did."""
    found: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for line in GOLDEN.read_text().splitlines():
        row = json.loads(line)
        found[row["call"], row["client"]][row["code"]] = row["outcome"]
    return found


def _short(outcome: str) -> str:
    return re.sub(r"raises \w+(, [A-Z]\w+)*", "raises", outcome)


def _table(call: Call, found: Outcomes) -> Iterator[str]:
    clients = [client for of_call, client in found if of_call == call.value]
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for code in Code:
        if code is not Code.NONE:
            theirs = (_short(found[call.value, client].get(code.name, "")) for client in clients)
            groups[action_for(code, call).value, *theirs].append(code.name)
    largest = max(groups, key=lambda group: len(groups[group]))
    yield f"### {call.value}\n"
    yield f"| codes | ottla | {' | '.join(clients)} |"
    yield f"|---|---|{'---|' * len(clients)}"
    for group, codes in groups.items():
        names = "all others" if group == largest else ", ".join(codes)
        yield f"| {names} | {' | '.join(group)} |"
    yield ""


def section() -> str:
    """The part of the page between the marks."""
    found = outcomes()
    lines = [line for call in CALLS for line in _table(call, found)]
    return "\n".join([BEGIN, "", *table(found), "", *lines, END])


def page() -> str:
    """The whole page, with new tables."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    return before + section() + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page())
