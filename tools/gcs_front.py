"""The XML interface of Google Cloud Storage in front of fake-gcs-server, which has conditions only in JSON's.

Rust's object stores (obstore, delta-rs) speak XML, PyArrow speaks JSON. Requests for objects in XML become
those of JSON, with their condition on the generation; the server decides. All else is passed on as it came.

python gcs_front.py PORT SERVER
"""

from __future__ import annotations

import json
import sys
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit
from xml.sax.saxutils import escape

_JSON_PATHS = ("/storage/", "/upload/", "/download/", "/batch/", "/_internal/", "/b/")
_CONDITION = "x-goog-if-generation-match"
_NOT_PASSED_ON = {"host", "connection", "transfer-encoding", "content-length", "accept-encoding"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_address = ""

    def __getattr__(self, name: str) -> Any:
        """All methods of HTTP are handled by one."""
        if name.startswith("do_"):
            return self._handle
        raise AttributeError(name)

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        parts = urlsplit(self.path)
        bucket, _, name = parts.path.lstrip("/").partition("/")
        if parts.path.startswith(_JSON_PATHS):
            answer, content = self._ask(self.command, self.path, body)
            self._pass_on(answer, content)
        elif not name:
            self._list(bucket, parse_qs(parts.query))
        elif self.command == "PUT":
            self._put(bucket, unquote(name), body)
        elif self.command == "DELETE":
            self._pass_on(*self._ask("DELETE", _object_path(bucket, unquote(name))))
        else:
            self._get(bucket, unquote(name))

    def _put(self, bucket: str, name: str, body: bytes) -> None:
        query = {"uploadType": "media", "name": name}
        if (condition := self.headers.get(_CONDITION)) is not None:
            query["ifGenerationMatch"] = condition
        path = f"/upload/storage/v1/b/{bucket}/o?"
        if source := self.headers.get("x-goog-copy-source"):
            of_bucket, _, of_name = unquote(source).lstrip("/").partition("/")
            path = f"{_object_path(of_bucket, of_name)}/rewriteTo/b/{bucket}/o/{quote(name, safe='')}?"
            del query["uploadType"], query["name"]
        answer, content = self._ask("POST", path + urlencode(query), body)
        if answer.status != 200:
            self._pass_on(answer, content)
            return
        stored = json.loads(content)
        stored = stored.get("resource", stored)
        self._answer(200, {"ETag": stored["etag"], "x-goog-generation": stored["generation"]})

    def _get(self, bucket: str, name: str) -> None:
        answer, content = self._ask("GET", _object_path(bucket, name))
        if answer.status != 200:
            self._pass_on(answer, content)
            return
        stored = json.loads(content)
        answer, content = self._ask("GET", f"{_object_path(bucket, name)}?alt=media")
        headers = {
            "ETag": stored["etag"],
            "x-goog-generation": stored["generation"],
            "Last-Modified": self.date_time_string(),
        }
        if content_range := answer.getheader("content-range"):
            headers["Content-Range"] = content_range
        self._answer(answer.status, headers, content)

    def _list(self, bucket: str, query: dict[str, list[str]]) -> None:
        wanted = {name: values[0] for name, values in query.items() if name in ("prefix", "delimiter")}
        answer, content = self._ask("GET", f"/storage/v1/b/{bucket}/o?{urlencode(wanted)}")
        if answer.status != 200:
            self._pass_on(answer, content)
            return
        found = json.loads(content)
        after = query.get("start-after", [""])[0]
        objects = "".join(
            f"<Contents><Key>{escape(one['name'])}</Key><Size>{one['size']}</Size><ETag>{escape(one['etag'])}</ETag>"
            f"<LastModified>{one['updated']}</LastModified></Contents>"
            for one in found.get("items", ())
            if one["name"] > after
        )
        prefixes = "".join(
            f"<CommonPrefixes><Prefix>{escape(prefix)}</Prefix></CommonPrefixes>"
            for prefix in found.get("prefixes") or ()
        )
        text = f"<ListBucketResult>{objects}{prefixes}</ListBucketResult>"
        self._answer(200, {"Content-Type": "application/xml"}, text.encode())

    def _ask(self, method: str, path: str, body: bytes = b"") -> tuple[HTTPResponse, bytes]:
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _NOT_PASSED_ON}
        connection = HTTPConnection(self.server_address, timeout=30)
        try:
            connection.request(method, path, body or None, {**headers, "Content-Length": str(len(body))})
            answer = connection.getresponse()
            return answer, answer.read()
        finally:
            connection.close()

    def _pass_on(self, answer: HTTPResponse, content: bytes) -> None:
        headers = {name: value for name, value in answer.getheaders() if name.lower() not in _NOT_PASSED_ON}
        self._answer(answer.status, headers, content)

    def _answer(self, status: int, headers: dict[str, str], content: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _object_path(bucket: str, name: str) -> str:
    return f"/storage/v1/b/{bucket}/o/{quote(name, safe='')}"


def main(port: str, server: str) -> None:
    """Listen until the process is ended."""
    _Handler.server_address = server
    ThreadingHTTPServer(("127.0.0.1", int(port)), _Handler).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
