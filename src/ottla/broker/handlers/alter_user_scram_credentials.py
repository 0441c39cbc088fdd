"""AlterUserScramCredentials, key 51: give users credentials for SCRAM, or take them away.

Versions: 0. Behaviour: the client salts the password; the broker keeps what is needed to check it. A user may
be in a request once. Each user is changed or not by itself.
"""

from __future__ import annotations

from collections import Counter

from ottla.broker.security.scram_users import ScramUsers
from ottla.broker.serving.handler import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.security.scram import (
    ALGORITHMS,
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    MECHANISM_NUMBERS,
    ScramCredential,
    credential,
)
from ottla.wire.api.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

MECHANISMS = {number: mechanism for mechanism, number in MECHANISM_NUMBERS.items()}
Refusal = tuple[Code, str]
Change = ScramCredentialDeletion | ScramCredentialUpsertion


def handle(inquiry: Inquiry, request: AlterUserScramCredentialsRequest) -> AlterUserScramCredentialsResponse:
    """Decide for each user, then store all changes together."""
    requested: list[Change] = [*request.deletions, *request.upsertions]
    counts = Counter(change.name for change in requested)
    refused: dict[str, Refusal] = {
        name: (Code.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
        for name, count in counts.items()
        if count > 1
    }
    changes: dict[tuple[str, str], ScramCredential | None] = {}
    users = inquiry.broker.scram_users
    for change in requested:
        if change.name in refused:
            continue
        error = _refusal(change, users)
        if error is not None:
            refused[change.name] = error
            continue
        mechanism = MECHANISMS[change.mechanism]
        changes[mechanism, change.name] = (
            _credential(mechanism, change) if isinstance(change, ScramCredentialUpsertion) else None
        )
    users.change(changes)
    return AlterUserScramCredentialsResponse(results=[_result(name, refused.get(name)) for name in counts])


def _result(name: str, refusal: Refusal | None) -> AlterUserScramCredentialsResult:
    code, text = refusal or (Code.NONE, None)
    return AlterUserScramCredentialsResult(user=name, error_code=code, error_message=text)


def _credential(mechanism: str, change: ScramCredentialUpsertion) -> ScramCredential:
    return credential(
        ALGORITHMS[mechanism], bytes(change.salted_password), bytes(change.salt), change.iterations
    )


def _refusal(change: Change, users: ScramUsers) -> Refusal | None:
    if not change.name:
        return Code.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    if change.mechanism not in MECHANISMS:
        return Code.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    if isinstance(change, ScramCredentialDeletion):
        is_known = MECHANISMS[change.mechanism] in users.mechanisms(change.name)
        missing = (Code.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
        return None if is_known else missing
    reason = _unacceptable(change)
    return (Code.UNACCEPTABLE_CREDENTIAL, reason) if reason else None


def _unacceptable(change: ScramCredentialUpsertion) -> str:
    if change.iterations < ITERATIONS_MIN:
        return "Too few iterations"
    if change.iterations > ITERATIONS_MAX:
        return "Too many iterations"
    is_empty = not change.salt or not change.salted_password
    return "The salt and the salted password must not be empty" if is_empty else ""


def refuse(
    request: AlterUserScramCredentialsRequest, error: Code, _version: int
) -> AlterUserScramCredentialsResponse:
    """One error for every user."""
    changes: list[Change] = [*request.deletions, *request.upsertions]
    names = dict.fromkeys(change.name for change in changes)
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=name, error_code=error, error_message=error.text)
            for name in names
        ]
    )


HANDLER = Handler(handle, refuse)
