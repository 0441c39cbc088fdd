"""The one decorator for hot loops, and where their machine code is kept.

A kernel is a top-level function over contiguous arrays and integers: arrays in, arrays out, a status
integer back; no objects, no exceptions, no allocation. It checks every position that it reads from bytes
against the arrays it was given; Arrow's offsets come checked. `kernel` compiles it with Numba (releasing
the GIL); `inlined` is for the small functions that kernels call. The same source runs as plain Python
under ``NUMBA_DISABLE_JIT=1``.

Import never fails: where Numba is missing or broken, `AVAILABLE` is false, one warning is given by
`ottla.kernels`, and `ottla.kernels.numpy_path` serves instead. ``OTTLA_KERNELS=numpy`` asks for that.

The cache directory carries a digest of all kernel sources. Numba stamps a cached function with its own
file only, so a kernel that inlines a helper of another file would outlive a change of that helper.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

CACHE_KEPT_SECONDS = 30 * 86_400
REQUESTED = os.environ.get("OTTLA_KERNELS", "auto").lower()
UNAVAILABLE_BECAUSE = ""

if REQUESTED == "numpy":
    UNAVAILABLE_BECAUSE = "OTTLA_KERNELS=numpy"
else:
    try:
        import numba

        # What `memory` and `crc32c` build on; another Numba may have moved it.
        from llvmlite import ir as _
        from numba.core import cgutils as _  # noqa: F811
        from numba.extending import intrinsic as _  # noqa: F401, F811
    except Exception as error:  # noqa: BLE001 - a broken Numba raises anything, and must not break import
        UNAVAILABLE_BECAUSE = f"{type(error).__name__}: {error}"

AVAILABLE = not UNAVAILABLE_BECAUSE
JIT = AVAILABLE and not numba.config.DISABLE_JIT


def source_digest() -> str:
    """Name of this version of all kernels together."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if not path.name.startswith("numpy_"):
            digest.update(path.read_bytes())
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


def _remove_old_caches(directory: Path) -> None:
    """Every version of the kernels leaves a directory behind; those that nobody used for long go."""
    for other in directory.parent.glob("kernels-*"):
        with contextlib.suppress(OSError):
            if other != directory and other.stat().st_mtime < directory.stat().st_mtime - CACHE_KEPT_SECONDS:
                shutil.rmtree(other, ignore_errors=True)


CACHE_DIRECTORY = cache_directory() if JIT else None
if CACHE_DIRECTORY is not None:
    _remove_old_caches(CACHE_DIRECTORY)


@contextlib.contextmanager
def _numba_caches_in(directory: Path) -> Iterator[None]:
    """Numba fixes a function's cache location when it is decorated, so its setting is ours only then."""
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(directory)
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before


def kernel(function: Function) -> Function:
    """Compile a hot loop on its first call, or load it from the cache."""
    if not JIT:
        return function
    compiled: Function
    if CACHE_DIRECTORY is None:
        compiled = numba.njit(nogil=True)(function)
        return compiled
    with _numba_caches_in(CACHE_DIRECTORY):
        compiled = numba.njit(nogil=True, cache=True)(function)
    return compiled


def inlined(function: Function) -> Function:
    """A part of kernels: inlined by LLVM, which compiles three times faster than inlining Numba's IR."""
    if not JIT:
        return function
    compiled: Function = numba.njit(forceinline=True, nogil=True)(function)
    return compiled
