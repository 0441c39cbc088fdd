"""DescribeUserScramCredentials, key 50: which users can log in by SCRAM, and how; null asks for all.

Mechanisms are 1 (SCRAM-SHA-256) and 2 (SCRAM-SHA-512).
"""

from __future__ import annotations

from ottla.wire.schema import (
    Request,
    Response,
    array,
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
class UserName:
    name: str = field(string)


@request(key=50, versions=0, flexible=0)
class DescribeUserScramCredentialsRequest(Request["DescribeUserScramCredentialsResponse"]):
    users: list[UserName] | None = field(array(UserName), nullable_since=0)


@struct
class CredentialInfo:
    mechanism: int = field(int8)
    iterations: int = field(int32)


@struct
class UserCredentials:
    user: str = field(string)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0)
    credential_infos: list[CredentialInfo] = field(array(CredentialInfo))


@response(DescribeUserScramCredentialsRequest)
class DescribeUserScramCredentialsResponse(Response):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0)
    results: list[UserCredentials] = field(array(UserCredentials))
