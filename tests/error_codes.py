"""The error codes that tests put into answers."""

from __future__ import annotations

from collections import defaultdict

from ottla.client.reactions import Action, Call, action_for
from ottla.model.error_codes import Code
from tests.scale import sized

_SAME_REACTIONS = 2


def _by_reactions() -> list[Code]:
    """Return two codes of those that every call reacts to in the same way."""
    alike: defaultdict[tuple[bool | Action, ...], list[Code]] = defaultdict(list)
    for code in ALL_CODES:
        alike[code.retriable, *(action_for(code, call) for call in Call)].append(code)
    return [code for codes in alike.values() for code in codes[:_SAME_REACTIONS]]


ALL_CODES: list[Code] = [code for code in Code if code is not Code.NONE]
CODES: list[Code] = sized(_by_reactions(), ALL_CODES)
"""In nightly sizes all of them."""
