"""The one decorator for hot loops.

A kernel is a top-level function over contiguous arrays and integers: arrays in, arrays out, a status
integer back; no objects, no exceptions, no allocation. It checks every position that it reads from bytes
against the arrays it was given; Arrow's offsets come checked. `kernel` compiles it with Numba (releasing
the GIL); `inlined` is for the small functions that kernels call. The same source runs as plain Python
under ``NUMBA_DISABLE_JIT=1``.

Import never fails: where Numba is missing or broken, `UNAVAILABLE_BECAUSE` says why, and the functions are
plain Python. `ottla.kernels.tiers` decides whether they serve.
"""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from ottla.kernels.cache import cache_directory, remove_old_caches

Function = TypeVar("Function", bound=Callable[..., Any])

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


CACHE_DIRECTORY = cache_directory() if JIT else None
if CACHE_DIRECTORY is not None:
    remove_old_caches(CACHE_DIRECTORY)


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
        compiled = numba.njit(nogil=True, no_cfunc_wrapper=True)(function)
        return compiled
    with _numba_caches_in(CACHE_DIRECTORY):
        compiled = numba.njit(nogil=True, no_cfunc_wrapper=True, cache=True)(function)
    return compiled


def inlined(function: Function) -> Function:
    """A part of kernels: inlined by LLVM, which compiles three times faster than inlining Numba's IR."""
    if not JIT:
        return function
    compiled: Function = numba.njit(forceinline=True, nogil=True, no_cfunc_wrapper=True)(function)
    return compiled


def has_feature(name: str) -> bool:
    """Whether kernels of this process may use an extension of x86, by LLVM's name for it.

    False when Numba is set to compile for another CPU: LLVM would abort the process on an intrinsic.
    """
    if not JIT or platform.machine().lower() not in {"x86_64", "amd64"}:
        return False
    if os.environ.get("NUMBA_CPU_NAME") or os.environ.get("NUMBA_CPU_FEATURES"):
        return False
    from llvmlite import binding

    return bool(binding.get_host_cpu_features().get(name, False))
