"""Where tables are: a directory, or a prefix of an object store, by URL.

    location("tables/orders"), location("file:/data/orders")        a file system
    location("s3://bucket/orders"), s3a:, gs:, abfs:, abfss:         an object store, through obstore

What commits need is the same everywhere: a file that appears only if there is none (`create`), and one that
is replaced only if it is as it was read (`replace`). File systems have a rename and a lock for it, stores
conditional puts. `check_promises` tries whether a store keeps to them. Paths are relative, with `/`.
Credentials come as each store's own tools take them: from the environment, and for S3 from a profile.
"""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ottla.model.errors import ConfigError, StorageError
from ottla.spark.whole_files import appear, flush

OWN = "_ottla"
"""What is below it is no row of a table: readers of directories leave out such names."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_S3 = ("s3", "s3a")
_STORES = (*_S3, "gs", "abfs", "abfss", "az")
_S3_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
STRAY_S = 86_400


class StoreEntry(NamedTuple):
    """A file of a location: its path, bytes, and when it was written, in seconds since 1970."""

    path: str
    size: int
    modified: float


class Stored(NamedTuple):
    """A file's content, and the version that `replace` takes."""

    content: bytes
    version: Any


class Location(Protocol):
    """Files by relative paths. Failures raise StorageError with the location and the cause."""

    url: str
    is_directory: bool

    def list(self, under: str = "") -> list[StoreEntry]:
        """All files below a directory, by path."""

    def read(self, path: str) -> Stored | None:
        """A file; None if there is none."""

    def scratch(self, path: str) -> Path:
        """A local file to write before `put` or `create` of this path takes it; hidden from readers."""

    def put(self, path: str, content: bytes | Path) -> None:
        """Write a file, whole or not at all, in place of what is there. A Path is one of `scratch`."""

    def create(self, path: str, content: bytes | Path) -> bool:
        """As `put`, but only if there is no such file; else False."""

    def replace(self, path: str, content: bytes, version: Any) -> bool:
        """Replace a file if it still has this version (None: if there is none); else False.

        In a directory this holds between callers that hold `lock`.
        """

    def move(self, source: str, target: str) -> None:
        """Give a file another name, and replace what is there; nothing happens if there is no source."""

    def delete(self, paths: Sequence[str]) -> None:
        """Remove files; missing ones are no error."""

    def lock(self) -> AbstractContextManager[None]:
        """Within the block no other process has the lock; object stores have none, and `replace` decides."""


def scheme_of(url: str) -> str:
    """The scheme of a location; empty for a plain path."""
    match = _SCHEME.match(url)
    return match[1].lower() if match else ""


def location(url: str | Path) -> Location:
    """The location of a URL or a path. Raises ConfigError for one that tables cannot have."""
    text = str(url)
    scheme = scheme_of(text)
    if scheme in ("", "file"):
        return Directory(Path(_plain(text)))
    check_scheme(text)
    return ObjectStore(text)


def check_scheme(url: str) -> None:
    """Raise ConfigError for a URL of a kind that no table can have."""
    scheme = scheme_of(url)
    if scheme == "hdfs":
        raise ConfigError(
            f"{url}: HDFS cannot replace a file only if it is unchanged, which commits of tables need;"
            " use a directory or an object store"
        )
    if scheme not in ("", "file", *_STORES):
        known = ", ".join(f"{one}:" for one in ("file", *_STORES))
        raise ConfigError(f"{url}: a location is a directory, or begins with {known}")


def _plain(url: str) -> str:
    path = url.removeprefix("file:")
    return f"/{path.lstrip('/')}" if path.startswith("/") else path


def check_promises(where: Location) -> None:
    """Try what commits rely on, with two conditional puts of one name. Raises ConfigError with what fails."""
    if where.is_directory:
        return
    path = f"{OWN}/probe-{uuid.uuid4().hex}"
    try:
        if not where.create(path, b"first"):
            raise StorageError(f"{where.url}: {path} is there before it was written")
        first = where.read(path)
        if where.create(path, b"second") or first is None:
            raise _broken(where, "a put with If-None-Match: * replaces what is there")
        if not where.replace(path, b"third", first.version):
            raise _broken(where, "a put with If-Match is refused though nothing has changed")
        if where.replace(path, b"fourth", first.version):
            raise _broken(where, "a put with If-Match replaces what has changed")
    finally:
        where.delete([path])


