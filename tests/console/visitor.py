"""A browser without a screen."""

from __future__ import annotations

import gzip
import http.client
import re
from typing import Any
from urllib.parse import urlencode, urlsplit


class Visitor:
    """A browser without a screen: keeps its cookie, follows nothing."""

    def __init__(self, url: str) -> None:
        self._where = urlsplit(url).netloc
        self.cookie = ""

    def ask(self, method: str, path: str, fields: dict[str, str] | None = None, **headers: str) -> Any:
        connection = http.client.HTTPConnection(self._where, timeout=120)
        sent = {"Accept-Encoding": "gzip", **({"Cookie": self.cookie} if self.cookie else {}), **headers}
        if fields is not None:
            sent["Content-Type"] = "application/x-www-form-urlencoded"
        connection.request(method, path, urlencode(fields) if fields is not None else None, sent)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        if cookie := answer.getheader("Set-Cookie"):
            self.cookie = cookie.partition(";")[0]
        text = gzip.decompress(body) if answer.getheader("Content-Encoding") == "gzip" else body
        return answer.status, text.decode(), answer, len(body)

    def csrf(self, path: str) -> str:
        found = re.search(r'name="csrf" value="(\w+)"', self.ask("GET", path)[1])
        assert found is not None
        return found[1]
