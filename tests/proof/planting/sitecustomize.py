"""Plants a bug: a process that has this directory on PYTHONPATH reads a module with other text.

OTTLA_PLANT is a JSON object: `module`, and the texts `old` and `new`. Processes that such a process starts
have the bug too. The file keeps its path, so compiled kernels are found in their cache.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class PlantingLoader(SourceFileLoader):
    """Compiles another text than that of the file, and keeps no bytecode of it."""

    old = new = ""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        text = self.get_data(path).decode()
        if text.count(self.old) != 1:
            raise ImportError(f"{path} has the text of the plant {text.count(self.old)} times, not once")
        code: CodeType = self.source_to_code(text.replace(self.old, self.new).encode(), path)
        return code


class PlantingFinder(MetaPathFinder):
    """Finds the module that gets the bug, and no other."""

    def __init__(self, module: str, old: str, new: str) -> None:
        self._module = module
        self._old, self._new = old, new

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            loader = PlantingLoader(fullname, spec.origin)
            loader.old, loader.new = self._old, self._new
            spec.loader = loader
        return spec


if "OTTLA_PLANT" in os.environ:
    sys.meta_path.insert(0, PlantingFinder(**json.loads(os.environ["OTTLA_PLANT"])))
