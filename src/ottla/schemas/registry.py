"""Where schemas are found by their ids: a registry with Confluent's REST interface, or a directory of files.

Schemas never change, so each is asked for once. A registry's user is in its URL, or given apart.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import Request, urlopen

from ottla.model.errors import ConfigError, OttlaError
from ottla.schemas.decoded import Undecodable

T = TypeVar("T")

TIMEOUT_S = 10.0
TRIES = 3
RETRY_S = 0.2
ANSWER_BYTES_MAX = 16 << 20
ASKED_AGAIN_S = 30.0
"""How long a schema that was not found, or a registry that failed, is not tried again."""
_ACCEPT = "application/vnd.schemaregistry.v1+json"
_SUFFIXES = {".avsc": "AVRO", ".json": "JSON", ".desc": "PROTOBUF"}


class Reference(NamedTuple):
    """Another schema that a schema uses, by the name that it uses."""

    name: str
    subject: str
    version: int


class SchemaText(NamedTuple):
    """A schema as it is stored.

    Of Protobuf, the text is a file's descriptor in base64, or with `is_set` a whole descriptor set.
    """

    kind: str
    text: str
    references: tuple[Reference, ...] = ()
    is_set: bool = False


class Schemas(Protocol):
    """Finds schemas."""

    def by_id(self, schema_id: int) -> SchemaText:
        """The schema of an id. Raises SchemaNotFound or RegistryFailed."""

    def latest(self, subject: str) -> SchemaText:
        """The newest schema of a subject."""

    def referenced(self, reference: Reference) -> SchemaText:
        """Return a schema that another schema refers to."""

    def register(self, subject: str, schema: SchemaText) -> int:
        """Store a schema under a subject, unless it is there; return its id."""


class RegistryFailed(OttlaError):
    """The registry does not answer, or refuses."""


class SchemaNotFound(OttlaError):
    """There is no such schema."""


class Kept(Generic[T]):
    """Results by key, each looked up once; a failure is raised again for `ASKED_AGAIN_S` seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._results: dict[Hashable, T] = {}
        self._failures: dict[Hashable, tuple[float, OttlaError]] = {}

    def get(self, key: Hashable, find: Callable[[], T]) -> T:
        """Return what `find` returns. Raises Undecodable if there is no usable schema."""
        if key in self._results:
            return self._results[key]
        until, failure = self._failures.get(key, (0.0, None))
        if failure is not None and self._clock() < until:
            raise failure
        try:
            return self._results.setdefault(key, find())
        except (SchemaNotFound, ConfigError) as error:
            failure = Undecodable(str(error))
        except OttlaError as error:
            failure = error
        self._failures[key] = (self._clock() + ASKED_AGAIN_S, failure)
        raise failure

    def __contains__(self, key: Hashable) -> bool:
        """Whether `get` needs no request: there is a result, or a recent failure."""
        return key in self._results or self._clock() < self._failures.get(key, (0.0, None))[0]


