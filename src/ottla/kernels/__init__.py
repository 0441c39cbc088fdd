"""Hot loops over bytes and arrays: Numba kernels, and NumPy ones with the same names, arguments and results.

`path()` has those that serve now (see `tiers`). An operation that calls several kernels, or that looks at
`VERIFY`, asks for it once. The file of each kernel says what it does.
"""

from __future__ import annotations

from typing import Any

from ottla.kernels.tiers import TIERS

use = TIERS.use
hasten = TIERS.hasten


def path() -> Any:
    """The kernels that serve now: a module or namespace with the names of `numpy_path`."""
    return TIERS.path
