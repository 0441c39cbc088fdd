"""How Java programs are started here: for a short life, with classes from an archive where there is one.

A Java process that lives for seconds spends most of its CPU time on reading and checking classes and in the
second compiler. Without that compiler and with an archive of the classes (class data sharing) it needs less
than half. An archive is beside the directory of its jars; its name tells which Java wrote it. Java ignores an
archive that is missing or does not fit the class path.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from tools.peer_cache import program

QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")


def java_command(libs: Path, *classes: Path, heap_mb: int | None = None) -> list[str]:
    """Return the command without main class: all jars of `libs`, then `classes`. Raises Unavailable."""
    heap = [] if heap_mb is None else [f"-Xmx{heap_mb}m"]
    archive = read_options(archive_of(libs))
    return [program("java"), *QUICK_START, *heap, *archive, *class_path(libs, *classes)]


def class_path(libs: Path, *classes: Path) -> list[str]:
    """Return the options. The jars are first: an archive fits a class path that begins as its own."""
    return ["-cp", os.pathsep.join([f"{libs}{os.sep}*", *map(str, classes)])]


def archive_of(jars: Path) -> Path:
    """Return the file beside the directory that holds, or will hold, the classes. Raises Unavailable."""
    java = Path(program("java")).resolve()
    version = hashlib.sha256(f"{java} {java.stat().st_mtime_ns}".encode()).hexdigest()[:12]
    return jars.with_name(f"{jars.name}-{version}.jsa")


def read_options(archive: Path) -> list[str]:
    """Return Java's options to load classes from the archive, if it is there."""
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off"]


class ArchiveWriter:
    """One process that writes the archive at its end. `keep` puts a whole archive in its place."""

    def __init__(self, archive: Path) -> None:
        self._archive = archive
        self._unfinished = archive.with_name(f"{archive.name}.{os.getpid()}")

    @property
    def options(self) -> list[str]:
        """Java's options of the process that writes it."""
        return [f"-XX:ArchiveClassesAtExit={self._unfinished}", "-Xlog:disable"]

    def keep(self, *, is_whole: bool) -> None:
        """Call it after the end of the process: others see the archive, or it is removed if it may be cut."""
        if is_whole and self._unfinished.exists():
            self._unfinished.replace(self._archive)
        self._unfinished.unlink(missing_ok=True)
