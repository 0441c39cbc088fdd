"""Where schemas are found by their ids: a registry with Confluent's REST interface, or a directory of files.

Schemas never change, so each is asked for once. A registry's user is in its URL, or given apart.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import Request, urlopen

from ottla.model.errors import ConfigError, OttlaError

TIMEOUT_S = 10.0
TRIES = 3
RETRY_S = 0.2
ANSWER_BYTES_MAX = 16 << 20
_ACCEPT = "application/vnd.schemaregistry.v1+json"
_SUFFIXES = {".avsc": "AVRO", ".json": "JSON", ".desc": "PROTOBUF"}


class Reference(NamedTuple):
    """Another schema that a schema uses, by the name that it uses."""

    name: str
    subject: str
    version: int


class SchemaText(NamedTuple):
    """A schema as it is stored. Of Protobuf, the text is a file's descriptor in base64."""

    kind: str
    text: str
    references: tuple[Reference, ...] = ()


class Schemas(Protocol):
    """Finds schemas."""

    def by_id(self, schema_id: int) -> SchemaText:
        """The schema of an id. Raises SchemaNotFound or RegistryFailed."""

    def latest(self, subject: str) -> SchemaText:
        """The newest schema of a subject."""

    def referenced(self, reference: Reference) -> SchemaText:
        """A schema that another one names."""


class RegistryFailed(OttlaError):
    """The registry does not answer, or refuses."""


class SchemaNotFound(OttlaError):
    """There is no such schema."""


class SchemaRegistry:
    """A registry over HTTP. Can be pickled; what it has found is then left behind."""

    def __init__(self, url: str, *, username: str = "", password: str = "", token: str = "") -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ConfigError(f"registry={_without_user(url)}: http://HOST:PORT is wanted")
        self._url = _without_user(url).rstrip("/")
        self._headers = {"Accept": _ACCEPT}
        user = username or unquote(parts.username or "")
        if user:
            secret = f"{user}:{password or unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(secret.encode()).decode()}"
        elif token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._found: dict[str, SchemaText] = {}

    def __repr__(self) -> str:
        return f"SchemaRegistry({self._url!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_found": {}}

    def by_id(self, schema_id: int) -> SchemaText:
        """The schema of an id. Raises SchemaNotFound or RegistryFailed."""
        return self._schema(f"/schemas/ids/{schema_id}", f"schema id {schema_id}")

    def latest(self, subject: str) -> SchemaText:
        """The newest schema of a subject. Raises SchemaNotFound or RegistryFailed."""
        return self._schema(f"/subjects/{quote(subject, safe='')}/versions/latest", f"subject {subject}")

    def referenced(self, reference: Reference) -> SchemaText:
        """A schema that another one names. Raises SchemaNotFound or RegistryFailed."""
        path = f"/subjects/{quote(reference.subject, safe='')}/versions/{reference.version}"
        return self._schema(path, f"subject {reference.subject}")

    def _schema(self, path: str, what: str) -> SchemaText:
        if path not in self._found:
            answer = self._answer(path, what)
            if answer.get("schemaType") == "PROTOBUF":
                answer = self._answer(f"{path}?format=serialized", what)
            self._found[path] = _schema_text(answer)
        return self._found[path]

    def _answer(self, path: str, what: str) -> Mapping[str, Any]:
        failure = ""
        for attempt in range(TRIES):
            if attempt:
                time.sleep(RETRY_S * attempt)
            try:
                with urlopen(Request(self._url + path, headers=self._headers), timeout=TIMEOUT_S) as got:
                    return _object(got.read(ANSWER_BYTES_MAX))
            except HTTPError as error:
                failure = f"HTTP {error.code}"
                if error.code == 404:
                    raise SchemaNotFound(f"{self._url} has no {what}") from None
                if error.code < 500:
                    break
            except (URLError, OSError, ValueError) as error:
                failure = str(getattr(error, "reason", error))
        raise RegistryFailed(f"the schema registry {self._url} was asked for {what}: {failure}")


class SchemaFiles:
    """A directory of schemas: ID.avsc, ID.json or ID.desc (a descriptor set), or SUBJECT instead of ID."""

    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory)
        if not self._directory.is_dir():
            raise ConfigError(f"registry={directory}: there is no such directory")

    def by_id(self, schema_id: int) -> SchemaText:
        """The schema of an id. Raises SchemaNotFound."""
        return self._read(str(schema_id))

    def latest(self, subject: str) -> SchemaText:
        """The schema of a subject. Raises SchemaNotFound."""
        return self._read(subject)

    def referenced(self, reference: Reference) -> SchemaText:
        """The schema of the reference's subject. Raises SchemaNotFound."""
        return self._read(reference.subject)

    def _read(self, stem: str) -> SchemaText:
        for suffix, kind in _SUFFIXES.items():
            path = self._directory / f"{stem}{suffix}"
            if path.is_file() and path.parent == self._directory:
                data = path.read_bytes()
                text = base64.b64encode(data) if suffix == ".desc" else data
                return SchemaText(kind, text.decode())
        raise SchemaNotFound(f"{self._directory} has no {stem}.avsc, .json or .desc")


def schemas_at(location: str, *, username: str = "", password: str = "", token: str = "") -> Schemas:
    """The registry at a URL, or the files in a directory. Raises ConfigError."""
    if location.startswith(("http://", "https://")):
        return SchemaRegistry(location, username=username, password=password, token=token)
    return SchemaFiles(location.removeprefix("file:"))


def _schema_text(answer: Mapping[str, Any]) -> SchemaText:
    text = answer.get("schema")
    if not isinstance(text, str):
        raise RegistryFailed("the schema registry's answer has no schema")
    references = tuple(
        Reference(str(one["name"]), str(one["subject"]), int(one["version"]))
        for one in answer.get("references") or ()
    )
    return SchemaText(str(answer.get("schemaType") or "AVRO"), text, references)


def _object(data: bytes) -> Mapping[str, Any]:
    answer = json.loads(data)
    if not isinstance(answer, dict):
        raise ValueError("the answer is no JSON object")
    return answer


def _without_user(url: str) -> str:
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=host))
