"""Tokens for OAUTHBEARER: from a function of the user, or from an endpoint by OIDC's client credentials.

Signed requests for AWS_MSK_IAM are from a function of the user too.
"""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping

from ottla.client.security_config import SecurityConfig, TokenEndpoint
from ottla.model.errors import AuthenticationFailed

FETCH_S = 10.0
ANSWER_BYTES_MAX = 1 << 20


def token_for(security: SecurityConfig) -> str:
    """Return a token for a login. Raises AuthenticationFailed, without the token."""
    if security.token_provider is None:
        assert security.token_endpoint is not None
        return _fetched(security.token_endpoint)
    try:
        token = security.token_provider()
    except Exception as error:
        raise AuthenticationFailed(f"sasl.oauth.token.provider failed: {error!r}") from error
    if not isinstance(token, str) or not token or "\x01" in token:
        raise AuthenticationFailed("sasl.oauth.token.provider returned no token: a text is wanted")
    return token


def signed_request(security: SecurityConfig, host: str) -> bytes:
    """Return the signed request for a login by AWS_MSK_IAM. Raises AuthenticationFailed, without it."""
    assert security.iam_signer is not None
    try:
        signed = security.iam_signer(host)
    except Exception as error:
        raise AuthenticationFailed(f"sasl.aws.msk.iam.signer failed: {error!r}") from error
    if isinstance(signed, Mapping):
        signed = json.dumps(dict(signed))
    return signed.encode() if isinstance(signed, str) else bytes(signed)


def _fetched(endpoint: TokenEndpoint) -> str:
    form = {"grant_type": "client_credentials"} | ({"scope": endpoint.scope} if endpoint.scope else {})
    login = base64.b64encode(f"{endpoint.client_id}:{endpoint.client_secret}".encode()).decode()
    request = urllib.request.Request(
        endpoint.url,
        urllib.parse.urlencode(form).encode(),
        {"Authorization": f"Basic {login}", "Accept": "application/json"},
    )
    where = f"sasl.oauthbearer.token.endpoint.url={endpoint.url}"
    try:
        with urllib.request.urlopen(request, timeout=FETCH_S) as answer:
            token = json.loads(answer.read(ANSWER_BYTES_MAX)).get("access_token")
    except urllib.error.HTTPError as error:
        error.close()
        raise AuthenticationFailed(f"{where}: no token for {endpoint.client_id}: {error.code}") from None
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise AuthenticationFailed(f"{where}: no token: {type(error).__name__}: {error}") from None
    if not isinstance(token, str) or not token:
        raise AuthenticationFailed(f"{where}: the answer has no access_token")
    return token
