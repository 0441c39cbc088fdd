"""A directory of HDFS as a location, through hdfs-native: without Java. HDFS only has to rename atomically.

    PATH/_ottla/versions/NAME/at-NEW-OLD       empty: NEW is the version of the file, and follows OLD
    PATH/_ottla/versions/NAME/NEW              its content, until it has moved to the file

HDFS cannot replace a file on a condition, but a rename fails if its source is gone. So the version of a
replaced file is the name of a file beside it, and the writer that renames that file has replaced the content.
Readers and the next writer complete what a killed writer has left: OLD is deleted, then NEW moves to its
place. A writer that was suspended meanwhile finds its content gone, so it cannot bring it back. A path is
either always replaced or always put.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote, urlsplit

from ottla.model.errors import ConfigError, StorageError
from ottla.spark.locations import OWN, Stored, StoreEntry, temporary_file

_VERSIONS = f"{OWN}/versions"
_AT = "at-"
_CHUNK_BYTES = 8 << 20
_MS = 1000
_ERRORS = (OSError, RuntimeError, ValueError)


class HdfsDirectory:
    """A directory of HDFS. HADOOP_CONF_DIR has the settings, HADOOP_USER_NAME or Kerberos the user."""

    is_directory = False

    def __init__(self, url: str) -> None:
        try:
            import hdfs_native
        except ImportError as error:
            raise ConfigError(f"{url} needs hdfs-native: pip install 'ottla[hdfs]'") from error
        self.url = url.rstrip("/")
        parts = urlsplit(self.url)
        self._root = parts.path
        self._options: Any = hdfs_native.WriteOptions
        with self._as_storage_errors():
            self._client: Any = hdfs_native.Client(f"{parts.scheme}://{parts.netloc}")

    @contextmanager
    def _as_storage_errors(self) -> Iterator[None]:
        """Raise failures as StorageError, in one line, except for files that are missing or exist already."""
        try:
            yield
        except (FileNotFoundError, FileExistsError):
            raise
        except _ERRORS as error:
            text = re.split(r"\s+at org|\\n", str(error))[0]  # what follows is Java's trace
            raise StorageError(f"{self.url}: {text[:500]}") from error

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root or "/"

    def list(self, under: str = "") -> list[StoreEntry]:
        """All files below a directory, by path."""
        files: Iterable[Any] = ()
        with self._as_storage_errors(), suppress(FileNotFoundError):
            files = [
                status
                for status in self._client.list_status(self._path(under), recursive=True)
                if not status.isdir
            ]
        return sorted(
            StoreEntry(path, file.length, file.modification_time / _MS)
            for file in files
            if not (path := file.path.removeprefix(f"{self._root}/")).startswith(f"{_VERSIONS}/")
        )

    def read(self, path: str) -> Stored | None:
        """A file; None if there is none."""
        while True:
            version, is_complete = self._version(path)
            if not is_complete:
                self._complete(path, version)
            content = self._content(path)
            if self._version(path)[0] == version:
                return None if content is None else Stored(content, version)

    def _content(self, path: str) -> bytes | None:
        with self._as_storage_errors(), suppress(FileNotFoundError):
            return bytes(self._client.read(self._path(path)).read())
        return None

    def scratch(self, path: str) -> Path:  # noqa: ARG002 - of a directory it is beside the path
        """A temporary file."""
        return temporary_file()

    def put(self, path: str, content: bytes | Path) -> None:
        """Write a file, whole or not at all, in place of what is there."""
        hidden = self._hidden(path, content)
        self._remove(_versions_of(path))
        self._rename(hidden, path, overwrite=True)

    def create(self, path: str, content: bytes | Path) -> bool:
        """As `put`, but only if there is no such file; else False."""
        hidden = self._hidden(path, content)
        if self._rename(hidden, path):
            return True
        self._remove(hidden)
        return False

    def _hidden(self, path: str, content: bytes | Path) -> str:
        """Write a hidden file beside the path."""
        target = PurePosixPath(path)
        hidden = str(target.with_name(f".{target.name}.{uuid.uuid4().hex}"))
        try:
            self._write(hidden, content)
        finally:
            if isinstance(content, Path):
                content.unlink(missing_ok=True)
        return hidden

    def _write(self, path: str, content: bytes | Path) -> None:
        options = self._options(overwrite=True, create_parent=True)
        with self._as_storage_errors(), self._client.create(self._path(path), options) as out:
            if isinstance(content, bytes):
                out.write(content)
                return
            with content.open("rb") as file:
                while chunk := file.read(_CHUNK_BYTES):
                    out.write(chunk)

    def _rename(self, source: str, target: str, *, overwrite: bool = False) -> bool:
        """Rename a file.

        Returns whether the source existed, and the target did not, unless it is overwritten.
        """
        with self._as_storage_errors():
            try:
                self._client.rename(self._path(source), self._path(target), overwrite)
            except (FileNotFoundError, FileExistsError):
                return False
        return True

    def _remove(self, path: str) -> None:
        with self._as_storage_errors(), suppress(FileNotFoundError):
            self._client.delete(self._path(path), recursive=True)

    def replace(self, path: str, content: bytes, version: Any) -> bool:
        """Replace a file if it still has this version (None: if there is none); else False."""
        new, versions = uuid.uuid4().hex, _versions_of(path)
        if version:  # it was replaced before
            self._write(f"{versions}/{new}", content)
            pointer = _pointer(new, version)
            if not self._rename(f"{versions}/{version}", f"{versions}/{pointer}"):
                self._remove(f"{versions}/{new}")
                return False
        else:
            if (version is None) != (self._content(path) is None):
                return False
            fresh = f"{_VERSIONS}/.{uuid.uuid4().hex}"
            pointer = _pointer(new, "")
            self._write(f"{fresh}/{pointer}", b"")
            self._write(f"{fresh}/{new}", content)
            if not self._rename(fresh, versions):
                self._remove(fresh)
                return False
        self._complete(path, pointer)
        return True

    def _version(self, path: str) -> tuple[str, bool]:
        """Return the name of the file that says which version a file has, and whether its content is there.

        The name is empty for a file that was never replaced.
        """
        names: set[str] = set()
        with self._as_storage_errors(), suppress(FileNotFoundError):
            listed = self._client.list_status(self._path(_versions_of(path)))
            names = {PurePosixPath(status.path).name for status in listed}
        pointer = next((name for name in names if name.startswith(_AT)), "")
        return pointer, _tokens(pointer)[0] not in names

    def _complete(self, path: str, pointer: str) -> None:
        """Do what the writer of a version may have left to do; nothing if there is a later version."""
        new, old = _tokens(pointer)
        versions = _versions_of(path)
        if old:
            self._remove(f"{versions}/{old}")
        with self._as_storage_errors():
            self._client.mkdirs(str(PurePosixPath(self._path(path)).parent), create_parent=True)
        self._rename(f"{versions}/{new}", path, overwrite=True)

    def move(self, source: str, target: str) -> None:
        """Give a file another name, and replace what is there; nothing happens if there is no source."""
        with self._as_storage_errors():
            self._client.mkdirs(str(PurePosixPath(self._path(target)).parent), create_parent=True)
        if self._rename(source, target, overwrite=True):
            self._remove(_versions_of(source))
            self._remove(_versions_of(target))

    def delete(self, paths: Sequence[str]) -> None:
        """Remove files, and directories below the root that are empty then."""
        for path in paths:
            self._remove(_versions_of(path))
            self._remove(path)
            with suppress(*_ERRORS):  # the directory is not empty
                for parent in list(PurePosixPath(path).parents)[:-1]:
                    self._client.delete(self._path(str(parent)), recursive=False)

    def lock(self) -> AbstractContextManager[None]:
        """Do nothing: `replace` decides."""
        return nullcontext()


def _versions_of(path: str) -> str:
    return f"{_VERSIONS}/{quote(path, safe='')}"


def _pointer(new: str, version: str) -> str:
    """Return the name of the file that says that `new` is the version after the one with this pointer."""
    return f"{_AT}{new}-{_tokens(version)[0]}"


def _tokens(pointer: str) -> tuple[str, str]:
    """Return the version, and the one before it."""
    new, _, old = pointer.removeprefix(_AT).partition("-")
    return new, old