def _broken(where: Location, what: str) -> ConfigError:
    return ConfigError(
        f"{where.url}: this store has no conditional puts ({what}), so that a repeated commit could not be"
        " told from a new one; use another store, or a directory"
    )


def remove_strays(where: Location, under: str, prefix: str = "") -> None:
    """Remove what killed writers left behind: files below a directory that are older than a day."""
    old = time.time() - STRAY_S
    entries = where.list(under)
    where.delete([e.path for e in entries if e.modified < old and Path(e.path).name.startswith(prefix)])


class Directory:
    """A directory, on a file system that all who use it share."""

    is_directory = True

    def __init__(self, root: Path) -> None:
        self.root = root
        self.url = str(root)

    def list(self, under: str = "") -> list[StoreEntry]:
        """All files below a directory, by path."""
        entries = []
        for directory, _, names in os.walk(self.root / under):
            for name in names:
                path = Path(directory, name)
                with suppress(FileNotFoundError):
                    status = path.stat()
                    entries.append(
                        StoreEntry(path.relative_to(self.root).as_posix(), status.st_size, status.st_mtime)
                    )
        return sorted(entries)

    def read(self, path: str) -> Stored | None:
        """A file; None if there is none."""
        try:
            content = (self.root / path).read_bytes()
        except FileNotFoundError:
            return None
        return Stored(content, content)

    def scratch(self, path: str) -> Path:
        """A hidden file beside the path."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        return target.with_name(f".{target.name}.{uuid.uuid4().hex}")

    def put(self, path: str, content: bytes | Path) -> None:
        """Write a file, whole or not at all, in place of what is there."""
        with self._written(path, content) as hidden:
            appear(hidden, self.root / path)

    def create(self, path: str, content: bytes | Path) -> bool:
        """As `put`, but only if there is no such file; else False."""
        with self._written(path, content) as hidden:
            flush(hidden)
            try:
                os.link(hidden, self.root / path)
            except FileExistsError:
                return False
        return True

    def replace(self, path: str, content: bytes, version: Any) -> bool:
        """Replace a file if it still has this version (None: if there is none); else False."""
        found = self.read(path)
        if (None if found is None else found.version) != version:
            return False
        self.put(path, content)
        return True

    @contextmanager
    def _written(self, path: str, content: bytes | Path) -> Iterator[Path]:
        try:
            hidden = content if isinstance(content, Path) else self.scratch(path)
            try:
                if not isinstance(content, Path):
                    hidden.write_bytes(content)
                yield hidden
            finally:
                hidden.unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(f"{self.root / path}: {error.strerror or error}") from error

    def move(self, source: str, target: str) -> None:
        """Give a file another name, and replace what is there; nothing happens if there is no source."""
        (self.root / target).parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            os.replace(self.root / source, self.root / target)

    def delete(self, paths: Sequence[str]) -> None:
        """Remove files, and directories below the root that are empty then."""
        for path in paths:
            target = self.root / path
            target.unlink(missing_ok=True)
            with suppress(OSError):
                for parent in target.relative_to(self.root).parents[:-1]:
                    (self.root / parent).rmdir()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Within the block no other process has the lock."""
        path = self.root / OWN / "lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


