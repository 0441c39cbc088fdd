"""DescribeUserScramCredentials, key 50: which users can log in by SCRAM, and with how many iterations.

Versions: 0. Behaviour: null or no name asks for all users. Salts and keys are never in an answer.
"""

from __future__ import annotations

from collections import Counter

from ottla.broker.security.scram_users import ScramUsers
from ottla.broker.serving.handler import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.security.scram import MECHANISM_NUMBERS
from ottla.wire.api.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserCredentials,
)

TWICE = "Cannot describe SCRAM credentials for the same user twice in a single request"


def handle(
    inquiry: Inquiry, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Describe each user."""
    users = inquiry.broker.scram_users
    wanted = Counter(user.name for user in request.users or ()) or dict.fromkeys(users.names(), 1)
    return DescribeUserScramCredentialsResponse(
        results=[_described(users, name, count) for name, count in wanted.items()]
    )


def _described(users: ScramUsers, name: str, count: int) -> UserCredentials:
    if count > 1:
        return UserCredentials(
            user=name,
            error_code=Code.DUPLICATE_RESOURCE,
            error_message=f"{TWICE}: {name}",
        )
    infos = [
        CredentialInfo(mechanism=MECHANISM_NUMBERS[mechanism], iterations=known.iterations)
        for mechanism in users.mechanisms(name)
        if (known := users.find(mechanism, name)) is not None
    ]
    if not infos:
        return UserCredentials(
            user=name,
            error_code=Code.RESOURCE_NOT_FOUND,
            error_message=f"Attempt to describe a user credential that does not exist: {name}",
        )
    return UserCredentials(user=name, credential_infos=infos)


def refuse(
    _request: DescribeUserScramCredentialsRequest, error: Code, _version: int
) -> DescribeUserScramCredentialsResponse:
    """One error for the whole request."""
    return DescribeUserScramCredentialsResponse(error_code=error, error_message=error.text)


HANDLER = Handler(handle, refuse)
