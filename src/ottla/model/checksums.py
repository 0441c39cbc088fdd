"""CRC-32C, of the compiled module inside of the package `crc32c`.

The package itself is not run: it looks up its own version, which takes a tenth of a broker's start.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec

_PACKAGE, _MODULE = "crc32c", "crc32c._crc32c"


def _compiled() -> Callable[[bytes | bytearray | memoryview], int]:
    package = find_spec(_PACKAGE)
    places = package.submodule_search_locations if package is not None else None
    spec = PathFinder.find_spec(_MODULE, places)
    if spec is None or spec.loader is None:
        raise ImportError(f"no module {_MODULE}", name=_MODULE)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[[bytes | bytearray | memoryview], int] = module.crc32c
    return function


crc32c = _compiled()
"""The checksum of bytes."""
