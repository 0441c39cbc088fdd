"""A small issuer of tokens (OIDC): a token endpoint for client credentials, and the keys that sign."""

from __future__ import annotations

import base64
import json
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from ottla.model.closing import Closing

KEY_ID = "first"


def text_of(data: bytes) -> str:
    """Return base64 as tokens have it."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def public_key(key: rsa.RSAPrivateKey) -> dict[str, str]:
    """Return the public part of a key of 2048 bits, as a set of keys (JWKS) has it."""
    public = key.public_key().public_numbers()
    modulus, exponent = public.n.to_bytes(256, "big"), public.e.to_bytes(3, "big")
    return {"kty": "RSA", "use": "sig", "alg": "RS256", "n": text_of(modulus), "e": text_of(exponent)}


class Issuer(Closing):
    """Gives a token to each of `clients` (id → secret) that shows its secret; the subject is its id."""

    def __init__(self, clients: dict[str, str], audience: str = "kafka") -> None:
        self.clients = clients
        self.audience = audience
        self.scopes: list[str] = []  # of the tokens that were given
        self._key = rsa.generate_private_key(65537, 2048)
        issuer = self

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(200, issuer.keys())

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                form = urllib.parse.parse_qs(self.rfile.read(length).decode())
                self._answer(*issuer.grant(self.headers.get("Authorization") or "", form))

            def _answer(self, status: int, message: dict[str, Any]) -> None:
                data = json.dumps(message).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def broker_settings(self) -> dict[str, str]:
        """What a broker needs to trust the tokens."""
        return {
            "sasl.oauthbearer.jwks.endpoint.url": f"{self.url}/keys",
            "sasl.oauthbearer.expected.audience": self.audience,
            "sasl.oauthbearer.expected.issuer": self.url,
        }

    def keys(self) -> dict[str, Any]:
        return {"keys": [public_key(self._key) | {"kid": KEY_ID}]}

    def grant(self, authorization: str, form: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        """The answer to a request for a token."""
        shown = base64.b64decode(authorization.removeprefix("Basic ")).decode()
        client_id, _, secret = map(urllib.parse.unquote_plus, shown.partition(":"))
        if form.get("grant_type") != ["client_credentials"] or self.clients.get(client_id) != secret:
            return 401, {"error": "invalid_client"}
        scope = form.get("scope", [""])[0]
        self.scopes.append(scope)
        return 200, {"access_token": self.token(client_id), "token_type": "Bearer", "expires_in": 3600}

    def token(self, subject: str, **claims: Any) -> str:
        """A signed token."""
        now_s = int(time.time())
        said = {"sub": subject, "iss": self.url, "aud": self.audience, "iat": now_s, "exp": now_s + 3600}
        parts = ({"alg": "RS256", "typ": "JWT", "kid": KEY_ID}, said | claims)
        body = ".".join(text_of(json.dumps(part).encode()) for part in parts)
        signature = self._key.sign(body.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{body}.{text_of(signature)}"
