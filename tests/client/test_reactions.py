"""The table of reactions is complete, and compared with what Kafka's own clients did (tools/reactions)."""

from __future__ import annotations

import pytest

from ottla.client.reactions import REACTIONS, Action, Call, action_for
from ottla.model.error_codes import Code
from tools.reactions.differences import REASONS, differences
from tools.reactions.page import CALLS, PAGE, outcomes, page

CODES = {code.name for code in Code if code is not Code.NONE}
QUIET = "reads on"
READING_CALLS = [call for call in CALLS if call is not Call.PRODUCE]
JAVA = next(client for _, client in outcomes() if client.startswith("Java 4"))

TOLD = {
    "TOPIC_AUTHORIZATION_FAILED",
    "GROUP_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "DELEGATION_TOKEN_AUTHORIZATION_FAILED",
    "SASL_AUTHENTICATION_FAILED",
    "UNSUPPORTED_SASL_MECHANISM",
    "ILLEGAL_SASL_STATE",
    "SECURITY_DISABLED",
    "POLICY_VIOLATION",
    "UNSUPPORTED_VERSION",
    "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    "UNSUPPORTED_COMPRESSION_TYPE",
    "INVALID_REQUEST",
    "INVALID_TOPIC_EXCEPTION",
    "INVALID_GROUP_ID",
}
"""What no retry cures. Java's consumer asks for ever without a word where it does not expect these codes."""


def test_every_call_has_a_reaction_to_every_code() -> None:
    for call in Call:
        assert set(REACTIONS[call]) == set(Code)
        assert action_for(Code.NONE, call) is Action.NONE


def test_kafkas_own_clients_were_asked_about_every_code() -> None:
    found = outcomes()
    for call in CALLS:
        clients = [client for of_call, client in found if of_call == call.value]
        assert clients, call
        for client in clients:
            assert set(found[call.value, client]) == CODES, (
                f"{client}, {call.value}: python -m tools.reactions"
            )


def test_every_difference_from_kafkas_own_clients_has_a_reason() -> None:
    assert set(differences(outcomes())) == set(REASONS)


@pytest.mark.parametrize("call", READING_CALLS, ids=lambda call: call.value)
def test_where_java_reads_on_without_a_word_we_do_too(call: Call) -> None:
    theirs = outcomes()[call.value, JAVA]
    loud = {name for name in CODES if theirs[name] == QUIET and action_for(Code[name], call) is Action.FAIL}
    assert loud <= TOLD


def test_where_java_sends_again_we_do_too() -> None:
    theirs = outcomes()[Call.PRODUCE.value, JAVA]
    sent = {name for name in CODES if theirs[name] == "sent"}
    ours = {name for name in CODES if action_for(Code[name], Call.PRODUCE) not in {Action.FAIL, Action.SPLIT}}
    assert sent <= ours


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "python -m tools.reactions.page"
