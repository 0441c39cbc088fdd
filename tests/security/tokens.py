"""Tokens without a signature, for tests."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any


def unsigned_token(claims: Mapping[str, Any]) -> str:
    """Return a token that nobody has signed."""
    parts = (json.dumps({"alg": "none"}), json.dumps(dict(claims)))
    head, body = (base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts)
    return f"{head}.{body}."
