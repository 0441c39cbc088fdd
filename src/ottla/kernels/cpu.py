"""What the CPU can do that kernels may use."""

from __future__ import annotations

import os
import platform

from ottla.kernels import kernel


def has_feature(name: str) -> bool:
    """Whether kernels of this process may use an extension of x86, by LLVM's name for it.

    Not when the user told Numba to compile for another CPU: LLVM would abort the process on an intrinsic.
    """
    if not kernel.JIT or platform.machine().lower() not in {"x86_64", "amd64"}:
        return False
    if os.environ.get("NUMBA_CPU_NAME") or os.environ.get("NUMBA_CPU_FEATURES"):
        return False
    from llvmlite import binding

    return bool(binding.get_host_cpu_features().get(name, False))