class ObjectStore:
    """A prefix of an object store."""

    is_directory = False

    def __init__(self, url: str) -> None:
        try:
            import obstore
            from obstore import exceptions
            from obstore.store import from_url
        except ImportError as error:
            raise ConfigError(f"{url} needs obstore: pip install 'ottla[stores]'") from error
        self.url = url.rstrip("/")
        self._obstore: Any = obstore
        self._errors: Any = exceptions
        with self._told():
            self._store: Any = from_url(self.url, **_client_settings(self.url))

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Failures of the store as StorageError, in one line."""
        try:
            yield
        except (self._errors.BaseError, ValueError, OSError) as error:
            text = re.sub(r"\s+", " ", str(error).partition("\n\nDebug source")[0])
            raise StorageError(f"{self.url}: {text[:500]}") from error

    def list(self, under: str = "") -> list[StoreEntry]:
        """All files below a directory, by path."""
        with self._told():
            found = [one for chunk in self._obstore.list(self._store, under or None) for one in chunk]
        return sorted(StoreEntry(one["path"], one["size"], one["last_modified"].timestamp()) for one in found)

    def read(self, path: str) -> Stored | None:
        """A file; None if there is none."""
        with self._told():
            try:
                found = self._obstore.get(self._store, path)
                content = bytes(found.bytes())
            except (self._errors.NotFoundError, FileNotFoundError):
                return None
        version = {name: found.meta.get(name) for name in ("e_tag", "version")}
        return Stored(content, {name: value for name, value in version.items() if value is not None})

    def scratch(self, path: str) -> Path:  # noqa: ARG002 - of a directory it is beside the path
        """A temporary file."""
        descriptor, name = tempfile.mkstemp(prefix="ottla-")
        os.close(descriptor)
        return Path(name)

    def put(self, path: str, content: bytes | Path) -> None:
        """Write a file, whole or not at all, in place of what is there."""
        self._put(path, content, "overwrite")

    def create(self, path: str, content: bytes | Path) -> bool:
        """As `put`, but only if there is no such file; else False."""
        return self._put(path, content, "create")

    def replace(self, path: str, content: bytes, version: Any) -> bool:
        """Replace a file if it still has this version (None: if there is none); else False."""
        return self._put(path, content, "create" if version is None else version)

    def _put(self, path: str, content: bytes | Path, mode: Any) -> bool:
        # Uploads in parts have no condition; one put has room for 5 GB.
        whole = content.read_bytes() if isinstance(content, Path) else content
        with self._told():
            try:
                self._obstore.put(self._store, path, whole, mode=mode, use_multipart=False)
            except (self._errors.AlreadyExistsError, self._errors.PreconditionError, FileExistsError):
                return False
            except (self._errors.NotFoundError, FileNotFoundError):
                if isinstance(mode, str):
                    raise
                return False  # what was to be replaced is gone
            finally:
                if isinstance(content, Path):
                    content.unlink(missing_ok=True)
        return True

    def move(self, source: str, target: str) -> None:
        """Copy a file inside the store and remove the source; nothing happens if there is no source."""
        with self._told():
            try:
                self._obstore.copy(self._store, source, target)
            except (self._errors.NotFoundError, FileNotFoundError):
                return
        self.delete([source])

    def delete(self, paths: Sequence[str]) -> None:
        """Remove files; missing ones are no error."""
        with self._told():
            for path in paths:
                with suppress(self._errors.NotFoundError, FileNotFoundError):
                    self._obstore.delete(self._store, path)

    def lock(self) -> AbstractContextManager[None]:
        """Nothing: `replace` decides."""
        return nullcontext()


def _client_settings(url: str) -> dict[str, Any]:
    """What obstore does not take from the environment by itself."""
    settings: dict[str, Any] = {}
    endpoint = _s3_endpoint(url)
    if endpoint:
        settings["config"] = {"endpoint": endpoint}
        settings["client_options"] = {"allow_http": endpoint.startswith("http:")}
    is_s3 = scheme_of(url) in _S3
    if is_s3 and os.environ.get("AWS_PROFILE") and not os.environ.get("AWS_ACCESS_KEY_ID"):
        try:
            from obstore.auth.boto3 import Boto3CredentialProvider
        except ImportError as error:
            raise ConfigError(f"{url}: AWS_PROFILE needs boto3: pip install boto3") from error
        settings["credential_provider"] = Boto3CredentialProvider()
    return settings


def delta_settings(url: str) -> dict[str, str] | None:
    """The same for delta-rs."""
    endpoint = _s3_endpoint(url)
    return {"allow_http": "true"} if endpoint.startswith("http:") else None


def iceberg_settings(url: str) -> dict[str, str]:
    """The same for pyiceberg, which reads through pyarrow."""
    endpoint = _s3_endpoint(url)
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ""
    settings = {"s3.endpoint": endpoint, "s3.region": region}
    return {name: value for name, value in settings.items() if value} if endpoint else {}


def _s3_endpoint(url: str) -> str:
    """The server that the environment names for S3; empty for Amazon's, and for other stores."""
    if scheme_of(url) not in _S3:
        return ""
    return next((os.environ[name] for name in _S3_ENDPOINTS if os.environ.get(name)), "")