class SchemaRegistry:
    """A registry over HTTP. Can be pickled, without its cache."""

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
        self._ids: dict[tuple[str, SchemaText], int] = {}

    def __repr__(self) -> str:
        return f"SchemaRegistry({self._url!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_found": {}, "_ids": {}}

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

    def register(self, subject: str, schema: SchemaText) -> int:
        """Store a schema under a subject, unless it is there; return its id.

        Raises RegistryFailed, for example if it is not compatible with the subject's older ones.
        """
        path = f"/subjects/{quote(subject, safe='')}/versions"
        known = self._ids.get((subject, schema))
        if known is None:
            answer = self._answer(path, f"subject {subject}", _sent(schema))
            known = self._ids[subject, schema] = int(_member(answer, "id"))
        return known

    def is_compatible(self, subject: str, schema: SchemaText) -> bool:
        """Whether the subject's rule would accept a schema after its newest one. Raises as `register`."""
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions/latest"
        return bool(_member(self._answer(path, f"subject {subject}", _sent(schema)), "is_compatible"))

    def subjects(self) -> list[str]:
        """The names of all subjects. Raises RegistryFailed."""
        return [str(name) for name in self._listed("/subjects", "its subjects")]

    def versions(self, subject: str) -> list[int]:
        """The versions of a subject. Raises SchemaNotFound, RegistryFailed."""
        path = f"/subjects/{quote(subject, safe='')}/versions"
        return [int(number) for number in self._listed(path, f"subject {subject}")]

    def _listed(self, path: str, what: str) -> list[Any]:
        answer = self._answer(path, what)
        if not isinstance(answer, list):
            raise RegistryFailed(f"the schema registry {self._url} gives no list of {what}")
        return answer

    def _schema(self, path: str, what: str) -> SchemaText:
        if path not in self._found:
            answer = _object(self._answer(path, what))
            if answer.get("schemaType") == "PROTOBUF":
                answer = _object(self._answer(f"{path}?format=serialized", what))
            self._found[path] = _schema_text(answer)
        return self._found[path]

    def _answer(self, path: str, what: str, content: bytes | None = None) -> Any:
        """The answer to a GET, or to a POST of `content`."""
        failure = ""
        headers = self._headers | ({"Content-Type": _ACCEPT} if content is not None else {})
        for attempt in range(TRIES):
            if attempt:
                time.sleep(RETRY_S * attempt)
            try:
                with urlopen(Request(self._url + path, content, headers), timeout=TIMEOUT_S) as got:
                    return json.loads(got.read(ANSWER_BYTES_MAX))
            except HTTPError as error:
                failure = f"HTTP {error.code}{_reason(error)}"
                if error.code == 404:
                    raise SchemaNotFound(f"{self._url} has no {what}") from None
                if error.code < 500:
                    break
            except (URLError, OSError, ValueError, RecursionError) as error:
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

    def register(self, subject: str, schema: SchemaText) -> int:
        """Return the id of the file that has this schema. Raises SchemaNotFound: files are never written."""
        for path in sorted(self._directory.iterdir()):
            if path.stem.isdecimal() and path.suffix in _SUFFIXES:
                known = self._read(path.stem)
                if known.kind == schema.kind and _same(known, schema):
                    return int(path.stem)
        raise SchemaNotFound(f"{self._directory} has no ID.avsc, .json or .desc with the schema of {subject}")

    def _read(self, stem: str) -> SchemaText:
        for suffix, kind in _SUFFIXES.items():
            path = self._directory / f"{stem}{suffix}"
            if path.is_file() and path.parent == self._directory:
                data = path.read_bytes()
                text = base64.b64encode(data) if suffix == ".desc" else data
                return SchemaText(kind, text.decode(), is_set=suffix == ".desc")
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
        Reference(str(reference["name"]), str(reference["subject"]), int(reference["version"]))
        for reference in answer.get("references") or ()
    )
    return SchemaText(str(answer.get("schemaType") or "AVRO"), text, references)


def _same(schema: SchemaText, other: SchemaText) -> bool:
    if schema.text == other.text or schema.kind == "PROTOBUF":
        return schema.text == other.text
    return bool(json.loads(schema.text) == json.loads(other.text))


def _sent(schema: SchemaText) -> bytes:
    content: dict[str, Any] = {"schema": schema.text, "schemaType": schema.kind}
    if schema.references:
        content["references"] = [reference._asdict() for reference in schema.references]
    return json.dumps(content).encode()


def _object(answer: Any) -> Mapping[str, Any]:
    if not isinstance(answer, dict):
        raise RegistryFailed("the schema registry's answer is no JSON object")
    return answer


def _member(answer: Any, name: str) -> Any:
    content = _object(answer)
    if name not in content:
        raise RegistryFailed(f"the schema registry's answer has no {name}")
    return content[name]


def _reason(error: HTTPError) -> str:
    """Return the reason in a registry's refusal."""
    try:
        message = json.loads(error.read(ANSWER_BYTES_MAX)).get("message", "")
    except (OSError, ValueError, AttributeError, RecursionError):
        return ""
    return f", {message:.300}" if message else ""


def _without_user(url: str) -> str:
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=host))
