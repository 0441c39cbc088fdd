"""Where the machine code of compiled kernels is kept.

The directory's name holds a digest of all kernel sources and of the record layout: Numba stamps a cached
function with its own file only, so it would outlive a change of a helper or a constant in another file. Where
the files are and when they were written is in the digest, too, because Numba goes by that: what another
installation of the same version has compiled would be compiled again.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

CACHE_KEPT_SECONDS = 30 * 86_400


def source_digest() -> str:
    """Name of this version of all kernels together, in this installation."""
    kernels = Path(__file__).parent
    sources = [path for path in sorted(kernels.glob("*.py")) if not path.name.startswith("numpy_")]
    digest = hashlib.sha256()
    for path in [*sources, kernels.parent / "model" / "record_layout.py"]:
        digest.update(f"{path}\0{path.stat().st_mtime_ns}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _is_private(directory: Path) -> bool:
    """Whether only this user can write there."""
    status = directory.stat()
    return not hasattr(os, "getuid") or (status.st_uid == os.getuid() and not status.st_mode & 0o022)


def _is_usable(directory: Path) -> bool:
    """Cached machine code is executed: a directory that others can write to, or exchange, is not trusted."""
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not (_is_private(directory.parent) and _is_private(directory)):
            return False
        with tempfile.TemporaryFile(dir=directory):
            return True
    except OSError:
        return False


def _cache_candidates() -> Iterator[Path]:
    if given := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(given)
    if base := os.environ.get("XDG_CACHE_HOME"):
        yield Path(base) / "ottla"
    with contextlib.suppress(RuntimeError):  # no home directory
        yield Path.home() / ".cache" / "ottla"
    with contextlib.suppress(OSError):  # no directory for temporary files
        yield Path(tempfile.gettempdir()) / f"ottla-{os.getuid() if hasattr(os, 'getuid') else 'cache'}"


def cache_directory() -> Path | None:
    """Where compiled kernels are kept, or None if nothing here is writable (then they are compiled anew)."""
    try:
        digest = source_digest()
    except OSError:  # imported from a zip: there is no source to stamp
        return None
    for base in _cache_candidates():
        if _is_usable(base / f"kernels-{digest}"):
            return base / f"kernels-{digest}"
    return None


def remove_old_caches(directory: Path) -> None:
    """Remove directories of other versions of the kernels that were not used for CACHE_KEPT_SECONDS."""
    for other in directory.parent.glob("kernels-*"):
        with contextlib.suppress(OSError):
            if other != directory and other.stat().st_mtime < directory.stat().st_mtime - CACHE_KEPT_SECONDS:
                shutil.rmtree(other, ignore_errors=True)


def progress_file(directory: Path) -> Path:
    """The file with the names of the kernels in the cache, a line each, for this Python and this Numba."""
    return directory / f"ready-{sys.implementation.cache_tag}-{importlib.metadata.version('numba')}"


def ready_kernels(directory: Path) -> list[str]:
    """Return the names of the kernels in the cache, and what a process that was killed left of a name."""
    try:
        return progress_file(directory).read_text().split()
    except (FileNotFoundError, importlib.metadata.PackageNotFoundError):
        return []
