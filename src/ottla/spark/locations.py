"""Where tables are: a directory, or a prefix of an object store, by URL.

    location("tables/orders"), location("file:/data/orders")        a file system
    location("s3://bucket/orders"), s3a:, gs:, abfs:, abfss:         an object store (`object_store`)
    location("hdfs://host:8020/orders")                             HDFS (`hdfs`)

Commits need the same everywhere: a file that is created only if there is none (`create`), and one that is
replaced only if it has not changed since it was read (`replace`). File systems have a rename and a lock for
that, stores have conditional puts, HDFS has only renames. `check_promises` tests it. Paths are relative, with
`/`.
"""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ottla.model.errors import ConfigError, StorageError
from ottla.spark.whole_files import appear, flush

OWN = "_ottla"
"""The directory for our own files, which are not rows of a table: readers of tables skip such names."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
S3 = ("s3", "s3a")
AZURE = ("abfs", "abfss", "az")
_STORES = (*S3, "gs", *AZURE)
HDFS = "hdfs"
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
        """Hold the lock of the location inside the block.

        Only directories have one; elsewhere `replace` decides.
        """


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
    if scheme == HDFS:
        from ottla.spark.hdfs import HdfsDirectory  # what it needs is an extra, as below

        return HdfsDirectory(text)
    from ottla.spark.object_store import ObjectStore

    return ObjectStore(text)


def check_scheme(url: str) -> None:
    """Raise ConfigError for a URL of a kind that no table can have."""
    kinds = ("file", *_STORES, HDFS)
    if scheme_of(url) not in ("", *kinds):
        known = ", ".join(f"{kind}:" for kind in kinds)
        raise ConfigError(f"{url}: a location is a directory, or begins with {known}")


def _plain(url: str) -> str:
    path = url.removeprefix("file:")
    return f"/{path.lstrip('/')}" if path.startswith("/") else path


def check_promises(where: Location) -> None:
    """Test what commits rely on, with two conditional puts of one name. Raises ConfigError with
    what fails.
    """
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


def temporary_file() -> Path:
    """Return a new local file, for content that is to be put elsewhere."""
    descriptor, name = tempfile.mkstemp(prefix="ottla-")
    os.close(descriptor)
    return Path(name)


def remove_strays(where: Location, under: str, prefix: str = "") -> None:
    """Remove what killed writers left behind: files below a directory that are older than a day."""
    old = time.time() - STRAY_S
    entries = where.list(under)
    where.delete([e.path for e in entries if e.modified < old and Path(e.path).name.startswith(prefix)])


class Directory:
    """A directory on a file system that all its users share."""

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
        stored = self.read(path)
        if (None if stored is None else stored.version) != version:
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
        """Hold the lock of the directory inside the block."""
        path = self.root / OWN / "lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
