"""AlterUserScramCredentials, key 51: give users credentials for SCRAM, or take them away.

Mechanisms are 1 (SCRAM-SHA-256) and 2 (SCRAM-SHA-512). The password is salted by the client.
"""

from __future__ import annotations

from ottla.wire.schema import (
    Request,
    Response,
    array,
    blob,
    field,
    int8,
    int16,
    int32,
    request,
    response,
    string,
    struct,
)


@struct
class ScramCredentialDeletion:
    name: str = field(string)
    mechanism: int = field(int8)


@struct
class ScramCredentialUpsertion:
    name: str = field(string)
    mechanism: int = field(int8)
    iterations: int = field(int32)
    salt: bytes = field(blob)
    salted_password: bytes = field(blob)


@request(key=51, versions=0, flexible=0)
class AlterUserScramCredentialsRequest(Request["AlterUserScramCredentialsResponse"]):
    deletions: list[ScramCredentialDeletion] = field(array(ScramCredentialDeletion))
    upsertions: list[ScramCredentialUpsertion] = field(array(ScramCredentialUpsertion))


@struct
class AlterUserScramCredentialsResult:
    user: str = field(string)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0)


@response(AlterUserScramCredentialsRequest)
class AlterUserScramCredentialsResponse(Response):
    throttle_time_ms: int = field(int32)
    results: list[AlterUserScramCredentialsResult] = field(array(AlterUserScramCredentialsResult))
