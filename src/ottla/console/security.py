"""Who may use the console, and what a browser may do with its pages.

- On 127.0.0.1 there is no login, but a request must name a loopback host: a foreign page cannot make a
  browser take our address for its own.
- Elsewhere a token is wanted once; then a cookie carries the session.
- Whatever changes something is a POST with a token of the session in the form, and from the same origin.
- Pages load nothing but our own script, style and pictures.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

from starlette.requests import Request
from starlette.responses import Response

COOKIE = "ottla_console"
SESSION_S = 12 * 3600
FORM_BYTES_MAX = 1 << 20
LOOPBACK = {"127.0.0.1", "localhost", "::1"}
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; form-action 'self'; "
    "base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with no-referrer, browsers send our own forms with Origin: null
    "Cache-Control": "no-store",
}


class PageRefused(Exception):
    """A request that is not served; `status` and the text are the answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True)
class Gate:
    """`token` is None where no login is needed. `host` is where the console listens."""

    host: str
    token: str | None = None
    is_read_only: bool = False
    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(32))

    def check_host(self, request: Request) -> None:
        """Raises Refused if the request is for another host."""
        name = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
        if self.token is None and name not in LOOPBACK | {self.host}:
            raise PageRefused(421, f"this console is at {self.host}, not at {name!r:.100}")

    def session(self, request: Request) -> str | None:
        """The session in the cookie; None if there is none, or if we did not make it."""
        name, _, proof = request.cookies.get(COOKIE, "").partition(".")
        return name if name and hmac.compare_digest(proof, self._proof("session", name)) else None

    def is_known(self, request: Request) -> bool:
        """Whether the sender may see pages."""
        return self.token is None or self.session(request) is not None

    def log_in(self, given: str) -> bool:
        """Whether this is the token."""
        return self.token is not None and hmac.compare_digest(given.encode(), self.token.encode())

    def begin(self, response: Response) -> str:
        """Give the response a new session."""
        name = secrets.token_urlsafe(18)
        response.set_cookie(
            COOKIE,
            f"{name}.{self._proof('session', name)}",
            max_age=SESSION_S,
            httponly=True,
            samesite="strict",
        )
        return name

    def csrf(self, session: str) -> str:
        """The token that forms of this session carry."""
        return self._proof("form", session)

    async def form(self, request: Request) -> dict[str, str]:
        """The fields of a POST that may change something. Raises Refused."""
        if self.is_read_only:
            raise PageRefused(403, "this console is read-only")
        fields = await form_fields(request)
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
            raise PageRefused(403, "this form is from another site")
        session = self.session(request)
        if session is None or not hmac.compare_digest(fields.pop("csrf", ""), self.csrf(session)):
            raise PageRefused(403, "this form is too old, or from another site: load its page again")
        return fields

    def _proof(self, purpose: str, name: str) -> str:
        return hmac.new(self._secret, f"{purpose} {name}".encode(), hashlib.sha256).hexdigest()


async def form_fields(request: Request) -> dict[str, str]:
    """The fields of a form. Raises Refused if it is too large."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > FORM_BYTES_MAX:
            raise PageRefused(413, f"the form is larger than {FORM_BYTES_MAX} bytes")
    return dict(parse_qsl(body.decode(errors="replace"), keep_blank_values=True, max_num_fields=100))
